//! Cycles: what they hold, what holds them, and what is left when nothing does.

use tembo_heap::{Error, Heap, Persist, Ptr, Weak};

use crate::counts::Node;
use crate::{after_a_crash, objects, volatile};

#[derive(Persist)]
struct Root<'h> {
    ring: Option<Ptr<'h, Ring<'h>>>,
    kept: Ptr<'h, Node<'h>>,
    watched: Option<Weak<'h, Ring<'h>>>,
}

#[derive(Persist)]
struct Ring<'h> {
    value: u64,
    next: Option<Ptr<'h, Ring<'h>>>,
    kept: Option<Ptr<'h, Node<'h>>>,
}

/// A root; a ring of two that refers to what the root refers to, and that the root watches.
fn make<'h>(heap: Heap<'h>) -> (Ptr<'h, Root<'h>>, Ptr<'h, Ring<'h>>) {
    heap.atomic(|tx| {
        let kept = tx.alloc(Node { value: 5, next: None })?;
        let one = tx.alloc(Ring { value: 1, next: None, kept: Some(kept.clone()) })?;
        let two = tx.alloc(Ring { value: 2, next: Some(one.clone()), kept: None })?;
        tx.set(&one, Ring::NEXT, Some(two))?;
        let watched = Some(tx.downgrade(&one)?);
        let root = tx.alloc(Root { ring: Some(one.clone()), kept, watched })?;
        tx.set_root(&root)?;
        Ok::<_, Error>((root, one))
    })
    .unwrap()
}

fn cut<'h>(heap: Heap<'h>, root: &Ptr<'h, Root<'h>>) {
    heap.atomic(|tx| tx.set(root, Root::RING, None)).unwrap();
}

/// Objects and types that take space beside those that are there still.
fn fill(heap: Heap<'_>) {
    heap.atomic(|tx| {
        let slice = tx.alloc_slice::<Ptr<'_, Ring<'_>>>(50)?;
        for index in 0..50 {
            let ring = tx.alloc(Ring { value: 99, next: None, kept: None })?;
            tx.set_cell(&slice, index, ring)?;
        }
        Ok::<_, Error>(())
    })
    .unwrap();
}

#[test]
fn new_objects_that_refer_to_each_other_only_are_written() {
    let file = volatile();
    file.enter(|heap| {
        let ring = heap.atomic(|tx| {
            let ring = tx.alloc(Ring { value: 7, next: None, kept: None })?;
            tx.set(&ring, Ring::NEXT, Some(ring.clone()))?;
            Ok::<_, Error>(ring)
        });
        let ring = ring.unwrap();
        assert_eq!(heap.atomic(|tx| tx.get(&ring, Ring::VALUE)).unwrap(), 7);
        heap.atomic(|tx| tx.set_root(&ring)).unwrap();
    });
    let again = after_a_crash(&file);
    again.enter(|heap| {
        let ring = heap.root::<Ring<'_>>().unwrap().unwrap();
        let (value, next) = heap
            .atomic(|tx| Ok::<_, Error>((tx.get(&ring, Ring::VALUE)?, tx.get(&ring, Ring::NEXT)?)))
            .unwrap();
        assert_eq!((value, next.unwrap().is(&ring)), (7, true));
    });
}

#[test]
fn a_cycle_that_the_program_holds_is_not_swept() {
    let file = volatile();
    file.enter(|heap| {
        let (root, ring) = make(heap);
        cut(heap, &root);
        assert!(heap.sweep().unwrap());
        fill(heap);
        assert_eq!(heap.atomic(|tx| tx.get(&ring, Ring::VALUE)).unwrap(), 1);
        let next = heap.atomic(|tx| tx.get(&ring, Ring::NEXT)).unwrap().unwrap();
        assert_eq!(heap.atomic(|tx| tx.get(&next, Ring::VALUE)).unwrap(), 2);
        drop(next);
        // It can be linked again.
        heap.atomic(|tx| tx.set(&root, Root::RING, Some(ring.clone()))).unwrap();
    });
    assert_eq!(objects(&file), 4);
}

#[test]
fn a_sweep_frees_cycles_and_what_only_they_held() {
    let file = volatile();
    file.enter(|heap| {
        let (root, ring) = make(heap);
        cut(heap, &root);
        drop(ring);
        assert!(heap.sweep().unwrap());
        fill(heap);
        let watched = heap.atomic(|tx| tx.get(&root, Root::WATCHED)).unwrap().unwrap();
        let found = heap.atomic(|tx| tx.upgrade(&watched)).unwrap();
        assert!(found.is_none(), "a weak pointer to what was freed gives none");
        drop(watched);
        heap.atomic(|tx| tx.set(&root, Root::WATCHED, None)).unwrap();
        assert_eq!(objects(&file), 2);
        // What the cycle referred to is counted without it.
        heap.atomic(|tx| {
            let other = tx.alloc(Node { value: 6, next: None })?;
            tx.set(&root, Root::KEPT, other)
        })
        .unwrap();
    });
    assert_eq!(objects(&file), 2);
}

#[test]
fn a_cycle_of_an_earlier_process_is_swept_with_what_it_held() {
    let file = volatile();
    file.enter(|heap| {
        let (root, _ring) = make(heap);
        cut(heap, &root);
    });
    let again = after_a_crash(&file);
    again.enter(|heap| {
        assert!(heap.sweep().unwrap());
        fill(heap);
        let root = heap.root::<Root<'_>>().unwrap().unwrap();
        let watched = heap.atomic(|tx| tx.get(&root, Root::WATCHED)).unwrap().unwrap();
        assert!(heap.atomic(|tx| tx.upgrade(&watched)).unwrap().is_none());
        let kept = heap.atomic(|tx| tx.get(&root, Root::KEPT)).unwrap();
        assert_eq!(heap.atomic(|tx| tx.get(&kept, Node::VALUE)).unwrap(), 5);
    });
    assert_eq!(objects(&again), 2);
}
