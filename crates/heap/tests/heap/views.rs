//! Views: pointers that are not counted.

use tembo_heap::{Error, Heap, Persist, Ptr, Slice};

use crate::{objects, volatile};

#[derive(Persist)]
struct Node<'h> {
    value: u64,
    next: Option<Ptr<'h, Node<'h>>>,
}

/// Makes a list of so many nodes with a value, and the root refer to it.
fn relink(heap: Heap<'_>, value: u64, count: usize) {
    let relinked = heap.atomic(|tx| {
        let mut next = None;
        for _ in 0..count {
            next = Some(tx.alloc(Node { value, next })?);
        }
        match tx.root::<Node<'_>>()? {
            Some(root) => tx.set(&root, Node::NEXT, next),
            None => {
                let root = tx.alloc(Node { value: 0, next })?;
                tx.set_root(&root)
            }
        }
    });
    relinked.unwrap();
}

/// The values of the list, each as often as it is there.
fn values(heap: Heap<'_>) -> Vec<u64> {
    let found = heap.atomic(|tx| {
        let mut view = tx.view();
        let root = view.root::<Node<'_>>()?.ok_or(Error::NoRoot)?;
        let (mut found, mut at) = (Vec::new(), view.follow(root, Node::NEXT)?);
        while let Some(node) = at {
            let mut node = view.look(node)?;
            found.push(node.get(Node::VALUE)?);
            at = node.follow(Node::NEXT)?;
        }
        Ok::<_, Error>(found)
    });
    found.unwrap()
}

#[test]
fn what_takes_the_place_of_what_a_view_points_to_is_not_seen() {
    let file = volatile();
    file.enter(|heap| {
        relink(heap, 1, 1);
        let offset = |tx: &mut tembo_heap::Transaction<'_>| {
            let root = tx.root::<Node<'_>>()?.ok_or(Error::NoRoot)?;
            Ok::<_, Error>(tx.get(&root, Node::NEXT)?.map(|node| node.offset()))
        };
        let before = heap.atomic(offset).unwrap();
        let mut attempts = 0;
        let seen = heap.atomic(|tx| {
            attempts += 1;
            let mut view = tx.view();
            let root = view.root::<Node<'_>>()?.ok_or(Error::NoRoot)?;
            let node = view.follow(root, Node::NEXT)?.ok_or(Error::NoRoot)?;
            if attempts == 1 {
                // Another thread destroys the node, and makes one with the value 2 in its place.
                let other = || {
                    relink(heap, 0, 0);
                    (0..256).for_each(|_| {
                        if heap.atomic(offset).unwrap() != before {
                            relink(heap, 2, 1);
                        }
                    });
                    assert_eq!(heap.atomic(offset).unwrap(), before, "its place is used again");
                };
                std::thread::scope(|scope| scope.spawn(other).join().unwrap());
            }
            view.get(node, Node::VALUE)
        });
        assert_eq!((seen.unwrap(), attempts), (2, 2));
    });
}

#[test]
fn views_see_one_list_while_others_take_its_place() {
    let file = volatile();
    file.enter(|heap| {
        relink(heap, 1, 8);
        std::thread::scope(|scope| {
            for thread in 0..2 {
                scope.spawn(move || (0..400).for_each(|n| relink(heap, 2 * n + thread, 8)));
            }
            for _ in 0..2 {
                scope.spawn(move || {
                    for _ in 0..2000 {
                        let found = values(heap);
                        assert_eq!(found, vec![found[0]; 8], "one state");
                    }
                });
            }
        });
    });
    assert_eq!(objects(&file), 9);
}

#[test]
fn a_view_sees_what_its_transaction_has_changed_and_what_it_keeps_stays() {
    let file = volatile();
    file.enter(|heap| {
        relink(heap, 1, 3);
        let kept = heap.atomic(|tx| {
            let root = tx.root::<Node<'_>>()?.ok_or(Error::NoRoot)?;
            let first = tx.get(&root, Node::NEXT)?.ok_or(Error::NoRoot)?;
            tx.set(&first, Node::VALUE, 7)?;
            let slice = tx.alloc_slice::<Ptr<'_, Node<'_>>>(2)?;
            tx.set_cell(&slice, 1, first)?;
            let mut view = tx.view();
            let cells = view.at(&slice)?;
            let node = view.follow_cell::<Ptr<'_, _>>(cells, 1)?.ok_or(Error::NoRoot)?;
            assert_eq!(view.get(node, Node::VALUE)?, 7);
            assert!(view.follow_cell(cells, 0)?.is_none(), "an empty cell");
            let beyond = view.follow_cell(cells, 2).map(drop);
            assert!(matches!(beyond, Err(Error::NoSuchElement { index: 2, len: 2 })));
            let second = view.follow(node, Node::NEXT)?.ok_or(Error::NoRoot)?;
            view.keep(second)
        });
        let kept: Ptr<'_, Node<'_>> = kept.unwrap();
        relink(heap, 0, 0);
        heap.settle().unwrap();
        assert_eq!(heap.atomic(|tx| tx.get(&kept, Node::VALUE)).unwrap(), 1);
    });
    assert_eq!(objects(&file), 1);
}

#[test]
fn a_view_follows_no_pointer_to_an_object_of_another_type_or_of_no_commit() {
    let file = volatile();
    file.enter(|heap| {
        heap.atomic(|tx| {
            let root = tx.alloc(1_u32)?;
            tx.set_root(&root)
        })
        .unwrap();
        heap.atomic(|tx| {
            let mut view = tx.view();
            let root = view.root::<Node<'_>>()?.ok_or(Error::NoRoot)?;
            assert!(matches!(view.look(root).map(drop), Err(Error::WrongType { .. })));
            Ok::<_, Error>(())
        })
        .unwrap();
        let mut void: Option<Ptr<'_, Slice<u64>>> = None;
        let failed: Result<(), Error> = heap.atomic(|tx| {
            void = Some(tx.alloc_slice(1)?);
            Err(Error::NoRoot)
        });
        assert!(matches!(failed, Err(Error::NoRoot)));
        let void = void.unwrap();
        let seen = heap.atomic(|tx| {
            let mut view = tx.view();
            let cells = view.at(&void)?;
            view.cell(cells, 0)
        });
        assert!(matches!(seen, Err(Error::NotCommitted)));
    });
}

#[test]
fn what_was_freed_by_hand_is_not_seen() {
    let file = volatile();
    file.base(|heap| {
        let node = heap.alloc(Node { value: 1, next: None })?;
        let cells = heap.alloc_slice::<Ptr<'_, Node<'_>>>(1)?;
        heap.set_cell(&cells, 0, node.clone())?;
        heap.free(node)?;
        let mut view = heap.view();
        let cells = view.at(&cells)?;
        let node = view.follow_cell(cells, 0)?.ok_or(Error::NoRoot)?;
        assert!(matches!(view.get(node, Node::VALUE), Err(Error::Freed)));
        Ok::<_, Error>(())
    })
    .unwrap();
}
