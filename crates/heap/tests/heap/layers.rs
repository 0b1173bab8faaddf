//! The layers BASE and SAFE: changes are durable at checkpoints, and cost what is stated.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tembo_heap::{Access, Base, Error, Heap, HeapFile, PVec, Persist, Ptr, Weak};
use tembo_pmem::Counters;
use tembo_pool::Error as PoolError;

use crate::counts::Node;
use crate::{after_a_crash, objects, volatile};

#[derive(Persist)]
struct Pair<'h> {
    word: u64,
    link: Option<Ptr<'h, Pair<'h>>>,
    back: Option<Weak<'h, Pair<'h>>>,
    numbers: PVec<'h, u64>,
}

fn pair<'h>(word: u64) -> Pair<'h> {
    Pair { word, link: None, back: None, numbers: PVec::new() }
}

fn fences(of: impl FnOnce()) -> u64 {
    let before = Counters::thread();
    of();
    (Counters::thread() - before).fences
}

fn base<R>(
    file: &HeapFile,
    body: impl for<'h> FnOnce(&mut Access<'h, Base>) -> Result<R, Error>,
) -> R {
    file.base(body).unwrap()
}

/// A root, and the lanes of the log have their numbers.
fn begun() -> HeapFile {
    let file = volatile();
    file.enter(|heap| {
        let root = heap.root_or::<_, Error>(|_| Ok(pair(0))).unwrap();
        (0..20).for_each(|word| heap.atomic(|tx| tx.set(&root, Pair::WORD, word)).unwrap());
        heap.atomic(|tx| tx.set(&root, Pair::WORD, 0)).unwrap();
    });
    file
}

fn word(file: &HeapFile) -> u64 {
    file.enter(|heap| {
        let root = heap.root::<Pair<'_>>().unwrap().unwrap();
        heap.atomic(|tx| tx.get(&root, Pair::WORD)).unwrap()
    })
}

/// The words behind the root.
fn list(heap: Heap<'_>) -> Vec<u64> {
    heap.atomic(|tx| {
        let (mut found, mut at) = (Vec::new(), tx.root::<Pair<'_>>()?);
        while let Some(pair) = at {
            found.push(tx.get(&pair, Pair::WORD)?);
            at = tx.get(&pair, Pair::LINK)?;
        }
        Ok::<_, Error>(found)
    })
    .unwrap()
}

#[test]
fn an_assignment_costs_no_fence_and_a_checkpoint_one() {
    let file = begun();
    file.enter(|heap| {
        heap.safe(|heap| {
            let root = heap.root::<Pair<'_>>()?.unwrap();
            assert_eq!(fences(|| heap.checkpoint().unwrap()), 0, "nothing was changed");
            let mut made = None;
            let assign = || {
                let other = heap.alloc(pair(1)).unwrap();
                heap.set(&root, Pair::LINK, Some(other.clone())).unwrap();
                heap.set(&root, Pair::WORD, 7).unwrap();
                made = Some(other);
            };
            assert_eq!(fences(assign), 0, "an object more, a pointer, a number");
            assert_eq!(fences(|| heap.checkpoint().unwrap()), 1);
            let weak = heap.downgrade(&root)?;
            heap.set(made.as_ref().unwrap(), Pair::BACK, Some(weak))?;
            assert_eq!(fences(|| heap.checkpoint().unwrap()), 1, "a weak pointer");
            Ok::<(), Error>(())
        })
        .unwrap();
    });
    base(&file, |heap| {
        let root = heap.root::<Pair<'_>>()?.unwrap();
        assert_eq!(fences(|| heap.checkpoint().unwrap()), 0, "nothing was changed");
        let link = heap.get(&root, Pair::LINK)?.unwrap();
        let change = || {
            heap.set(&root, Pair::LINK, None).unwrap();
            heap.free(link).unwrap();
        };
        assert_eq!(fences(change), 0);
        assert_eq!(fences(|| heap.checkpoint().unwrap()), 2, "an object less");
        let alone = heap.alloc(pair(9))?;
        assert_eq!(fences(|| heap.checkpoint().unwrap()), 1, "an object more");
        heap.free(alone)?;
        // Operations that name its space are void when it is used again.
        assert_eq!(fences(|| heap.checkpoint().unwrap()), 2, "one that was never linked");
        Ok(())
    });
    assert_eq!(objects(&file), 1);
}

#[test]
fn what_is_behind_the_last_checkpoint_is_lost() {
    let file = begun();
    file.enter(|heap| {
        let escaped = heap
            .safe(|heap| {
                let root = heap.root::<Pair<'_>>()?.unwrap();
                heap.set(&root, Pair::WORD, 1)?;
                heap.checkpoint()?;
                heap.set(&root, Pair::WORD, 2)?;
                let made = heap.alloc(pair(3))?;
                heap.set(&root, Pair::LINK, Some(made.clone()))?;
                assert_eq!(heap.get(&root, Pair::WORD)?, 2, "it sees what it has changed");
                Ok::<_, Error>(made)
            })
            .unwrap();
        assert_eq!(list(heap), [1]);
        let read = heap.atomic(|tx| tx.read(&escaped).map(drop));
        assert!(matches!(read, Err(Error::NotCommitted)));
    });
    base(&file, |heap| {
        let root = heap.root::<Pair<'_>>()?.unwrap();
        heap.set(&root, Pair::WORD, 4)?;
        let made = heap.alloc(pair(5))?;
        heap.set(&root, Pair::LINK, Some(made.clone()))?;
        heap.revert();
        assert_eq!(heap.get(&root, Pair::WORD)?, 1);
        assert!(matches!(heap.read(&made).map(drop), Err(Error::Freed)));
        let linked = heap.set(&root, Pair::LINK, Some(made));
        assert!(matches!(linked, Err(Error::Freed)), "a pointer to it cannot be stored");
        heap.set(&root, Pair::WORD, 6)
    });
    assert_eq!((word(&file), objects(&file)), (1, 1));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        base::<()>(&file, |heap| {
            let root = heap.root::<Pair<'_>>()?.unwrap();
            heap.set(&root, Pair::WORD, 8)?;
            panic!("on purpose")
        });
    }));
    assert!(panicked.is_err());
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        file.enter(|heap| {
            heap.safe::<(), Error>(|heap| {
                let root = heap.root::<Pair<'_>>()?.unwrap();
                heap.set(&root, Pair::WORD, 9)?;
                panic!("on purpose")
            })
        })
    }));
    assert!(panicked.is_err());
    assert_eq!((word(&file), objects(&file)), (1, 1));
    assert_eq!(word(&after_a_crash(&file)), 1);
}

