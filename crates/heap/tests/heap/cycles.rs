//! Cycles: what they hold, what holds them, and what is left when nothing does.

use tembo_heap::{Error, Heap, Persist, Ptr, Weak};
use tembo_pmem::Counters;

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

/// Collects cycles, in parts of `budget` objects; how many parts.
pub(crate) fn collect(heap: Heap<'_>, budget: usize) -> u32 {
    let mut parts = 1;
    while !heap.collect_cycles(budget).unwrap() {
        parts += 1;
    }
    parts
}

#[test]
fn cycles_are_collected_in_parts_with_what_only_they_held() {
    for budget in [1, 2, 1000] {
        let file = volatile();
        file.enter(|heap| {
            let (root, ring) = make(heap);
            drop(ring);
            collect(heap, budget);
            assert_eq!(objects(&file), 4, "what is reachable stays");
            cut(heap, &root);
            let parts = collect(heap, budget);
            assert!(budget > 1 || parts > 4, "each looks into one object: {parts}");
            let watched = heap.atomic(|tx| tx.get(&root, Root::WATCHED)).unwrap().unwrap();
            assert!(heap.atomic(|tx| tx.upgrade(&watched)).unwrap().is_none());
            drop(watched);
            heap.atomic(|tx| tx.set(&root, Root::WATCHED, None)).unwrap();
        });
        assert_eq!(objects(&file), 2);
        assert_eq!(objects(&after_a_crash(&file)), 2);
    }
}

/// The most fences that a part has cost, and how many parts there were.
fn parts_of(heap: Heap<'_>, budget: usize) -> (u64, u64) {
    let (mut most, mut parts, mut is_done) = (0, 0, false);
    while !is_done {
        let before = Counters::thread().fences;
        is_done = heap.collect_cycles(budget).unwrap();
        most = most.max(Counters::thread().fences - before);
        parts += 1;
    }
    (most, parts)
}

#[test]
fn a_part_of_a_collection_costs_no_more_in_a_larger_heap() {
    const BUDGET: u64 = 8;
    let mut costs = Vec::new();
    for size in [500, 4000] {
        let file = volatile();
        file.enter(|heap| {
            let (root, _) = make(heap);
            // As many objects that live as there are in the ring.
            for is_ring in [false, true] {
                heap.atomic(|tx| {
                    let last = tx.alloc(Ring { value: 0, next: None, kept: None })?;
                    let mut first = last.clone();
                    for value in 1..size {
                        first = tx.alloc(Ring { value, next: Some(first), kept: None })?;
                    }
                    if is_ring {
                        return tx.set(&last, Ring::NEXT, Some(first));
                    }
                    let before = tx.get(&root, Root::RING)?;
                    tx.set(&last, Ring::NEXT, before)?;
                    tx.set(&root, Root::RING, Some(first))
                })
                .unwrap();
            }
            let (most, parts) = parts_of(heap, BUDGET as usize);
            assert!(parts >= size / BUDGET, "{parts} parts");
            costs.push(most);
        });
        assert_eq!(objects(&file), 4 + size);
    }
    assert!(costs[1] <= costs[0] && costs[0] <= 300, "fences of a part: {costs:?}");
}

#[test]
fn what_a_sweep_has_freed_is_not_collected_again() {
    for parts in 0..8 {
        let file = volatile();
        file.enter(|heap| {
            let (root, ring) = make(heap);
            drop(ring);
            cut(heap, &root);
            for _ in 0..parts {
                heap.collect_cycles(1).unwrap();
            }
            assert!(heap.sweep().unwrap());
            collect(heap, 1);
            heap.atomic(|tx| tx.set(&root, Root::WATCHED, None)).unwrap();
            // New objects that are dropped within their transaction leave no candidate behind.
            heap.atomic(|tx| {
                let child = tx.alloc(Ring { value: 1, next: None, kept: None })?;
                let parent = tx.alloc(Ring { value: 2, next: Some(child.clone()), kept: None })?;
                tx.alloc((parent, child)).map(drop)
            })
            .unwrap();
            fill(heap);
            collect(heap, 1);
            let kept = heap.atomic(|tx| tx.get(&root, Root::KEPT)).unwrap();
            assert_eq!(heap.atomic(|tx| tx.get(&kept, Node::VALUE)).unwrap(), 5);
        });
        assert_eq!(objects(&file), 2);
    }
}

