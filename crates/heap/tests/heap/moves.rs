//! What commits move, damage and keep out while cycles are searched for.

use std::sync::atomic::{AtomicBool, Ordering};

use tembo_heap::{Error, Field, Heap, PHashMap, Persist, Ptr, Weak};

use crate::counts::Node;
use crate::cycles::collect;
use crate::{after_a_crash, objects, volatile};

#[derive(Persist)]
struct Top<'h> {
    one: Option<Ptr<'h, Item<'h>>>,
    two: Option<Ptr<'h, Item<'h>>>,
    more: Option<Ptr<'h, Item<'h>>>,
    watched: Option<Weak<'h, Item<'h>>>,
    map: PHashMap<'h, Ptr<'h, Item<'h>>>,
}

#[derive(Persist)]
struct Item<'h> {
    value: u64,
    next: Option<Ptr<'h, Item<'h>>>,
    kept: Option<Ptr<'h, Node<'h>>>,
}

type Place<'h> = Field<Top<'h>, Option<Ptr<'h, Item<'h>>>>;

/// An item that refers to nothing.
fn lone<'h>(value: u64) -> Item<'h> {
    Item { value, next: None, kept: None }
}

/// A root, two items, and behind the one at `from` a third that has lost another pointer: a candidate.
fn make<'h>(heap: Heap<'h>, from: Place<'h>) -> Ptr<'h, Top<'h>> {
    let top = heap.atomic(|tx| {
        let kept = tx.alloc(Node { value: 5, next: None })?;
        let moved = tx.alloc(Item { value: 1, next: None, kept: Some(kept) })?;
        let watched = Some(tx.downgrade(&moved)?);
        let (one, two) = (Some(tx.alloc(lone(2))?), Some(tx.alloc(lone(3))?));
        let more = Some(moved.clone());
        let top = tx.alloc(Top { one, two, more, watched, map: PHashMap::new() })?;
        tx.set_root(&top)?;
        if let Some(from) = tx.get(&top, from)? {
            tx.set(&from, Item::NEXT, Some(moved))?;
        }
        Ok::<_, Error>(top)
    });
    let top = top.unwrap();
    heap.atomic(|tx| tx.set(&top, Top::MORE, None)).unwrap();
    top
}

/// Moves what is behind the item at `from` behind the one at `to`.
fn move_it<'h>(heap: Heap<'h>, top: &Ptr<'h, Top<'h>>, from: Place<'h>, to: Place<'h>) {
    heap.atomic(|tx| {
        let from = tx.get(top, from)?.ok_or(Error::NoRoot)?;
        let to = tx.get(top, to)?.ok_or(Error::NoRoot)?;
        let moved = tx.get(&from, Item::NEXT)?;
        tx.set(&from, Item::NEXT, None)?;
        tx.set(&to, Item::NEXT, moved)
    })
    .unwrap();
}

/// The third item is whole, and behind the one at `to`.
fn is_there<'h>(heap: Heap<'h>, top: &Ptr<'h, Top<'h>>, to: Place<'h>) {
    heap.atomic(|tx| {
        let to = tx.get(top, to)?.ok_or(Error::NoRoot)?;
        let moved = tx.get(&to, Item::NEXT)?.ok_or(Error::NoRoot)?;
        assert_eq!(tx.get(&moved, Item::VALUE)?, 1);
        let kept = tx.get(&moved, Item::KEPT)?.expect("what it refers to");
        assert_eq!(tx.get(&kept, Node::VALUE)?, 5);
        let watched = tx.get(top, Top::WATCHED)?.ok_or(Error::NoRoot)?;
        let found = tx.upgrade(&watched)?.expect("what the weak pointer refers to");
        assert!(found.is(&moved));
        Ok::<_, Error>(())
    })
    .unwrap();
}

#[test]
fn what_one_transaction_moves_to_where_the_search_has_been_stays() {
    for parts in 0..14 {
        for is_back in [false, true] {
            let file = volatile();
            file.enter(|heap| {
                let (from, to) = if is_back { (Top::TWO, Top::ONE) } else { (Top::ONE, Top::TWO) };
                let top = make(heap, from);
                for _ in 0..parts {
                    heap.collect_cycles(1).unwrap();
                }
                move_it(heap, &top, from, to);
                collect(heap, 1);
                is_there(heap, &top, to);
                collect(heap, 1);
                is_there(heap, &top, to);
            });
            assert_eq!(objects(&file), 5);
            assert_eq!(objects(&after_a_crash(&file)), 5);
        }
    }
}

