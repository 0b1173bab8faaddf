//! Words of a heap that are damaged: an error says so, and nothing else is changed.

use tembo_heap::{Error, Heap, PDeque, PHashMap, PVec, Persist, Ptr, Weak};

use crate::{after_a_crash, volatile};

#[derive(Persist)]
struct Part<'h> {
    number: u64,
    next: Option<Ptr<'h, Part<'h>>>,
    watched: Option<Weak<'h, Part<'h>>>,
}

fn part<'h>(number: u64) -> Part<'h> {
    Part { number, next: None, watched: None }
}

/// The bits of a pointer that a word at an offset holds.
fn word(heap: Heap<'_>, at: u64) -> u64 {
    heap.pool().region().words(at, 1).unwrap()[0].load()
}

fn offset_of(bits: u64) -> u64 {
    tembo_pool::Object::from_bits(bits).offset()
}

fn damaged(heap: Heap<'_>, at: u64, bits: u64) {
    let region = heap.pool().region();
    region.store(&region.words(at, 1).unwrap()[0], bits);
}

/// The second word of an object names its proxy, the third of a proxy its object: both are stored to when one of them ends.
#[test]
fn a_proxy_that_does_not_know_its_object_is_damage() {
    for of_proxy in [false, true] {
        for bad in 0..4 {
            let file = volatile();
            file.enter(|heap| {
                let root = heap.root_or::<_, Error>(|_| Ok(part(1))).unwrap();
                let made = heap.atomic(|tx| {
                    let two = tx.alloc(part(2))?;
                    let watched = tx.downgrade(&two)?;
                    let three = tx.alloc(part(3))?;
                    tx.set(&root, Part::WATCHED, Some(watched))?;
                    tx.set(&three, Part::NEXT, Some(two.clone()))?;
                    tx.set(&root, Part::NEXT, Some(three.clone()))?;
                    Ok::<_, Error>((two.offset(), three.offset()))
                });
                let (two, three) = made.unwrap();
                let proxy = offset_of(word(heap, two + 8));
                let bits = match bad {
                    // Nothing, a place that no object has, another object, and the root of the heap.
                    0 => 0xffff_ffff_ffff,
                    1 => word(heap, two + 8) + 1,
                    2 => word(heap, root.offset() + 24),
                    _ => word(heap, proxy + 16) ^ 1 << 40,
                };
                damaged(heap, if of_proxy { proxy + 16 } else { two + 8 }, bits);
                let before = heap.pool().region().media_bytes(three, 64).unwrap().to_vec();
                let ended = heap.atomic(|tx| {
                    let three = tx.get(&root, Part::NEXT)?.ok_or(Error::NoRoot)?;
                    if of_proxy {
                        tx.set(&root, Part::WATCHED, None)
                    } else {
                        tx.set(&three, Part::NEXT, None)
                    }
                });
                let ended = ended.and_then(|()| heap.settle());
                assert!(
                    matches!(ended, Err(Error::Damaged { .. } | Error::Pool(_))),
                    "{of_proxy}, {bad}: {ended:?}"
                );
                let now = heap.pool().region().media_bytes(three, 64).unwrap().to_vec();
                assert_eq!(before, now, "{of_proxy}, {bad}");
                // The heap goes on.
                heap.atomic(|tx| tx.set(&root, Part::NUMBER, 9)).unwrap();
            });
            let again = after_a_crash(&file);
            again.enter(|heap| {
                let root = heap.root::<Part<'_>>().unwrap().unwrap();
                assert_eq!(heap.atomic(|tx| tx.get(&root, Part::NUMBER)).unwrap(), 9);
            });
        }
    }
}

#[derive(Persist)]
struct Many<'h> {
    map: PHashMap<'h, u64>,
    deque: PDeque<'h, u64>,
    vec: PVec<'h, u64>,
}

fn many<'h>(heap: Heap<'h>) -> Ptr<'h, Many<'h>> {
    let empty = || Many { map: PHashMap::new(), deque: PDeque::new(), vec: PVec::new() };
    heap.root_or::<_, Error>(|_| Ok(empty())).unwrap()
}

fn is_damage<T>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::Damaged { .. }))
}