#[test]
fn an_object_that_is_referred_to_is_not_freed() {
    let file = begun();
    base(&file, |heap| {
        let root = heap.root::<Pair<'_>>()?.unwrap();
        let one = heap.alloc(pair(1))?;
        let two = heap.alloc(Pair { link: Some(one.clone()), ..pair(2) })?;
        heap.set(&root, Pair::LINK, Some(two.clone()))?;
        heap.checkpoint()?;
        heap.free(one.clone())?;
        let refused = heap.checkpoint();
        assert!(
            matches!(refused, Err(Error::Referred { offset, count: 1 }) if offset == one.offset())
        );
        assert!(matches!(heap.free(one.clone()), Err(Error::Freed)), "twice");
        assert!(matches!(heap.read(&one).map(drop), Err(Error::Freed)));
        // What referred to it goes, too.
        heap.set(&root, Pair::LINK, None)?;
        heap.free(two)?;
        heap.checkpoint()?;
        let again = heap.alloc(pair(3))?;
        assert_ne!(again, root);
        heap.set(&root, Pair::LINK, Some(again))?;
        heap.checkpoint()
    });
    assert_eq!(objects(&file), 2);
    assert_eq!(file.enter(list), [0, 3]);
}

#[test]
fn space_that_was_freed_is_used_again_after_the_checkpoint() {
    let file = begun();
    base(&file, |heap| {
        let root = heap.root::<Pair<'_>>()?.unwrap();
        let one = heap.alloc(pair(1))?;
        heap.set(&root, Pair::LINK, Some(one.clone()))?;
        heap.checkpoint()?;
        heap.set(&root, Pair::LINK, None)?;
        heap.free(one.clone())?;
        let two = heap.alloc(pair(2))?;
        assert!(!two.is(&one), "the last checkpoint has what is there");
        heap.set(&root, Pair::LINK, Some(two))?;
        heap.checkpoint()?;
        let three = heap.alloc(pair(3))?;
        assert!(three.is(&one));
        assert_eq!(heap.get(&one, Pair::WORD)?, 3, "a pointer that was left shows what is there");
        heap.free(three)?;
        heap.checkpoint()?;
        // Of another type, in the same place.
        let other = heap.alloc([1_u64; 5])?;
        assert_eq!(other.offset(), one.offset());
        assert!(matches!(heap.read(&one).map(drop), Err(Error::WrongType { .. })));
        heap.free(other)?;
        heap.checkpoint()
    });
    assert_eq!(objects(&file), 2);
    assert_eq!(objects(&after_a_crash(&file)), 2);
}

