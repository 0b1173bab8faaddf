//! What safe code tries: see `docs/soundness.md`. The answer is an error, a wrong value or a panic, and the heap opens again.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tembo_heap::{Error, HeapFile, Persist, PoolOptions, Ptr, Reader, Shape, Slice, Writer, hash};

use crate::counts::Node;
use crate::{after_a_crash, objects, volatile};

/// A type whose layout is `shape`, named `name`, both as a program can have them by hand.
macro_rules! by_hand {
    ($type:ident, $name:expr, $words:expr, $shape:expr) => {
        struct $type;

        impl<'h> Persist<'h> for $type {
            const WORDS: u64 = $words;
            const NAME: u64 = hash(0, stringify!($type));
            const LAYOUT: u64 = 1;

            fn name() -> String {
                $name()
            }

            fn shape() -> Shape {
                $shape
            }

            fn write(&self, to: &mut Writer<'_, 'h>) {
                to.zeroes($words);
            }

            fn read(_: &mut Reader<'_, 'h>) -> Result<Self, Error> {
                Ok($type)
            }
        }
    };
}

fn word() -> Shape {
    Shape::Plain { name: "word".into(), words: 1 }
}

/// So many levels around a word.
fn nested(levels: usize) -> Shape {
    (0..levels).fold(word(), |inner, _| Shape::Fields(vec![("inner".into(), inner)]))
}

thread_local! {
    static CALLS: Cell<u32> = const { Cell::new(0) };
}

/// A name that panics when it is asked for the second time.
fn name_once() -> String {
    let calls = CALLS.replace(CALLS.get() + 1);
    assert_eq!(calls, 0, "on purpose");
    "Once".to_owned()
}

by_hand!(Deep, || "Deep".to_owned(), 1, nested(64));
by_hand!(JustDeepEnough, || "JustDeepEnough".to_owned(), 1, nested(63));
by_hand!(Contradicting, || "Contradicting".to_owned(), 2, word());
by_hand!(Once, name_once, 1, word());

#[test]
fn a_layout_that_no_opening_would_understand_is_refused() {
    let file = volatile();
    file.enter(|heap| {
        let deep = heap.atomic(|tx| tx.alloc(Deep).map(drop));
        assert!(matches!(deep, Err(Error::NoLayout { name }) if name == "Deep"));
        let contradicting = heap.atomic(|tx| tx.alloc(Contradicting).map(drop));
        assert!(matches!(contradicting, Err(Error::NoLayout { .. })));
        heap.atomic(|tx| tx.alloc(JustDeepEnough).map(drop)).unwrap();
    });
    assert_eq!(objects(&after_a_crash(&file)), 0);
}

#[test]
fn a_type_whose_name_panics_leaves_the_heap_as_it_was() {
    let file = volatile();
    file.enter(|heap| {
        let _ = catch_unwind(AssertUnwindSafe(|| heap.atomic(|tx| tx.alloc(Once).map(drop))));
        heap.atomic(|tx| {
            let node = tx.alloc(Node { value: 3, next: None })?;
            tx.set_root(&node)
        })
        .unwrap();
    });
    let again = after_a_crash(&file);
    let value = again.enter(|heap| {
        let node = heap.root::<Node<'_>>().unwrap().unwrap();
        heap.atomic(|tx| tx.get(&node, Node::VALUE)).unwrap()
    });
    assert_eq!(value, 3);
}

#[test]
fn slices_of_values_without_size_are_as_long_as_they_say() {
    const LEN: u64 = 1 << 60;
    let file = volatile();
    file.enter(|heap| {
        let root = heap.atomic(|tx| {
            let units = tx.alloc_slice::<()>(LEN)?;
            let empty = tx.alloc_slice::<[Ptr<'_, u64>; 0]>(LEN)?;
            tx.set_cell(&units, LEN - 1, ())?;
            let root = tx.alloc((units, empty))?;
            tx.set_root(&root)?;
            Ok::<Ptr<'_, (Ptr<'_, Slice<()>>, Ptr<'_, Slice<[Ptr<'_, u64>; 0]>>)>, Error>(root)
        });
        let root = root.unwrap();
        let units = heap.atomic(|tx| tx.read(&root)).unwrap().0;
        assert_eq!(heap.atomic(|tx| tx.slice_len(&units)).unwrap(), LEN);
    });
    assert_eq!(objects(&file), 3);
    file.enter(|heap| {
        heap.atomic(|tx| {
            let other = tx.alloc(1_u64)?;
            tx.set_root(&other)
        })
        .unwrap();
    });
    assert_eq!(objects(&file), 1, "they are destroyed, too");
}

