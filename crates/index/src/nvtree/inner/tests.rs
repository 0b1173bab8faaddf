//! The inner nodes against a map of low keys, alone and in a crowd.
#![allow(clippy::unwrap_used)]

mod crowd;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use super::arena::Arena;
use super::{Inner, LeafId, Lows};
use crate::Error;
use crate::error::damaged;
use crate::key::KeyBytes;

/// Low keys of leaves, each written once.
struct Table(Vec<OnceLock<Vec<u8>>>);

impl Table {
    fn new(leaves: usize) -> Table {
        let table = Table((0..leaves).map(|_| OnceLock::new()).collect());
        table.set(0, &[]);
        table
    }

    fn set(&self, leaf: LeafId, low: &[u8]) {
        self.0[leaf as usize].set(low.to_vec()).unwrap();
    }
}

impl Lows for Table {
    fn low(&self, leaf: LeafId) -> Result<KeyBytes<'_>, Error> {
        match self.0.get(leaf as usize).and_then(OnceLock::get) {
            Some(low) => Ok(low[..].into()),
            None => damaged(u64::from(leaf), "a leaf of the table"),
        }
    }
}

/// Xorshift.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 8) % end
    }
}

fn seed() -> u64 {
    let seed = std::env::var("TEMBO_SEED").map_or(20_261_121, |seed| seed.parse().unwrap());
    eprintln!("TEMBO_SEED={seed}");
    seed
}

/// A key that is not empty.
type Shape = fn(&mut Chance) -> Vec<u8>;

const SHAPES: &[(&str, Shape)] = &[
    ("random integers", |chance| chance.next().to_be_bytes().to_vec()),
    ("small integers", |chance| chance.below(20_000).to_be_bytes().to_vec()),
    ("high integers", |chance| (u64::MAX - chance.below(20_000)).to_be_bytes().to_vec()),
    ("names", |chance| format!("user:{:08}", chance.below(20_000)).into_bytes()),
    ("long names", |chance| {
        let tail = format!("{:05}:{}", chance.below(20_000), chance.below(3));
        [[b'p'; 50].as_slice(), tail.as_bytes()].concat()
    }),
    ("long names of two kinds", |chance| {
        let kind = [b'a' + chance.below(2) as u8; 90];
        [&kind, chance.below(9000).to_be_bytes().as_slice()].concat()
    }),
    ("zeros and one", |chance| {
        let len = 1 + chance.below(24);
        (0..len).map(|_| u8::from(chance.below(8) == 0)).collect()
    }),
    ("zeros at the end", |chance| {
        let zeros = vec![0; chance.below(20) as usize];
        [format!("k{}", chance.below(900)).into_bytes(), zeros].concat()
    }),
    ("all ones", |chance| {
        let ones = vec![0xff; 1 + chance.below(70) as usize];
        [ones, vec![chance.below(256) as u8; chance.below(3) as usize]].concat()
    }),
    ("anything", |chance| {
        let len = 1 + chance.below(12);
        (0..len).map(|_| chance.below(4) as u8 * 85).collect()
    }),
];

/// Inner nodes and what they should say.
fn arena() -> Arc<Arena> {
    Arc::new(Arena::new(1 << 16, 0).unwrap())
}

struct House {
    inner: Inner,
    table: Table,
    model: BTreeMap<Vec<u8>, LeafId>,
    leaves: LeafId,
}

impl House {
    fn new(leaves: usize) -> House {
        House {
            inner: Inner::new(0).unwrap(),
            table: Table::new(leaves + 1),
            model: BTreeMap::from([(Vec::new(), 0)]),
            leaves: 1,
        }
    }

    fn insert(&mut self, low: &[u8]) {
        let leaf = self.leaves;
        if self.model.contains_key(low) {
            self.table.set(leaf, low);
            let error = self.inner.insert(low, leaf, &self.table).unwrap_err();
            assert!(matches!(error, Error::Damaged { .. }), "{error}");
        } else {
            self.table.set(leaf, low);
            self.inner.insert(low, leaf, &self.table).unwrap();
            self.model.insert(low.to_vec(), leaf);
        }
        self.leaves += 1;
    }

