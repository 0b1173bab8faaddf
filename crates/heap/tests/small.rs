//! A small heap in memory, in each layer, by one thread and by two: small enough for Miri (see `docs/soundness.md`).
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use tembo_heap::{Error, HeapFile, PMap, PVec, Persist, PoolOptions, Ptr, Weak};

const ROUNDS: u64 = if cfg!(miri) { 4 } else { 200 };

#[derive(Persist)]
struct Node<'h> {
    value: u64,
    next: Option<Ptr<'h, Node<'h>>>,
    back: Option<Weak<'h, Node<'h>>>,
    numbers: PVec<'h, u64>,
    names: PMap<'h, u64>,
}

fn node<'h>(value: u64) -> Node<'h> {
    Node { value, next: None, back: None, numbers: PVec::new(), names: PMap::new() }
}

fn file() -> HeapFile {
    let mut options = PoolOptions { size: 1 << 20, ..PoolOptions::default() };
    options.region.size_max = 8 << 20;
    HeapFile::volatile(&options).unwrap()
}

/// Everything is destroyed, and every byte accounted for.
fn objects(file: &HeapFile) -> u64 {
    file.enter(|heap| heap.settle()).unwrap();
    let check = file.check().unwrap();
    assert_eq!((check.account.leaked, check.account.dangling), (0, 0));
    check.tenants[0].1.counts[0].1
}

#[test]
fn transactions_link_and_unlink() {
    let file = file();
    file.enter(|heap| {
        let root = heap.root_or::<_, Error>(|_| Ok(node(0))).unwrap();
        for value in 0..ROUNDS {
            heap.atomic(|tx| {
                let next = tx.alloc(node(value))?;
                let weak = tx.downgrade(&root)?;
                tx.set(&next, Node::BACK, Some(weak))?;
                root.field(Node::NUMBERS).push(tx, value)?;
                root.field(Node::NAMES).insert(tx, format!("{value}"), value)?;
                tx.set(&root, Node::NEXT, Some(next))
            })
            .unwrap();
        }
        heap.atomic(|tx| {
            let next = tx.get(&root, Node::NEXT)?.ok_or(Error::NoRoot)?;
            let back = tx.get(&next, Node::BACK)?.ok_or(Error::NoRoot)?;
            assert!(tx.upgrade(&back)?.is_some_and(|back| back.is(&root)));
            assert_eq!(root.field(Node::NUMBERS).len(tx)?, ROUNDS);
            tx.set(&root, Node::NUMBERS, PVec::new())?;
            tx.set(&root, Node::NAMES, PMap::new())?;
            // A cycle, which is unlinked.
            tx.set(&next, Node::NEXT, Some(next.clone()))?;
            tx.set(&root, Node::NEXT, None)
        })
        .unwrap();
        while !heap.collect_cycles(1).unwrap() {}
    });
    assert_eq!(objects(&file), 1);
}

#[test]
fn checkpoints_free_what_is_not_needed() {
    let file = file();
    file.base(|heap| {
        let root = heap.alloc(node(0))?;
        heap.set_root(&root)?;
        for value in 0..ROUNDS {
            let next = heap.alloc(node(value))?;
            let before = heap.get(&root, Node::NEXT)?;
            heap.set(&root, Node::NEXT, Some(next))?;
            before.map_or(Ok(()), |before| heap.free(before))?;
            heap.checkpoint()?;
        }
        Ok::<(), Error>(())
    })
    .unwrap();
    file.enter(|heap| {
        heap.safe(|heap| {
            let root: Ptr<'_, Node<'_>> = heap.root()?.ok_or(Error::NoRoot)?;
            let next = heap.get(&root, Node::NEXT)?.ok_or(Error::NoRoot)?;
            let weak = heap.downgrade(&next)?;
            heap.set(&root, Node::NEXT, None)?;
            drop(next);
            heap.checkpoint()?;
            assert!(heap.upgrade(&weak)?.is_none());
            Ok::<(), Error>(())
        })
        .unwrap();
    });
    assert_eq!(objects(&file), 1);
}

#[test]
fn two_threads_count_together() {
    let file = file();
    file.enter(|heap| {
        let root = heap.root_or::<_, Error>(|_| Ok(node(0))).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..ROUNDS {
                        heap.atomic(|tx| {
                            let value = tx.get(&root, Node::VALUE)?;
                            let next = tx.alloc(node(value))?;
                            tx.set(&root, Node::NEXT, Some(next))?;
                            tx.set(&root, Node::VALUE, value + 1)
                        })
                        .unwrap();
                    }
                });
            }
        });
        assert_eq!(heap.atomic(|tx| tx.get(&root, Node::VALUE)).unwrap(), 2 * ROUNDS);
    });
    assert_eq!(objects(&file), 2);
}