#[test]
fn a_weak_pointer_to_what_is_freed_by_hand_gives_none() {
    let file = begun();
    let build = |heap: Heap<'_>| {
        heap.atomic(|tx| {
            let root = tx.root::<Pair<'_>>()?.ok_or(Error::NoRoot)?;
            let other = tx.alloc(pair(1))?;
            let weak = tx.downgrade(&other)?;
            tx.set(&root, Pair::BACK, Some(weak))?;
            tx.set(&root, Pair::LINK, Some(other))
        })
        .unwrap();
    };
    file.enter(build);
    base(&file, |heap| {
        let root = heap.root::<Pair<'_>>()?.unwrap();
        let other = heap.get(&root, Pair::LINK)?.unwrap();
        heap.set(&root, Pair::LINK, None)?;
        heap.free(other)?;
        heap.checkpoint()
    });
    file.enter(|heap| {
        heap.atomic(|tx| {
            let root = tx.root::<Pair<'_>>()?.unwrap();
            let weak = tx.get(&root, Pair::BACK)?.unwrap();
            assert!(tx.upgrade(&weak)?.is_none());
            tx.set(&root, Pair::BACK, None)
        })
        .unwrap();
    });
    assert_eq!(objects(&file), 1);
    file.enter(build);
    base(&file, |heap| {
        let root = heap.root::<Pair<'_>>()?.unwrap();
        let other = heap.get(&root, Pair::LINK)?.unwrap();
        // The last weak pointer goes, and its proxy: a copy in memory refers to nothing.
        let weak = heap.get(&root, Pair::BACK)?;
        heap.set(&root, Pair::BACK, None)?;
        heap.checkpoint()?;
        assert!(matches!(heap.set(&other, Pair::BACK, weak), Err(Error::Freed)));
        heap.set(&root, Pair::LINK, None)?;
        heap.free(other)?;
        heap.checkpoint()
    });
    assert_eq!(objects(&file), 1);
}

#[test]
fn an_object_that_a_counted_pointer_keeps_is_not_freed_by_hand() {
    let file = begun();
    file.enter(|outer| {
        let kept = outer
            .atomic(|tx| {
                let root = tx.root::<Pair<'_>>()?.ok_or(Error::NoRoot)?;
                let kept = tx.alloc(pair(1))?;
                tx.set(&root, Pair::LINK, Some(kept.clone()))?;
                Ok::<_, Error>(kept)
            })
            .unwrap();
        base(&file, |heap| {
            let root = heap.root::<Pair<'_>>()?.unwrap();
            let link = heap.get(&root, Pair::LINK)?.unwrap();
            heap.set(&root, Pair::LINK, None)?;
            heap.free(link.clone())?;
            assert!(matches!(heap.checkpoint(), Err(Error::Referred { count: 0, .. })));
            heap.revert();
            heap.read(&link).map(drop)
        });
        assert_eq!(outer.atomic(|tx| tx.get(&kept, Pair::WORD)).unwrap(), 1);
        assert_eq!(list(outer), [0, 1]);
    });
    assert_eq!(objects(&file), 2);
}