#[test]
fn a_cycle_is_collected_when_the_program_lets_it_go() {
    let file = volatile();
    file.enter(|heap| {
        let (root, ring) = make(heap);
        let next = heap.atomic(|tx| tx.get(&ring, Ring::NEXT)).unwrap();
        drop(ring);
        cut(heap, &root);
        collect(heap, 3);
        let next = next.unwrap();
        assert_eq!(heap.atomic(|tx| tx.get(&next, Ring::VALUE)).unwrap(), 2);
        drop(next);
        collect(heap, 3);
        heap.atomic(|tx| tx.set(&root, Root::WATCHED, None)).unwrap();
        assert_eq!(objects(&file), 2);
        // Cycles that no object of the heap has ever referred to.
        let ring = heap.atomic(|tx| {
            let ring = tx.alloc(Ring { value: 7, next: None, kept: None })?;
            tx.set(&ring, Ring::NEXT, Some(ring.clone()))?;
            let other = tx.alloc(Ring { value: 8, next: None, kept: None })?;
            tx.set(&other, Ring::NEXT, Some(other.clone()))?;
            Ok::<_, Error>(ring)
        });
        collect(heap, 3);
        assert_eq!(objects(&file), 3);
        let lone = heap.atomic(|tx| tx.alloc(Ring { value: 9, next: None, kept: None })).unwrap();
        heap.atomic(|tx| tx.set(&lone, Ring::NEXT, Some(lone.clone()))).unwrap();
        drop((ring, lone));
        collect(heap, 3);
    });
    assert_eq!(objects(&file), 2);
}

#[test]
fn what_is_moved_while_cycles_are_searched_for_stays() {
    for parts in 1..12 {
        let file = volatile();
        file.enter(|heap| {
            let (root, ring) = make(heap);
            drop(ring);
            cut(heap, &root);
            for _ in 0..parts {
                heap.collect_cycles(1).unwrap();
            }
            // The ring is garbage; the program gets it back by a weak pointer, if it is there, and links it.
            let found = heap.atomic(|tx| {
                let watched = tx.get(&root, Root::WATCHED)?.ok_or(Error::NoRoot)?;
                let ring = tx.upgrade(&watched)?;
                tx.set(&root, Root::RING, ring.clone())?;
                Ok::<_, Error>(ring.is_some())
            });
            let found = found.unwrap();
            collect(heap, 1);
            collect(heap, 1);
            if found {
                let ring = heap.atomic(|tx| tx.get(&root, Root::RING)).unwrap().unwrap();
                let next = heap.atomic(|tx| tx.get(&ring, Ring::NEXT)).unwrap().unwrap();
                assert_eq!(heap.atomic(|tx| tx.get(&next, Ring::VALUE)).unwrap(), 2);
            }
            assert_eq!(objects(&file), if found { 4 } else { 2 });
        });
    }
}

#[test]
fn cycles_are_collected_beside_transactions() {
    let file = volatile();
    file.enter(|heap| {
        let (root, ring) = make(heap);
        drop(ring);
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for value in 0..300 {
                    heap.atomic(|tx| {
                        let old = tx.get(&root, Root::RING)?;
                        let ring = tx.alloc(Ring { value, next: None, kept: None })?;
                        let next = if value % 3 == 0 { Some(ring.clone()) } else { old };
                        tx.set(&ring, Ring::NEXT, next)?;
                        tx.set(&root, Root::RING, Some(ring))
                    })
                    .unwrap();
                }
                is_over.store(true, std::sync::atomic::Ordering::SeqCst);
            });
            while !is_over.load(std::sync::atomic::Ordering::SeqCst) && !writer.is_finished() {
                heap.collect_cycles(2).unwrap();
            }
        });
        collect(heap, 100);
        collect(heap, 100);
        let mut values = Vec::new();
        let mut at = heap.atomic(|tx| tx.get(&root, Root::RING)).unwrap();
        while let Some(ring) = at.take().filter(|_| values.len() < 3) {
            values.push(heap.atomic(|tx| tx.get(&ring, Ring::VALUE)).unwrap());
            at = heap.atomic(|tx| tx.get(&ring, Ring::NEXT)).unwrap();
        }
        assert_eq!(values, [299, 298, 297]);
        heap.atomic(|tx| tx.set(&root, Root::WATCHED, None)).unwrap();
    });
    // The root, what it keeps, and three rings.
    assert_eq!(objects(&file), 5);
}
