//! Transactions: whole or not at all, at the cost that is stated.

use tembo_heap::{Error, HeapFile, Persist, PoolOptions, Ptr};
use tembo_pmem::Counters;

use crate::counts::Node;
use crate::{after_a_crash, objects, volatile};

#[derive(Persist, Debug, PartialEq)]
enum Shape {
    Empty,
    Circle { radius: f64 },
    Rectangle(u32, i16),
}

#[derive(Persist)]
struct Pair<'h> {
    one: u64,
    two: u64,
    shape: Shape,
    link: Option<Ptr<'h, Pair<'h>>>,
}

fn pair<'h>() -> Pair<'h> {
    Pair { one: 1, two: 1, shape: Shape::Empty, link: None }
}

fn fences(of: impl FnOnce()) -> u64 {
    let before = Counters::thread();
    of();
    (Counters::thread() - before).fences
}

#[test]
fn fences_are_as_stated() {
    let file = volatile();
    file.enter(|heap| {
        let root = heap.root_or::<_, Error>(|_| Ok(pair())).unwrap();
        let other = heap.atomic(|tx| {
            let other = tx.alloc(pair())?;
            let held = tx.alloc((other.clone(), other.clone()))?;
            tx.set(&root, Pair::LINK, Some(other.clone()))?;
            Ok::<_, Error>((other, held))
        });
        let (other, _held) = other.unwrap();
        let one = |value: u64| {
            heap.atomic(|tx| {
                tx.set(&root, Pair::ONE, value)?;
                tx.set(&root, Pair::TWO, value)
            })
            .unwrap();
        };
        // The lanes of the log get their numbers once in a process.
        (0..20).for_each(one);
        assert_eq!(fences(|| heap.atomic(|_| Ok::<_, Error>(())).unwrap()), 0, "empty");
        assert_eq!(fences(|| drop(heap.atomic(|tx| tx.read(&root)).unwrap())), 0, "read only");
        assert_eq!(fences(|| one(77)), 1, "one object");
        let assign = |to: Option<_>| {
            heap.atomic(|tx| tx.set(&root, Pair::LINK, to.clone())).unwrap();
        };
        assert_eq!(fences(|| assign(None)), 1, "a pointer, and a count");
        assert_eq!(fences(|| assign(Some(other.clone()))), 1);
        let both = || {
            heap.atomic(|tx| {
                tx.set(&root, Pair::ONE, 5)?;
                tx.set(&other, Pair::ONE, 6)
            })
            .unwrap();
        };
        assert_eq!(fences(both), 1, "two objects");
        let make = || {
            heap.atomic(|tx| {
                let made = tx.alloc(pair())?;
                tx.set(&other, Pair::LINK, Some(made))
            })
            .unwrap();
        };
        assert_eq!(fences(make), 1, "an object more");
        let unlink = || heap.atomic(|tx| tx.set(&other, Pair::LINK, None)).unwrap();
        assert_eq!(fences(unlink), 2, "an object less");
        (0..3).for_each(|_| {
            heap.atomic(|tx| {
                let link = tx.get(&other, Pair::LINK)?;
                let made = tx.alloc(Pair { link, ..pair() })?;
                tx.set(&other, Pair::LINK, Some(made))
            })
            .unwrap();
        });
        assert_eq!(fences(unlink), 2, "a list of three less");
        assert_eq!(fences(|| heap.settle().unwrap()), 0, "nothing is left to be done");
        let failed = || {
            let failed: Result<(), Error> = heap.exclusive(|tx| {
                tx.set(&root, Pair::ONE, 9)?;
                Err(Error::Aborted)
            });
            assert!(failed.is_err());
        };
        assert_eq!(fences(failed), 0, "a rollback");
    });
}

#[test]
fn an_error_or_a_panic_takes_everything_back() {
    let file = volatile();
    file.enter(|heap| {
        let root = heap.root_or::<_, Error>(|_| Ok(pair())).unwrap();
        let mut escaped = None;
        let failed: Result<(), Error> = heap.atomic(|tx| {
            tx.set(&root, Pair::ONE, 2)?;
            let made = tx.alloc(pair())?;
            tx.set(&root, Pair::LINK, Some(made.clone()))?;
            escaped = Some(made);
            assert_eq!(tx.get(&root, Pair::ONE)?, 2, "it sees what it has changed");
            Err(Error::NoRoot)
        });
        assert!(matches!(failed, Err(Error::NoRoot)));
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            heap.atomic::<(), Error>(|tx| {
                tx.set(&root, Pair::TWO, 3)?;
                panic!("on purpose")
            })
        }));
        assert!(panicked.is_err());
        let now = heap.atomic(|tx| tx.read(&root)).unwrap();
        assert_eq!((now.one, now.two, now.link.is_none()), (1, 1, true));
        // What was made is no object, though a pointer to it has escaped.
        let escaped = escaped.unwrap();
        let read = heap.atomic(|tx| tx.read(&escaped).map(drop));
        assert!(matches!(read, Err(Error::NotCommitted)));
        let link = heap.atomic(|tx| tx.set(&root, Pair::LINK, Some(escaped.clone())));
        assert!(matches!(link, Err(Error::NotCommitted)));
        drop(escaped);
        heap.atomic(|tx| tx.set(&root, Pair::ONE, 4)).unwrap();
    });
    assert_eq!(objects(&file), 1);
}