#[test]
fn the_layers_follow_each_other_in_one_heap() {
    let file = volatile();
    base(&file, |heap| {
        let root = heap.alloc(pair(0))?;
        heap.set_root(&root)?;
        let numbers = root.field(Pair::NUMBERS);
        for number in 0..3 {
            numbers.push(heap, number)?;
        }
        heap.checkpoint()
    });
    file.enter(|heap| {
        heap.safe(|heap| {
            let root = heap.root::<Pair<'_>>()?.unwrap();
            let mut last = root.clone();
            for word in 1..4 {
                let next = heap.alloc(pair(word))?;
                let weak = heap.downgrade(&last)?;
                heap.set(&next, Pair::BACK, Some(weak))?;
                heap.set(&last, Pair::LINK, Some(next.clone()))?;
                last = next;
            }
            root.field(Pair::NUMBERS).push(heap, 3)?;
            heap.checkpoint()?;
            let weak = heap.get(&last, Pair::BACK)?.unwrap();
            assert!(heap.upgrade(&weak)?.is_some());
            Ok::<(), Error>(())
        })
        .unwrap();
        assert_eq!(list(heap), [0, 1, 2, 3]);
        heap.atomic(|tx| {
            let root = tx.root::<Pair<'_>>()?.ok_or(Error::NoRoot)?;
            assert_eq!(root.field(Pair::NUMBERS).to_vec(tx)?, [0, 1, 2, 3]);
            let next = tx.get(&root, Pair::LINK)?.ok_or(Error::NoRoot)?;
            tx.set(&next, Pair::LINK, None)
        })
        .unwrap();
    });
    assert_eq!(objects(&file), 3, "two of the list, and the cells of the numbers");
    let again = after_a_crash(&file);
    assert_eq!(again.enter(list), [0, 1]);
    file.enter(|heap| {
        heap.safe(|heap| {
            let root = heap.root::<Pair<'_>>()?.unwrap();
            heap.set(&root, Pair::LINK, None)?;
            heap.checkpoint()
        })
        .unwrap();
    });
    assert_eq!(objects(&file), 2, "SAFE destroys what nothing refers to");
}

#[test]
fn a_use_of_a_heap_is_not_nested() {
    let file = begun();
    base(&file, |heap| {
        let root = heap.root::<Pair<'_>>()?.unwrap();
        let atomic = root.heap().atomic(|tx| tx.read(&root).map(drop));
        assert!(matches!(atomic, Err(Error::Nested)));
        assert!(matches!(file.base(|_| Ok::<(), Error>(())), Err(Error::Nested)));
        let safe = file.enter(|heap| heap.safe(|_| Ok::<(), Error>(())));
        assert!(matches!(safe, Err(Error::Nested)));
        Ok(())
    });
    file.enter(|heap| {
        heap.atomic(|_| {
            let safe = heap.safe(|_| Ok::<(), Error>(()));
            assert!(matches!(safe, Err(Error::Nested)));
            Ok::<(), Error>(())
        })
        .unwrap();
    });
}

#[test]
fn a_pool_that_is_full_leaves_the_last_checkpoint() {
    let region = tembo_pmem::RegionOptions { size_max: 1 << 20, ..Default::default() };
    let options = tembo_heap::PoolOptions { size: 1 << 20, region, ..Default::default() };
    let file = HeapFile::volatile(&options).unwrap();
    base(&file, |heap| {
        let root = heap.alloc(Node { value: 1, next: None })?;
        heap.set_root(&root)?;
        heap.checkpoint()?;
        let mut last = None;
        let full = loop {
            match heap.alloc(Node { value: 2, next: last.clone() }) {
                Ok(node) => last = Some(node),
                Err(error) => break error,
            }
        };
        assert!(matches!(full, Error::Pool(PoolError::PoolFull { .. })));
        heap.revert();
        assert!(matches!(heap.read(&last.unwrap()).map(drop), Err(Error::Freed)));
        // All of that space is at hand.
        let node = heap.alloc(Node { value: 3, next: None })?;
        heap.set(&root, Node::NEXT, Some(node))?;
        heap.checkpoint()
    });
    assert_eq!(objects(&file), 2);
    file.enter(|heap| {
        heap.safe(|heap| {
            let mut kept = Vec::new();
            while let Ok(words) = heap.alloc([0_u64; 4]) {
                kept.push(words);
            }
            assert!(kept.len() > 1000);
            heap.revert();
            Ok::<(), Error>(())
        })
        .unwrap();
    });
    assert_eq!(objects(&file), 2);
}

#[test]
fn a_checkpoint_of_many_objects_is_whole() {
    let file = volatile();
    base(&file, |heap| {
        let slice = heap.alloc_slice::<Option<Ptr<'_, Node<'_>>>>(2000)?;
        for value in 0..2000 {
            let node = heap.alloc(Node { value, next: None })?;
            heap.set_cell(&slice, value, Some(node))?;
        }
        let root = heap.alloc((slice.clone(), 0_u64))?;
        heap.set_root(&root)?;
        heap.checkpoint()?;
        for index in 0..1000 {
            let node = heap.cell(&slice, index)?.unwrap();
            heap.set_cell(&slice, index, None)?;
            heap.free(node)?;
        }
        heap.checkpoint()
    });
    assert_eq!(objects(&file), 1002);
    assert_eq!(objects(&after_a_crash(&file)), 1002);
}