mod one {
    #[derive(tembo_heap::Persist)]
    #[persist(name = "the same")]
    pub(super) struct Same {
        pub(super) word: u64,
    }
}

mod two {
    #[derive(tembo_heap::Persist)]
    #[persist(name = "the same")]
    pub(super) struct Same {
        pub(super) word: i64,
    }
}

#[test]
fn types_of_one_name_and_two_layouts_are_two() {
    let file = volatile();
    file.enter(|heap| {
        heap.atomic(|tx| {
            let one = tx.alloc(one::Same { word: u64::MAX })?;
            tx.set_root(&one)
        })
        .unwrap();
        let other = heap.atomic(|tx| tx.alloc(two::Same { word: -1 }).map(drop));
        assert!(matches!(other, Err(Error::WrongLayout { name }) if name == "the same"));
        assert!(matches!(heap.root::<two::Same>(), Err(Error::WrongLayout { .. })));
        let same = heap.root::<one::Same>().unwrap().unwrap();
        assert_eq!(heap.atomic(|tx| tx.get(&same, one::Same::WORD)).unwrap(), u64::MAX);
    });
}

#[test]
fn what_a_transaction_has_linked_is_there_when_it_commits() {
    let file = volatile();
    file.enter(|heap| {
        let root = heap.root_or::<_, Error>(|_| Ok(Node { value: 0, next: None })).unwrap();
        // Only the program refers to it, and gives its pointer away.
        let mut node = Some(heap.atomic(|tx| tx.alloc(Node { value: 8, next: None })).unwrap());
        heap.atomic(|tx| {
            tx.set(&root, Node::NEXT, node.take())?;
            heap.settle()
        })
        .unwrap();
        let node = heap.atomic(|tx| tx.get(&root, Node::NEXT)).unwrap().unwrap();
        assert_eq!(heap.atomic(|tx| tx.get(&node, Node::VALUE)).unwrap(), 8);
        // The same, and it is taken back.
        let mut other = Some(heap.atomic(|tx| tx.alloc(Node { value: 9, next: None })).unwrap());
        let failed = heap.atomic(|tx| {
            tx.set(&root, Node::NEXT, other.take())?;
            Err::<(), _>(Error::NoRoot)
        });
        assert!(failed.is_err());
    });
    assert_eq!(objects(&file), 2);
}

#[test]
fn what_a_transaction_changes_is_there_when_it_commits() {
    let file = volatile();
    file.enter(|heap| {
        // Only the program refers to it, and drops its pointer.
        let mut orphan = Some(heap.atomic(|tx| tx.alloc(Node { value: 1, next: None })).unwrap());
        heap.atomic(|tx| {
            let node = orphan.take().ok_or(Error::NoRoot)?;
            tx.set(&node, Node::VALUE, 2)?;
            drop(node);
            heap.settle()?;
            let root = tx.alloc(Node { value: 3, next: None })?;
            tx.set_root(&root)
        })
        .unwrap();
        let root = heap.root::<Node<'_>>().unwrap().unwrap();
        assert_eq!(heap.atomic(|tx| tx.get(&root, Node::VALUE)).unwrap(), 3);
    });
    assert_eq!(objects(&file), 1);
    assert_eq!(objects(&after_a_crash(&file)), 1);
}

#[test]
fn what_another_thread_unlinks_is_there_when_the_transaction_that_changes_it_commits() {
    let file = volatile();
    file.enter(|heap| {
        let root = heap.root_or::<_, Error>(|_| Ok(Node { value: 0, next: None })).unwrap();
        let weak = heap.atomic(|tx| {
            let next = tx.alloc(Node { value: 1, next: None })?;
            tx.set(&root, Node::NEXT, Some(next.clone()))?;
            tx.downgrade(&next)
        });
        let weak = weak.unwrap();
        heap.atomic(|tx| {
            let next = tx.upgrade(&weak)?.ok_or(Error::NoRoot)?;
            tx.set(&next, Node::VALUE, 2)?;
            drop(next);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    heap.atomic(|tx| tx.set(&root, Node::NEXT, None)).unwrap();
                    heap.settle().unwrap();
                });
            });
            let made = tx.alloc(Node { value: 9, next: None })?;
            tx.set_root(&made)
        })
        .unwrap();
        let made = heap.root::<Node<'_>>().unwrap().unwrap();
        assert_eq!(heap.atomic(|tx| tx.get(&made, Node::VALUE)).unwrap(), 9);
        drop(weak);
    });
    assert_eq!(objects(&file), 1);
}

