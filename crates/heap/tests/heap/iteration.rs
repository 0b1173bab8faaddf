//! The library's types, read element by element, beside those of the standard library.

use std::collections::{BTreeMap, LinkedList, VecDeque};
use std::ops::{Bound, RangeBounds};

use tembo_heap::{
    Access, Error, KeyRange, Layer, PDeque, PHashMap, PList, PMap, PString, PVec, Persist, Ptr,
};

use crate::{objects, volatile};

#[derive(Persist)]
struct All<'h> {
    vec: PVec<'h, u64>,
    deque: PDeque<'h, u64>,
    list: PList<'h, u64>,
    map: PMap<'h, u64>,
    hash: PHashMap<'h, u64>,
}

fn all<'h>() -> All<'h> {
    All {
        vec: PVec::new(),
        deque: PDeque::new(),
        list: PList::new(),
        map: PMap::new(),
        hash: PHashMap::new(),
    }
}

#[derive(Default)]
struct Model {
    vec: Vec<u64>,
    deque: VecDeque<u64>,
    list: LinkedList<u64>,
    map: BTreeMap<Vec<u8>, u64>,
}

/// Chance, of which `TEMBO_SEED` is the seed.
struct Chance(u64);

impl Chance {
    fn new() -> Chance {
        let seed = std::env::var("TEMBO_SEED").map_or(7, |text| text.parse().unwrap());
        eprintln!("TEMBO_SEED={seed}");
        Chance(seed)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % end
    }

    /// One of few keys, of which many begin alike.
    fn key(&mut self) -> Vec<u8> {
        let len = self.below(4) as usize * 4;
        let mut key = vec![self.below(3) as u8 * 100; len];
        key.push(self.below(6) as u8 * 50);
        key.truncate(self.below(20) as usize);
        key
    }

    fn bound(&mut self) -> Bound<Vec<u8>> {
        match self.below(4) {
            0 => Bound::Unbounded,
            1 => Bound::Excluded(self.key()),
            _ => Bound::Included(self.key()),
        }
    }
}

type Pair = (Vec<u8>, u64);

/// What a model has in a range; nothing if that ends before it begins.
fn within(model: &BTreeMap<Vec<u8>, u64>, range: &(Bound<Vec<u8>>, Bound<Vec<u8>>)) -> Vec<Pair> {
    let of = model.iter().filter(|(key, _)| range.contains(*key));
    of.map(|(key, value)| (key.clone(), *value)).collect()
}

/// Changes one of them, and its model.
fn change<'h, L: Layer>(
    tx: &mut Access<'h, L>,
    root: &Ptr<'h, All<'h>>,
    model: &mut Model,
    chance: &mut Chance,
) -> Result<(), Error> {
    let (vec, deque, list) = (root.field(All::VEC), root.field(All::DEQUE), root.field(All::LIST));
    let (map, hash) = (root.field(All::MAP), root.field(All::HASH));
    let (key, value) = (chance.key(), chance.below(1000));
    match chance.below(24) {
        0..8 => {
            let before = model.map.insert(key.clone(), value);
            assert_eq!(map.insert(tx, &key, value)?, before);
            assert_eq!(hash.insert(tx, &key, value)?, before);
        }
        8..11 => {
            let before = model.map.remove(&key);
            assert_eq!((map.remove(tx, &key)?, hash.remove(tx, &key)?), (before, before));
        }
        11..13 => {
            model.vec.push(value);
            vec.push(tx, value)?;
        }
        13 => assert_eq!(vec.pop(tx)?, model.vec.pop()),
        14..16 => {
            model.deque.push_back(value);
            deque.push_back(tx, value)?;
        }
        16 => {
            model.deque.push_front(value);
            deque.push_front(tx, value)?;
        }
        17 => assert_eq!(deque.pop_front(tx)?, model.deque.pop_front()),
        18 => assert_eq!(deque.pop_back(tx)?, model.deque.pop_back()),
        19 => {
            model.list.push_back(value);
            list.push_back(tx, value)?;
        }
        20 => {
            model.list.push_front(value);
            list.push_front(tx, value)?;
        }
        21 => assert_eq!(list.pop_front(tx)?, model.list.pop_front()),
        _ if chance.below(20) > 0 => {}
        _ => {
            *model = Model::default();
            vec.clear(tx)?;
            deque.clear(tx)?;
            list.clear(tx)?;
            map.clear(tx)?;
            hash.clear(tx)?;
        }
    }
    Ok(())
}

