//! Counts, destruction, and what only the program holds.

use tembo_heap::{Error, Heap, Persist, Ptr};

use crate::{after_a_crash, objects, volatile};

#[derive(Persist)]
pub(crate) struct Node<'h> {
    pub(crate) value: u64,
    pub(crate) next: Option<Ptr<'h, Node<'h>>>,
}

#[derive(Persist)]
struct Root<'h> {
    list: Option<Ptr<'h, Node<'h>>>,
    many: [Option<Ptr<'h, Node<'h>>>; 40],
}

fn none<'h>() -> Root<'h> {
    Root { list: None, many: std::array::from_fn(|_| None) }
}

fn push<'h>(heap: Heap<'h>, root: &Ptr<'h, Root<'h>>, value: u64) {
    let push = heap.atomic(|tx| {
        let next = tx.get(root, Root::LIST)?;
        let node = tx.alloc(Node { value, next })?;
        tx.set(root, Root::LIST, Some(node))
    });
    push.unwrap();
}

#[test]
fn a_list_of_any_length_is_destroyed_in_bounded_steps() {
    let file = volatile();
    file.enter(|heap| {
        let root = heap.root_or::<_, Error>(|_| Ok(none())).unwrap();
        (0..20_000).for_each(|value| push(heap, &root, value));
        heap.atomic(|tx| tx.set(&root, Root::LIST, None)).unwrap();
    });
    // A process that is ended in the midst leaves the rest to the next.
    let again = after_a_crash(&file);
    assert_eq!(objects(&file), 1);
    again.enter(|heap| heap.sweep()).unwrap();
    assert_eq!(objects(&again), 1);
}

#[test]
fn an_object_of_many_pointers_is_taken_apart_piece_by_piece() {
    let file = volatile();
    file.enter(|heap| {
        let made = heap.atomic(|tx| {
            let mut root = none();
            for (value, place) in root.many.iter_mut().enumerate() {
                *place = Some(tx.alloc(Node { value: value as u64, next: None })?);
            }
            root.list = root.many[3].clone();
            let root = tx.alloc(root)?;
            tx.set_root(&root)
        });
        made.unwrap();
    });
    assert_eq!(objects(&file), 41);
    file.enter(|heap| {
        let other = heap.atomic(|tx| {
            let other = tx.alloc(7_u64)?;
            tx.set_root(&other)
        });
        other.unwrap();
    });
    assert_eq!(objects(&file), 1);
}

#[test]
fn what_only_the_program_holds_lives_as_long_and_not_in_the_next_process() {
    let file = volatile();
    file.enter(|heap| {
        let held: Vec<_> = (0..100)
            .map(|value| heap.atomic(|tx| tx.alloc(Node { value, next: None })).unwrap())
            .collect();
        assert_eq!(objects(&file), 100);
        let again = after_a_crash(&file);
        again.enter(|heap| heap.sweep()).unwrap();
        assert_eq!(objects(&again), 0, "dead on open");
        // One of them is linked, and kept; the others go.
        let first = heap.atomic(|tx| tx.set_root(&held[5]));
        first.unwrap();
        let value = |node: &Ptr<'_, Node<'_>>| node.offset();
        let kept = value(&held[5]);
        drop(held);
        assert_eq!(objects(&file), 1);
        assert_eq!(heap.root::<Node<'_>>().unwrap().unwrap().offset(), kept);
    });
}

#[test]
fn a_pointer_that_was_forgotten_keeps_its_object_until_the_next_opening() {
    let file = volatile();
    file.enter(|heap| {
        std::mem::forget(heap.atomic(|tx| tx.alloc(1_u64)).unwrap());
    });
    assert_eq!(objects(&file), 1);
    let again = after_a_crash(&file);
    again.enter(|heap| heap.sweep()).unwrap();
    assert_eq!(objects(&again), 0);
}

#[test]
fn a_slice_of_pointers_is_destroyed_from_its_end() {
    let file = volatile();
    file.enter(|heap| {
        let made = heap.atomic(|tx| {
            let slice = tx.alloc_slice::<Option<Ptr<'_, Node<'_>>>>(100)?;
            for value in 0..100 {
                let node = tx.alloc(Node { value, next: None })?;
                tx.set_cell(&slice, value, Some(node))?;
            }
            assert!(matches!(
                tx.cell(&slice, 100),
                Err(Error::NoSuchElement { index: 100, len: 100 })
            ));
            tx.alloc((slice, 1_u64))
        });
        let made = made.unwrap();
        assert_eq!(objects(&file), 102);
        drop(made);
    });
    assert_eq!(objects(&file), 0);
}

#[test]
fn neighbours_that_die_together_are_destroyed_whole() {
    let file = volatile();
    file.enter(|heap| {
        for value in 0..10 {
            let pair = heap.atomic(|tx| {
                let inner = tx.alloc(value)?;
                tx.alloc((inner, 0_u64))
            });
            drop::<Ptr<'_, (Ptr<'_, u64>, u64)>>(pair.unwrap());
            heap.settle().unwrap();
        }
    });
    assert_eq!(objects(&file), 0);
}