#[test]
fn an_orphan_that_is_linked_and_not_within_one_transaction_keeps_its_place() {
    let file = volatile();
    file.enter(|heap| {
        let orphan = heap.atomic(|tx| tx.alloc(Node { value: 1, next: None })).unwrap();
        for _ in 0..3 {
            heap.atomic(|tx| tx.alloc(Node { value: 2, next: Some(orphan.clone()) }).map(drop))
                .unwrap();
        }
        assert_eq!(objects(&file), 1);
        assert_eq!(objects(&after_a_crash(&file)), 1 - 1, "dead on open");
        let others: Vec<_> = (0..40)
            .map(|value| heap.atomic(|tx| tx.alloc(Node { value, next: None })).unwrap())
            .collect();
        drop(orphan);
        assert_eq!(objects(&file), others.len() as u64);
    });
    assert_eq!(objects(&file), 0);
}

#[test]
fn a_heap_is_settled_within_a_transaction_and_beside_others() {
    let file = volatile();
    file.enter(|heap| {
        let root = heap.root_or::<_, Error>(|_| Ok(Node { value: 0, next: None })).unwrap();
        heap.atomic(|tx| {
            tx.set(&root, Node::VALUE, 1)?;
            heap.settle()
        })
        .unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| (0..200).for_each(|_| heap.settle().unwrap()));
            scope.spawn(|| {
                for value in 0..200 {
                    heap.atomic(|tx| {
                        let next = tx.alloc(Node { value, next: None })?;
                        tx.set(&root, Node::NEXT, Some(next))
                    })
                    .unwrap();
                }
            });
            for _ in 0..20 {
                heap.sweep().unwrap();
            }
        });
    });
    assert_eq!(objects(&file), 2);
}

#[test]
fn any_flipped_bit_of_a_heap_gives_an_error_or_a_value() {
    let options = PoolOptions { size: 1 << 20, ..PoolOptions::default() };
    let file = HeapFile::volatile(&options).unwrap();
    file.enter(|heap| {
        heap.atomic(|tx| {
            let slice = tx.alloc_slice::<Option<Ptr<'_, Node<'_>>>>(3)?;
            let node = tx.alloc(Node { value: 1, next: None })?;
            let weak = tx.downgrade(&node)?;
            tx.set_cell(&slice, 1, Some(node.clone()))?;
            let bytes = tx.alloc_bytes(b"some bytes")?;
            let root = tx.alloc((slice, weak, bytes))?;
            tx.set_root(&root)
        })
        .unwrap();
    });
    let region = file.pool().region();
    let image = region.media_bytes(0, region.size()).unwrap().to_vec();
    let used = file.pool().usage().frontier as usize;
    let root = file.pool().tenants().unwrap()[0].root.offset() as usize;
    // All lines of the heap lie behind its root; each word of them has some of its bits flipped.
    for at in (root..used).step_by(8).filter(|at| image[*at..*at + 8] != [0; 8]) {
        for bit in [0, 5, 21, 40, 43, 48, 52, 63] {
            let mut image = image.clone();
            image[at + bit / 8] ^= 1 << (bit % 8);
            look(&image);
            change(&image);
        }
    }
}

/// Looks at a heap by all means that there are.
fn look(image: &[u8]) {
    let Some(file) = crate::open_image(image) else { return };
    // A damaged heap gives errors and wrong values: neither is of interest here.
    let _ = file.check();
    let _ = file.report();
    let _ = file.objects::<Error>(&mut |_| Ok(()));
    file.enter(|heap| {
        let _ = heap.sweep();
    });
    let _ = file.check();
}