    /// Removes the last leaf that is not above `key`.
    fn remove(&mut self, key: &[u8]) {
        let (low, leaf) = self.model.range(..=key.to_vec()).next_back().unwrap();
        let (low, leaf) = (low.clone(), *leaf);
        let removed = self.inner.remove(&low, leaf, &self.table);
        if low.is_empty() {
            assert!(matches!(removed.unwrap_err(), Error::Damaged { .. }));
        } else {
            removed.unwrap();
            self.model.remove(&low);
            assert!(matches!(
                self.inner.remove(&low, leaf, &self.table).unwrap_err(),
                Error::Damaged { .. }
            ));
        }
    }

    fn check_key(&self, key: &[u8]) {
        let key = key.to_vec();
        let (leaf, token) = self.inner.find(&key, &self.table).unwrap();
        assert_eq!(Some(&leaf), self.model.range(..=key.clone()).next_back().map(|(_, leaf)| leaf));
        assert!(token.still());
        let before = self.inner.before(&key, &self.table).unwrap().map(|(leaf, _)| leaf);
        assert_eq!(before, self.model.range(..key).next_back().map(|(_, &leaf)| leaf));
    }

    /// Every separator and its neighbours, alone and abreast.
    fn check(&self) {
        let near = |low: &Vec<u8>| [low.clone(), [low, [0].as_slice()].concat(), just_below(low)];
        let keys: Vec<_> = self.model.keys().flat_map(near).collect();
        keys.iter().for_each(|key| self.check_key(key));
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let mut found = Vec::new();
        self.inner.find_abreast(&keys, &self.table, &mut found).unwrap();
        assert_eq!(found.len(), keys.len());
        for (key, found) in keys.iter().zip(found) {
            assert_eq!(found.0, self.inner.find(key, &self.table).unwrap().0);
            assert!(found.1.still());
        }
        let (last, _) = self.inner.last(&self.table).unwrap();
        assert_eq!(Some(&last), self.model.values().next_back());
        assert_eq!(self.inner.leaf_count(), self.model.len());
    }
}

fn just_below(key: &[u8]) -> Vec<u8> {
    let mut key = key.to_vec();
    match key.pop() {
        None | Some(0) => key,
        Some(last) => {
            key.push(last - 1);
            key.extend([0xff; 9]);
            key
        }
    }
}

#[test]
fn every_key_is_found_in_the_leaf_whose_low_key_is_the_last_not_above_it() {
    let seed = seed();
    for (name, shape) in SHAPES {
        eprintln!("{name}");
        let (mut chance, mut house) = (Chance(seed), House::new(12_000));
        for round in 0..6 {
            for _ in 0..2000 {
                let key = shape(&mut chance);
                // Rounds in which more goes than comes, and the other way.
                if chance.below(4) < 1 + 2 * (round % 2) {
                    house.remove(&key)
                } else {
                    house.insert(&key)
                }
                house.check_key(&shape(&mut chance));
            }
            house.check();
        }
    }
}

#[test]
fn what_is_emptied_can_be_filled_again() {
    let mut house = House::new(40_000);
    for round in 0..2 {
        (0..20_000_u64).rev().for_each(|key| house.insert(&(key * 2).to_be_bytes()));
        house.check();
        let nodes = house.inner.node_count();
        assert!(house.inner.height() == 3 && nodes < 1000, "round {round}: {nodes} nodes");
        (0..40_000_u64).rev().step_by(2).for_each(|key| house.remove(&key.to_be_bytes()));
        assert_eq!((house.inner.node_count(), house.inner.height()), (1, 1));
        house.check();
    }
}

