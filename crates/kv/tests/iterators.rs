//! Iterators over ranges, from both ends at once, against a map.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::ops::Bound;

use tembo_kv::{Durability, Entries, IndexKind, Isolation, Keyspace, Options, Store};

#[path = "driver/random.rs"]
mod random;
use random::Random;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn key(random: &mut Random, most: u64) -> Vec<u8> {
    random.below(most).to_be_bytes()[5..].to_vec()
}

fn bound(random: &mut Random, most: u64) -> Bound<Vec<u8>> {
    match random.below(5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Included(key(random, most)),
        _ => Bound::Excluded(key(random, most)),
    }
}

/// Takes entries from both ends as chance has it, and compares each with the map's.
fn compare(random: &mut Random, mut entries: Entries<'_>, map: &Map, range: &Range) {
    let mut expected: Vec<(&Vec<u8>, &Vec<u8>)> = match is_empty(range) {
        true => Vec::new(),
        false => map.range(range.clone()).collect(),
    };
    let one_way = random.below(3);
    loop {
        let from_front = match one_way {
            0 => true,
            1 => false,
            _ => random.below(2) == 0,
        };
        let (found, expected) = if from_front {
            let first = (!expected.is_empty()).then(|| expected.remove(0));
            (entries.next(), first)
        } else {
            (entries.next_back(), expected.pop())
        };
        let found = found.map(Result::unwrap);
        assert_eq!(found.as_ref().map(|(key, value)| (key, value)), expected, "{range:?}");
        if found.is_none() {
            assert!(entries.next().is_none() && entries.next_back().is_none());
            return;
        }
    }
}

type Range = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// A map's own range panics then.
fn is_empty((from, to): &Range) -> bool {
    use Bound::{Excluded, Included};
    match (from, to) {
        (Included(from), Included(to)) => from > to,
        (Included(from) | Excluded(from), Included(to) | Excluded(to)) => from >= to,
        _ => false,
    }
}

fn fill(store: &Store, space: Keyspace, random: &mut Random, count: u64, most: u64) -> Map {
    let mut map = Map::new();
    for _ in 0..count {
        let (key, value) = (key(random, most), random.below(1 << 40).to_le_bytes().to_vec());
        if random.below(4) == 0 {
            store.remove(space, &key, Durability::Buffered).unwrap();
            map.remove(&key);
        } else {
            store.put(space, &key, &value, Durability::Buffered).unwrap();
            map.insert(key, value);
        }
    }
    map
}

#[test]
fn ranges_from_both_ends_are_those_of_a_map() {
    for index in IndexKind::ORDERED {
        let options = Options::new().index(index).background(false);
        let store = Store::volatile(&options).unwrap();
        let space = store.keyspace("x").unwrap();
        let mut random = Random(41);
        for (count, most) in [(0, 10), (5, 10), (300, 400), (3000, 5000)] {
            let mut writer = store.exclusive().unwrap();
            writer.clear(space).unwrap();
            writer.commit(Durability::Buffered).unwrap();
            let map = fill(&store, space, &mut random, count, most);
            for _ in 0..60 {
                let range = (bound(&mut random, most), bound(&mut random, most));
                let entries = store.range(space, range.clone()).unwrap();
                compare(&mut random, entries, &map, &range);
            }
        }
    }
}

#[test]
fn ranges_of_transactions_and_exclusive_writers_have_their_own_writes() {
    for index in IndexKind::ORDERED {
        for transaction_memory in [1, 1 << 20] {
            let options = Options::new()
                .index(index)
                .background(false)
                .transaction_memory(transaction_memory);
            let store = Store::volatile(&options).unwrap();
            let space = store.keyspace("x").unwrap();
            let mut random = Random(7);
            let most = 1500;
            let map = fill(&store, space, &mut random, 1000, most);
            for isolation in [Isolation::Snapshot, Isolation::Serialisable] {
                let mut own = map.clone();
                let mut tx = store.transaction(isolation).unwrap();
                for round in 0..200 {
                    change(&mut random, most, &mut own, |key, value| match value {
                        Some(value) => tx.put(space, key, value).unwrap(),
                        None => tx.remove(space, key).unwrap(),
                    });
                    if round % 20 == 0 {
                        let range = (bound(&mut random, most), bound(&mut random, most));
                        let entries = tx.range(space, range.clone()).unwrap();
                        compare(&mut random, entries, &own, &range);
                    }
                }
            }
            let (mut own, mut writer) = (map.clone(), store.exclusive().unwrap());
            for round in 0..200 {
                change(&mut random, most, &mut own, |key, value| match value {
                    Some(value) => drop(writer.put(space, key, value).unwrap()),
                    None => drop(writer.remove(space, key).unwrap()),
                });
                if round % 20 == 0 {
                    let range = (bound(&mut random, most), bound(&mut random, most));
                    compare(&mut random, writer.range(space, range.clone()).unwrap(), &own, &range);
                }
            }
        }
    }
}

fn change(
    random: &mut Random,
    most: u64,
    map: &mut Map,
    mut change: impl FnMut(&[u8], Option<&[u8]>),
) {
    let key = key(random, most);
    if random.below(3) == 0 {
        change(&key, None);
        map.remove(&key);
    } else {
        let value = random.below(1 << 40).to_le_bytes();
        change(&key, Some(&value));
        map.insert(key, value.to_vec());
    }
}

#[test]
fn an_iterator_reads_its_version_whatever_happens_meanwhile() {
    for index in IndexKind::ORDERED {
        let options = Options::new().index(index).background(false);
        let store = Store::volatile(&options).unwrap();
        let space = store.keyspace("x").unwrap();
        let map = fill(&store, space, &mut Random(3), 2000, 3000);
        let mut entries = store.range::<[u8]>(space, ..).unwrap();
        let mut found = vec![entries.next().unwrap().unwrap()];
        let mut writer = store.exclusive().unwrap();
        writer.clear(space).unwrap();
        writer.commit(Durability::Strict).unwrap();
        fill(&store, space, &mut Random(4), 2000, 3000);
        found.extend(entries.map(Result::unwrap));
        assert!(found.into_iter().eq(map));
    }
}