/// The rows have what their models have, from both ends.
fn check_rows<'h, L: Layer>(
    tx: &mut Access<'h, L>,
    root: &Ptr<'h, All<'h>>,
    model: &Model,
) -> Result<(), Error> {
    let (vec, deque, list) = (root.field(All::VEC), root.field(All::DEQUE), root.field(All::LIST));
    assert_eq!(vec.iter(tx)?.collect::<Result<Vec<_>, _>>()?, model.vec);
    assert_eq!(deque.iter(tx)?.collect::<Result<VecDeque<_>, _>>()?, model.deque);
    assert_eq!(list.iter(tx)?.collect::<Result<LinkedList<_>, _>>()?, model.list);
    let mut back: Vec<u64> = vec.iter(tx)?.rev().collect::<Result<_, _>>()?;
    back.reverse();
    assert_eq!(back, model.vec);
    let mut back: VecDeque<u64> = VecDeque::new();
    deque.iter(tx)?.rev().try_for_each(|value| value.map(|value| back.push_front(value)))?;
    assert_eq!(back, model.deque);
    assert_eq!(deque.to_vec(tx)?, Vec::from(back));
    assert_eq!(
        (vec.first(tx)?, vec.last(tx)?),
        (model.vec.first().copied(), model.vec.last().copied())
    );
    let ends = (model.deque.front().copied(), model.deque.back().copied());
    assert_eq!((deque.front(tx)?, deque.back(tx)?), ends);
    let ends = (model.list.front().copied(), model.list.back().copied());
    assert_eq!((list.front(tx)?, list.back(tx)?), ends);
    for (index, value) in (0..).zip(&model.deque) {
        assert_eq!(deque.get(tx, index)?, *value);
    }
    let len = model.deque.len() as u64;
    let behind = deque.get(tx, len);
    assert!(
        matches!(behind, Err(Error::NoSuchElement { index, len: of }) if (index, of) == (len, len))
    );
    let are_empty = (vec.is_empty(tx)?, deque.is_empty(tx)?, list.is_empty(tx)?);
    assert_eq!(are_empty, (model.vec.is_empty(), model.deque.is_empty(), model.list.is_empty()));
    Ok(())
}

/// The maps have what their model has: all of it, and within a range, from ends that chance chooses.
fn check_maps<'h, L: Layer>(
    tx: &mut Access<'h, L>,
    root: &Ptr<'h, All<'h>>,
    model: &BTreeMap<Vec<u8>, u64>,
    chance: &mut Chance,
) -> Result<(), Error> {
    let (map, hash) = (root.field(All::MAP), root.field(All::HASH));
    let unbounded = (Bound::Unbounded, Bound::Unbounded);
    assert_eq!(map.iter(tx)?.collect::<Result<Vec<_>, _>>()?, within(model, &unbounded));
    assert_eq!(hash.iter(tx)?.collect::<Result<BTreeMap<_, _>, _>>()?, *model);
    assert_eq!(hash.to_vec(tx)?.len(), model.len(), "each key comes once");
    let pair = |pair: Option<(&Vec<u8>, &u64)>| pair.map(|(key, value)| (key.clone(), *value));
    assert_eq!(map.first(tx)?, pair(model.first_key_value()));
    assert_eq!(map.last(tx)?, pair(model.last_key_value()));
    assert_eq!((map.is_empty(tx)?, hash.is_empty(tx)?), (model.is_empty(), model.is_empty()));
    let key = chance.key();
    let found = (map.contains_key(tx, &key)?, hash.contains_key(tx, &key)?);
    assert_eq!(found, (model.contains_key(&key), model.contains_key(&key)));
    for _ in 0..4 {
        let range = (chance.bound(), chance.bound());
        let mut expected = within(model, &range).into_iter();
        let mut found = map.range(tx, range.clone())?;
        for _ in 0..=model.len() + 1 {
            let (one, other) = match chance.below(2) {
                0 => (found.next().transpose()?, expected.next()),
                _ => (found.next_back().transpose()?, expected.next_back()),
            };
            assert_eq!(one, other, "{range:?} of {model:?}");
        }
    }
    Ok(())
}

fn check<'h, L: Layer>(
    tx: &mut Access<'h, L>,
    root: &Ptr<'h, All<'h>>,
    model: &Model,
    chance: &mut Chance,
) -> Result<(), Error> {
    check_rows(tx, root, model)?;
    check_maps(tx, root, &model.map, chance)
}

/// Changes and checks, as often.
fn work<'h, L: Layer>(
    tx: &mut Access<'h, L>,
    root: &Ptr<'h, All<'h>>,
    model: &mut Model,
    chance: &mut Chance,
) -> Result<(), Error> {
    for _ in 0..chance.below(20) {
        change(tx, root, model, chance)?;
    }
    check(tx, root, model, chance)
}

const ROUNDS: usize = 200;

#[test]
fn each_element_comes_once_and_in_its_order_in_a_transaction_and_behind_it() {
    let (file, mut chance, mut model) = (volatile(), Chance::new(), Model::default());
    file.enter(|heap| {
        let root = heap.root_or::<_, Error>(|_| Ok(all())).unwrap();
        for _ in 0..ROUNDS {
            // By itself it runs once, so that the model has what it has made.
            heap.atomic(|tx| work(tx, &root, &mut model, &mut chance)).unwrap();
            heap.atomic(|tx| check(tx, &root, &model, &mut chance)).unwrap();
        }
        heap.atomic(|tx| tx.write(&root, all())).unwrap();
    });
    assert_eq!(objects(&file), 1, "nothing is left behind");
}