#[test]
fn nodes_that_are_filled_in_order_are_full() {
    let mut house = House::new(20_000);
    (0..64 * 64_u64 * 2).for_each(|key| house.insert(format!("user:{key:012}").as_bytes()));
    house.check();
    // 128 and the next one's first child, two and that of the next, and the root.
    assert_eq!((house.inner.node_count(), house.inner.height()), (129 + 3 + 1, 3));
}

#[test]
fn a_bulk_load_says_what_inserting_says() {
    let seed = seed();
    for (name, shape) in SHAPES {
        for count in [0, 1, 46, 47, 48, 49, 48 * 48 - 1, 48 * 48, 5000] {
            eprintln!("{name}, {count}");
            let (mut chance, mut house) = (Chance(seed), House::new(2 * count + 1000));
            while house.leaves <= count as LeafId {
                house.insert(&shape(&mut chance));
            }
            let leaves = house.model.iter().map(|(low, &leaf)| Ok((leaf, low.as_slice())));
            house.inner = Inner::load(arena(), leaves).unwrap();
            house.check();
            for _ in 0..999 {
                house.insert(&shape(&mut chance));
            }
            house.check();
        }
    }
}

#[test]
fn leaves_out_of_order_are_damage() {
    let load = |lows: &[&'static [u8]]| {
        Inner::load(arena(), lows.iter().zip(1..).map(|(low, leaf)| Ok((leaf, *low)))).err()
    };
    assert!(load(&[b"", b"a", b"b"]).is_none());
    let bad: [&[&[u8]]; 3] = [&[], &[b"", b"b", b"a"], &[b"", b"a", b"a"]];
    for lows in bad {
        assert!(matches!(load(lows), Some(Error::Damaged { .. })), "{lows:?}");
    }
}

/// A table that answers so many times.
struct Failing<'t>(&'t Table, Cell<u32>);

impl Lows for Failing<'_> {
    fn low(&self, leaf: LeafId) -> Result<KeyBytes<'_>, Error> {
        match self.1.get().checked_sub(1) {
            Some(left) => self.1.set(left),
            None => return damaged(u64::from(leaf), "a table that answers"),
        }
        self.0.low(leaf)
    }
}

#[test]
fn an_error_changes_nothing() {
    let mut house = House::new(20_000);
    let key = |number: u64| [[7; 60].as_slice(), &number.to_be_bytes()].concat();
    (1..9000).for_each(|number| house.insert(&key(2 * number)));
    let (mut errors, mut splits) = (0, 0);
    // Into every full node on the way.
    for number in (1..9000).step_by(30) {
        let (low, leaf) = (key(2 * number + 1), house.leaves);
        house.table.set(leaf, &low);
        house.leaves += 1;
        let nodes = house.inner.node_count();
        for answers in 0.. {
            let failing = Failing(&house.table, Cell::new(answers));
            if house.inner.insert(&low, leaf, &failing).is_ok() {
                break;
            }
            assert_eq!(house.inner.node_count(), nodes);
            errors += 1;
        }
        splits += house.inner.node_count() - nodes;
        house.model.insert(low, leaf);
    }
    assert!(errors > 1000 && splits > 10, "{errors} errors, {splits} splits");
    house.check();
    for number in 1..9000 {
        let (low, leaf) = house.model.range(key(2 * number)..).next().unwrap();
        for answers in 0.. {
            let failing = Failing(&house.table, Cell::new(answers));
            if house.inner.remove(low, *leaf, &failing).is_ok() {
                break;
            }
        }
        let low = low.clone();
        house.model.remove(&low);
    }
    house.check();
}

#[test]
fn a_ticket_is_void_once_its_node_has_changed() {
    let mut house = House::new(10);
    house.insert(b"k");
    house.table.set(2, b"m");
    let House { inner, table, .. } = house;
    let (_, token) = inner.find(b"l", &table).unwrap();
    assert!(token.still());
    inner.insert(b"m", 2, &table).unwrap();
    assert!(!token.still());
    let (_, token) = inner.find(b"l", &table).unwrap();
    inner.remove(b"m", 2, &table).unwrap();
    assert!(!token.still());
}
