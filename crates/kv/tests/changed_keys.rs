//! Which keys differ between two snapshots: of a model, over both indexes.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use std::collections::{BTreeMap, BTreeSet};

use tembo_kv::{Durability, IndexKind, Options, Progress, Snapshot, Store};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn differing(before: &Map, after: &Map) -> BTreeSet<Vec<u8>> {
    let keys = before.keys().chain(after.keys());
    keys.filter(|key| before.get(*key) != after.get(*key)).cloned().collect()
}

fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn changes_are_those_of_a_model(kind: IndexKind, seed: u64) {
    println!("seed {seed}");
    let mut state = seed;
    let options = Options::new().index(kind).size(8 << 20).background(false);
    let store = Store::volatile(&options).unwrap();
    let space = store.keyspace("x").unwrap();
    let mut map = Map::new();
    let mut held: Vec<(Snapshot, Map)> = Vec::new();
    for round in 0..400_u64 {
        let key = |state: &mut u64| (next(state) % 64).to_be_bytes().to_vec();
        match next(&mut state) % 12 {
            0 if kind.is_ordered() => {
                let (a, b) = (key(&mut state), key(&mut state));
                let (a, b) = if a < b { (a, b) } else { (b, a) };
                store.remove_range(space, a.clone()..b.clone(), Durability::Buffered).unwrap();
                map.retain(|key, _| *key < a || *key >= b);
            }
            0..=3 => {
                let key = key(&mut state);
                store.remove(space, &key, Durability::Buffered).unwrap();
                map.remove(&key);
            }
            4 => held.push((store.snapshot().unwrap(), map.clone())),
            5 => {
                let at = next(&mut state) as usize % (held.len() + 1);
                if at < held.len() {
                    held.remove(at);
                }
            }
            6 => while store.maintain(100).unwrap() != Progress::Idle {},
            7 if next(&mut state).is_multiple_of(8) => {
                let mut writer = store.exclusive().unwrap();
                writer.clear(space).unwrap();
                writer.commit(Durability::Buffered).unwrap();
                map.clear();
            }
            _ => {
                let key = key(&mut state);
                let value = round.to_le_bytes().to_vec();
                store.put(space, &key, &value, Durability::Buffered).unwrap();
                map.insert(key, value);
            }
        }
        let now = (store.snapshot().unwrap(), map.clone());
        for (i, (before, then)) in held.iter().enumerate() {
            for (after, later) in held[i..].iter().chain([&now]) {
                let found = after.changed_keys::<[u8]>(before, space, ..).unwrap();
                let missing: Vec<_> =
                    differing(then, later).into_iter().filter(|key| !found.contains(key)).collect();
                assert!(missing.is_empty(), "round {round}: {missing:?} are not found");
            }
        }
    }
}

#[test]
fn keys_that_differ_are_found_over_the_nv_tree() {
    (1..6).for_each(|seed| changes_are_those_of_a_model(IndexKind::Nvtree, seed * 0x9e37_79b9));
}

#[test]
fn keys_that_differ_are_found_over_the_cdds_tree() {
    (1..6).for_each(|seed| changes_are_those_of_a_model(IndexKind::Cdds, seed * 0x9e37_79b9));
}

#[test]
fn keys_that_differ_are_found_over_the_hash_index() {
    (1..6).for_each(|seed| changes_are_those_of_a_model(IndexKind::Hash, seed * 0x9e37_79b9));
}

#[test]
fn nothing_differs_between_a_version_and_itself() {
    let store = Store::volatile(&Options::new().size(8 << 20)).unwrap();
    let space = store.keyspace("x").unwrap();
    store.put(space, b"a", b"1", Durability::Buffered).unwrap();
    let now = store.snapshot().unwrap();
    assert!(now.changed_keys::<[u8]>(&now.clone(), space, ..).unwrap().is_empty());
    store.put(space, b"b", b"1", Durability::Buffered).unwrap();
    let later = store.snapshot().unwrap();
    let found = later.changed_keys::<[u8]>(&now, space, ..).unwrap();
    assert_eq!(found, BTreeSet::from([b"b".to_vec()]));
}