#[test]
fn each_element_comes_once_and_in_its_order_between_checkpoints() {
    let (file, mut chance, mut model) = (volatile(), Chance::new(), Model::default());
    file.enter(|heap| heap.root_or::<_, Error>(|_| Ok(all())).map(drop)).unwrap();
    for _ in 0..ROUNDS / 10 {
        let safe = file.enter(|heap| {
            heap.safe(|heap| {
                let root = heap.root::<All<'_>>()?.unwrap();
                work(heap, &root, &mut model, &mut chance)?;
                heap.checkpoint()?;
                check(heap, &root, &model, &mut chance)
            })
        });
        safe.unwrap();
        let base = file.base(|heap| {
            let root = heap.root::<All<'_>>()?.unwrap();
            work(heap, &root, &mut model, &mut chance)?;
            heap.checkpoint()?;
            check(heap, &root, &model, &mut chance)
        });
        base.unwrap();
    }
}

/// The keys of a range, as text.
fn keys<'h>(
    tx: &mut Access<'h, impl Layer>,
    root: &Ptr<'h, All<'h>>,
    range: impl KeyRange,
) -> String {
    let map = root.field(All::MAP);
    let keys = map.range(tx, range).unwrap().map(|pair| pair.unwrap().0);
    String::from_utf8(keys.collect::<Vec<_>>().concat()).unwrap()
}

#[test]
fn a_range_is_written_as_one_of_the_standard_library() {
    volatile().enter(|heap| {
        let root = heap.root_or::<_, Error>(|_| Ok(all())).unwrap();
        let found = heap.atomic(|tx| {
            for key in ["a", "b", "c", "d"] {
                root.field(All::MAP).insert(tx, key, 1)?;
            }
            assert_eq!(keys(tx, &root, ..), "abcd");
            assert_eq!(keys(tx, &root, "b".."d"), "bc");
            assert_eq!(keys(tx, &root, "b"..="d"), "bcd");
            assert_eq!(keys(tx, &root, String::from("c")..), "cd");
            assert_eq!(keys(tx, &root, ..b"c"), "ab");
            assert_eq!(keys(tx, &root, ..=vec![b'c']), "abc");
            let behind_b = (Bound::Excluded("b"), Bound::Unbounded);
            assert_eq!(keys(tx, &root, behind_b), "cd");
            assert_eq!(keys(tx, &root, "d".."b"), "", "it ends before it begins");
            assert_eq!(keys(tx, &root, "bb".."bc"), "");
            let (none, text) = (PString::new(tx, "")?, PString::new(tx, "nine letters")?);
            assert_eq!((none.len(tx)?, text.len(tx)?), (0, 12));
            assert_eq!((none.is_empty(), text.is_empty()), (true, false));
            Ok::<_, Error>(())
        });
        found.unwrap();
    });
}

#[test]
fn an_iteration_beside_other_threads_sees_one_state() {
    const KEYS: u64 = 40;
    let file = volatile();
    file.enter(|heap| {
        let root = heap.root_or::<_, Error>(|_| Ok(all())).unwrap();
        let (map, hash) = (root.field(All::MAP), root.field(All::HASH));
        let fill = heap.atomic(|tx| {
            for key in 0..KEYS {
                map.insert(tx, key.to_be_bytes(), 10)?;
                hash.insert(tx, key.to_be_bytes(), 10)?;
            }
            Ok::<_, Error>(())
        });
        fill.unwrap();
        // The sum stays; keys come, go, and change their places.
        let carry = |from: [u8; 8], to: [u8; 8]| {
            let carried = heap.atomic(|tx| {
                let value = map.remove(tx, from)?.unwrap_or(0);
                let before = map.insert(tx, to, value)?.unwrap_or(0);
                map.insert(tx, to, value + before)?;
                let value = hash.remove(tx, from)?.unwrap_or(0);
                let before = hash.insert(tx, to, value)?.unwrap_or(0);
                hash.insert(tx, to, value + before).map(drop)
            });
            carried.unwrap();
        };
        std::thread::scope(|scope| {
            for thread in 0..2_u64 {
                let carry = &carry;
                scope.spawn(move || {
                    for round in 0..400_u64 {
                        let (from, to) = (round * 7 + thread, round * 11 + 3 * thread);
                        carry((from % KEYS).to_be_bytes(), (to % KEYS).to_be_bytes());
                    }
                });
            }
            scope.spawn(|| {
                for _ in 0..400 {
                    let sums = heap.atomic(|tx| {
                        let mut sums = [0; 3];
                        for pair in map.iter(tx)? {
                            sums[0] += pair?.1;
                        }
                        for pair in map.iter(tx)?.rev() {
                            sums[1] += pair?.1;
                        }
                        for pair in hash.iter(tx)? {
                            sums[2] += pair?.1;
                        }
                        Ok::<_, Error>(sums)
                    });
                    assert_eq!(sums.unwrap(), [10 * KEYS; 3]);
                }
            });
        });
    });
}