#[test]
fn what_a_growing_table_holds_stays_while_cycles_are_searched_for() {
    // Tables grow at the ninth key, and then at others.
    for (parts, keys) in (0..60).map(|number| (number / 2, [9, 40][number % 2])) {
        let file = volatile();
        file.enter(|heap| {
            let top = make(heap, Top::ONE);
            let map = top.field(Top::MAP);
            let insert = |value: u64| {
                heap.atomic(|tx| {
                    let item = tx.alloc(lone(value))?;
                    map.insert(tx, value.to_le_bytes(), item.clone())?;
                    tx.set(&top, Top::MORE, Some(item))
                })
                .unwrap();
            };
            (0..8).for_each(insert);
            heap.atomic(|tx| tx.set(&top, Top::MORE, None)).unwrap();
            for _ in 0..parts {
                heap.collect_cycles(1).unwrap();
            }
            (8..keys).for_each(insert);
            heap.atomic(|tx| tx.set(&top, Top::MORE, None)).unwrap();
            collect(heap, 1);
            collect(heap, 1);
            for value in 0..keys {
                heap.atomic(|tx| {
                    let item = map.get(tx, value.to_le_bytes())?.ok_or(Error::NoRoot)?;
                    assert_eq!(tx.get(&item, Item::VALUE)?, value);
                    Ok::<_, Error>(())
                })
                .unwrap();
            }
            is_there(heap, &top, Top::ONE);
        });
        objects(&file);
    }
}

#[test]
fn a_cycle_that_is_closed_by_a_move_is_collected() {
    let file = volatile();
    file.enter(|heap| {
        let top = make(heap, Top::ONE);
        collect(heap, 100);
        // What the root has referred to refers to itself: its count stays as it was.
        heap.atomic(|tx| {
            let one = tx.get(&top, Top::ONE)?.ok_or(Error::NoRoot)?;
            tx.set(&top, Top::ONE, None)?;
            tx.set(&one, Item::NEXT, Some(one.clone()))
        })
        .unwrap();
        collect(heap, 100);
        heap.atomic(|tx| tx.set(&top, Top::WATCHED, None)).unwrap();
    });
    assert_eq!(objects(&file), 2, "the root, and the second item");
}

#[test]
fn a_search_ends_beside_commits() {
    let file = volatile();
    file.enter(|heap| {
        let top = make(heap, Top::ONE);
        let mut parts = 0;
        while !heap.collect_cycles(1).unwrap() {
            parts += 1;
            assert!(parts < 100, "each commit lengthens it");
            let (from, to) =
                if parts % 2 == 1 { (Top::ONE, Top::TWO) } else { (Top::TWO, Top::ONE) };
            move_it(heap, &top, from, to);
        }
    });
    assert_eq!(objects(&file), 5);
}

/// The head of an object, with a type that there is not, until `body` has returned.
fn damaged(heap: Heap<'_>, offset: u64, body: impl FnOnce()) {
    let region = heap.pool().region();
    let head = &region.words(offset, 1).unwrap()[0];
    let before = head.load();
    region.store(head, before | 0xffff << 48);
    assert_ne!(before, head.load());
    body();
    region.store(head, before);
}

#[test]
fn a_search_that_meets_damage_takes_nothing_for_garbage() {
    for parts in 0..6 {
        let file = volatile();
        file.enter(|heap| {
            let top = make(heap, Top::ONE);
            let one = heap.atomic(|tx| tx.get(&top, Top::ONE)).unwrap().unwrap().offset();
            for _ in 0..parts {
                heap.collect_cycles(1).unwrap();
            }
            damaged(heap, one, || {
                for _ in 0..20 {
                    let _ = heap.collect_cycles(1);
                }
            });
            collect(heap, 1);
            is_there(heap, &top, Top::ONE);
        });
        assert_eq!(objects(&file), 5);
    }
}

#[test]
fn after_damage_is_met_while_it_judges_it_judges_again() {
    let file = volatile();
    file.enter(|heap| {
        let top = make(heap, Top::ONE);
        // A cycle that only the program holds: it is looked into last.
        let held = heap.atomic(|tx| {
            let held = tx.alloc(lone(8))?;
            tx.set(&held, Item::NEXT, Some(held.clone()))?;
            Ok::<_, Error>(held)
        });
        let held = held.unwrap();
        heap.atomic(|tx| {
            let one = tx.get(&top, Top::ONE)?.ok_or(Error::NoRoot)?;
            tx.set(&one, Item::NEXT, Some(one.clone()))?;
            tx.set(&top, Top::WATCHED, None)?;
            tx.set(&top, Top::ONE, None)
        })
        .unwrap();
        damaged(heap, held.offset(), || {
            let met = (0..20).find_map(|_| heap.collect_cycles(1).err());
            assert!(matches!(met, Some(Error::Damaged { what: "a type", .. })), "{met:?}");
        });
        collect(heap, 1);
        // The cycle that is garbage is no candidate by any later commit.
        assert_eq!(heap.atomic(|tx| tx.get(&held, Item::VALUE)).unwrap(), 8);
        drop(held);
        collect(heap, 1);
    });
    assert_eq!(objects(&file), 2, "the root, and the second item");
}

#[test]
fn a_part_of_a_collection_waits_for_what_wants_the_heap_alone() {
    let file = volatile();
    file.enter(|heap| {
        drop(make(heap, Top::ONE));
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            heap.exclusive(|_| {
                scope.spawn(|| {
                    heap.collect_cycles(1).unwrap();
                    is_done.store(true, Ordering::SeqCst);
                });
                // It is not done however long this lasts; each of these gives it the chance to be so.
                for _ in 0..20_000 {
                    std::thread::yield_now();
                }
                assert!(!is_done.load(Ordering::SeqCst), "it looks into what changes");
                Ok::<_, Error>(())
            })
            .unwrap();
        });
        assert!(is_done.load(Ordering::SeqCst));
    });
}