#[test]
fn a_ring_of_entries_in_a_map_is_damage() {
    volatile().enter(|heap| {
        let root = many(heap);
        let map = root.field(Many::MAP);
        let keys: Vec<String> = (0..40).map(|key| format!("key {key}")).collect();
        for key in &keys {
            heap.atomic(|tx| map.insert(tx, key, 1)).unwrap();
        }
        // The entries of a bucket, each from its hash on: hash, key, value, the next.
        let buckets = offset_of(word(heap, root.offset() + 24));
        let chain = |index: u64| {
            let (mut all, mut bits) = (Vec::new(), word(heap, buckets + 24 + 8 * index));
            while bits != 0 {
                all.push(bits);
                bits = word(heap, offset_of(bits) + 40);
            }
            all
        };
        let chain = (0..64).map(chain).max_by_key(Vec::len).unwrap();
        assert!(chain.len() > 1);
        let last = offset_of(*chain.last().unwrap()) + 40;
        for &entry in &chain {
            damaged(heap, last, entry);
            let there = keys.iter().map(|key| heap.atomic(|tx| map.get(tx, key)));
            assert!(there.map(Result::unwrap).eq(keys.iter().map(|_| Some(1))));
            let others = (0..500).map(|key| heap.atomic(|tx| map.get(tx, key.to_string())));
            let (found, met): (Vec<_>, Vec<_>) = others.partition(Result::is_ok);
            assert!(found.into_iter().all(|found| found.unwrap().is_none()));
            assert!(!met.is_empty() && met.iter().all(is_damage));
        }
        // The table is made anew, and that ends.
        damaged(heap, root.offset() + 16, 64);
        for key in 0..99 {
            let _ = heap.atomic(|tx| map.insert(tx, format!("more {key}"), 2));
        }
    });
}

#[test]
fn numbers_of_a_row_that_its_cells_contradict_are_damage() {
    for (first, len) in [(0, 9), (9, 1), (u64::MAX, 1), (1, u64::MAX), (u64::MAX, u64::MAX)] {
        for has_cells in [false, true] {
            volatile().enter(|heap| {
                let root = many(heap);
                let (deque, vec) = (root.field(Many::DEQUE), root.field(Many::VEC));
                if has_cells {
                    heap.atomic(|tx| deque.push_back(tx, 1)).unwrap();
                    heap.atomic(|tx| vec.push(tx, 1)).unwrap();
                }
                damaged(heap, root.offset() + 32, first);
                damaged(heap, root.offset() + 40, len);
                assert!(is_damage(&heap.atomic(|tx| deque.push_back(tx, 2))));
                assert!(is_damage(&heap.atomic(|tx| deque.push_front(tx, 2))));
                assert!(is_damage(&heap.atomic(|tx| deque.pop_front(tx))));
                assert!(is_damage(&heap.atomic(|tx| deque.pop_back(tx))));
                if len > 8 {
                    damaged(heap, root.offset() + 56, len);
                    assert!(is_damage(&heap.atomic(|tx| vec.push(tx, 2))));
                }
            });
        }
    }
}

#[test]
fn a_ring_of_types_is_damage() {
    let file = volatile();
    file.enter(|heap| {
        let root = many(heap);
        heap.atomic(|tx| root.field(Many::MAP).insert(tx, "key", 1)).unwrap();
    });
    let region = file.pool().region();
    let image = region.media_bytes(0, region.size()).unwrap().to_vec();
    // The third word of the heap's root names the newest type, whose first word names the one before it.
    let root = image.windows(8).position(|window| window == b"TembHeap").unwrap();
    let of = |at: usize| u64::from_le_bytes(image[at..at + 8].try_into().unwrap());
    let mut types = vec![of(root + 16)];
    while let Some(before) =
        types.last().map(|bits| of(offset_of(*bits) as usize)).filter(|b| *b != 0)
    {
        types.push(before);
    }
    assert!(types.len() > 3);
    for &bits in &types {
        for &to in &types {
            let mut bad = image.clone();
            let at = offset_of(bits) as usize;
            bad[at..at + 8].copy_from_slice(&to.to_le_bytes());
            assert_eq!(crate::open_image(&bad).is_some(), of(at) == to);
        }
    }
}