#[test]
fn a_transaction_within_another_is_a_part_of_it() {
    let file = volatile();
    file.enter(|heap| {
        let root = heap.root_or::<_, Error>(|_| Ok(pair())).unwrap();
        let nested = heap.atomic(|tx| {
            tx.set(&root, Pair::ONE, 2)?;
            tx.atomic(|tx| tx.set(&root, Pair::TWO, 2))?;
            heap.atomic(|tx| tx.set(&root, Pair::TWO, 9))
        });
        assert!(matches!(nested, Err(Error::Nested)));
        let swallowed = heap.atomic(|tx| {
            tx.set(&root, Pair::ONE, 2)?;
            let _ = tx.atomic(|_| Err::<(), Error>(Error::NoRoot));
            Ok::<_, Error>(())
        });
        assert!(matches!(swallowed, Err(Error::Aborted)));
        assert_eq!(heap.atomic(|tx| tx.get(&root, Pair::ONE)).unwrap(), 1);
    });
}

#[test]
fn values_come_back_as_they_were() {
    let file = volatile();
    file.enter(|heap| {
        let root = heap.root_or::<_, Error>(|_| Ok(pair())).unwrap();
        for shape in [Shape::Circle { radius: -0.5 }, Shape::Rectangle(7, -9), Shape::Empty] {
            let copy = match shape {
                Shape::Circle { radius } => Shape::Circle { radius },
                Shape::Rectangle(a, b) => Shape::Rectangle(a, b),
                Shape::Empty => Shape::Empty,
            };
            heap.atomic(|tx| {
                tx.put(
                    &root.field(Pair::SHAPE),
                    match &copy {
                        Shape::Circle { radius } => Shape::Circle { radius: *radius },
                        Shape::Rectangle(a, b) => Shape::Rectangle(*a, *b),
                        Shape::Empty => Shape::Empty,
                    },
                )
            })
            .unwrap();
            assert_eq!(heap.atomic(|tx| tx.at(&root.field(Pair::SHAPE))).unwrap(), shape);
        }
    });
}

#[test]
fn a_transaction_larger_than_a_lane_of_the_log_commits_whole() {
    let file = volatile();
    file.enter(|heap| {
        let nodes: Vec<_> = heap
            .atomic(|tx| {
                let slice = tx.alloc_slice::<Option<Ptr<'_, Node<'_>>>>(500)?;
                for value in 0..500 {
                    let node = tx.alloc(Node { value, next: None })?;
                    tx.set_cell(&slice, value, Some(node))?;
                }
                let root = tx.alloc((slice.clone(), 0_u64))?;
                tx.set_root(&root)?;
                (0..500).map(|at| tx.cell(&slice, at).map(Option::unwrap)).collect()
            })
            .map_err(|error: Error| error)
            .unwrap();
        heap.atomic(|tx| nodes.iter().try_for_each(|node| tx.set(node, Node::VALUE, 1))).unwrap();
    });
    assert_eq!(objects(&file), 502);
    assert_eq!(objects(&after_a_crash(&file)), 502);
}

#[test]
fn a_heap_in_a_file_is_there_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("heap.pool");
    let options = PoolOptions { size: 4 << 20, ..PoolOptions::default() };
    let file = HeapFile::open_or_create(&path, &options).unwrap();
    file.enter(|heap| {
        let root = heap.root_or::<_, Error>(|_| Ok(pair())).unwrap();
        heap.atomic(|tx| tx.set(&root, Pair::TWO, 22)).unwrap();
    });
    file.close().unwrap();
    let file = HeapFile::open(&path, &options).unwrap();
    file.enter(|heap| {
        let root = heap.root::<Pair<'_>>().unwrap().unwrap();
        assert_eq!(heap.atomic(|tx| tx.get(&root, Pair::TWO)).unwrap(), 22);
    });
    drop(file);
    let two = tembo_heap::Heap::open(&path, |heap| {
        let root = heap.root::<Pair<'_>>()?.unwrap();
        heap.atomic(|tx| tx.get(&root, Pair::TWO))
    });
    assert_eq!(two.unwrap(), 22);
}