/// Does with a heap what can be done.
fn change(image: &[u8]) {
    type Root<'h> = (
        Ptr<'h, Slice<Option<Ptr<'h, Node<'h>>>>>,
        tembo_heap::Weak<'h, Node<'h>>,
        Ptr<'h, tembo_heap::Bytes>,
    );
    let Some(file) = crate::open_image(image) else { return };
    file.enter(|heap| {
        let _ = heap.atomic(|tx| {
            let Some(root) = tx.root::<Root<'_>>()? else { return Ok(()) };
            let (slice, weak, bytes) = tx.read(&root)?;
            let _ = tx.upgrade(&weak)?;
            let _ = tx.bytes(&bytes)?;
            let node = tx.cell(&slice, 1)?;
            tx.set_cell(&slice, 0, node)
        });
        let _ = heap.atomic(|tx| {
            let other = tx.alloc(1_u64)?;
            tx.set_root(&other)
        });
        let _ = heap.settle();
        let _ = heap.collect_cycles(100);
        let _ = heap.sweep();
    });
    let _ = file.check();
}

#[test]
fn transactions_of_two_threads_that_change_places_commit_what_they_hold() {
    let file = volatile();
    file.enter(|heap| {
        let one = heap.root_or::<_, Error>(|_| Ok(Node { value: 0, next: None })).unwrap();
        let two = heap.atomic(|tx| {
            let two = tx.alloc(Node { value: 0, next: None })?;
            tx.set(&one, Node::NEXT, Some(two.clone()))?;
            Ok::<_, Error>(two)
        });
        let two = two.unwrap();
        heap.atomic(|tx| {
            tx.set(&one, Node::VALUE, 1)?;
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    heap.atomic(|other| {
                        other.set(&two, Node::VALUE, 2)?;
                        std::mem::swap(tx, other);
                        Ok::<_, Error>(())
                    })
                    .unwrap();
                });
            });
            // This is the transaction of the thread that has ended.
            assert_eq!(tx.get(&two, Node::VALUE)?, 2);
            Ok::<_, Error>(())
        })
        .unwrap();
        let values = heap
            .atomic(|tx| Ok::<_, Error>((tx.get(&one, Node::VALUE)?, tx.get(&two, Node::VALUE)?)));
        assert_eq!(values.unwrap(), (1, 2));
    });
    assert_eq!(objects(&after_a_crash(&file)), 2);
}

#[test]
fn a_pointer_that_was_forgotten_in_a_session_keeps_its_object_until_the_next_opening() {
    let file = volatile();
    file.enter(|heap| {
        heap.safe(|heap| {
            let root = heap.alloc(Node { value: 1, next: None })?;
            heap.set_root(&root)?;
            std::mem::forget(heap.alloc(Node { value: 2, next: None })?);
            heap.checkpoint()
        })
        .unwrap();
    });
    assert_eq!(objects(&file), 2);
    assert_eq!(objects(&after_a_crash(&file)), 1);
}

#[derive(Persist)]
struct Block<const N: usize> {
    words: [u64; N],
}

#[derive(Persist)]
struct Mixed<T, const IS: bool, const BY: i8, const LETTER: char> {
    value: T,
}

#[test]
fn types_whose_constants_differ_have_names_of_their_own() {
    type One = Mixed<u64, true, -1, 'x'>;
    type Two = Mixed<u64, true, -2, 'x'>;
    assert_eq!(Block::<3>::name(), "heap::soundness::Block<3>");
    assert_eq!(One::name(), "heap::soundness::Mixed<u64, true, -1, x>");
    assert_ne!(Block::<3>::NAME, Block::<4>::NAME);
    assert_ne!(One::NAME, Two::NAME);
    let file = volatile();
    file.enter(|heap| {
        let root = heap.root_or::<(Ptr<'_, Block<3>>, Ptr<'_, Block<4>>), Error>(|tx| {
            Ok((tx.alloc(Block { words: [3; 3] })?, tx.alloc(Block { words: [4; 4] })?))
        });
        let root = root.unwrap();
        let both = heap.atomic(|tx| {
            let (three, four) = tx.read(&root)?;
            Ok::<_, Error>((tx.read(&three)?.words, tx.read(&four)?.words))
        });
        assert_eq!(both.unwrap(), ([3; 3], [4; 4]));
    });
    assert_eq!(objects(&file), 3);
}
