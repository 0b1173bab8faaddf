//! Keys that are looked for together: what each of them alone has, and all of one version.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use tembo_kv::{
    Durability, Error, IndexKind, Isolation, Keyspace, Options, Snapshot, Store, Value,
};

#[path = "driver/random.rs"]
mod random;
use random::Random;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn open(index: IndexKind) -> (Store, Keyspace) {
    let options = Options::new().index(index).background(false).size(4 << 20).size_max(256 << 20);
    let store = Store::volatile(&options).unwrap();
    let space = store.keyspace("x").unwrap();
    (store, space)
}

/// Short ones, names behind a common prefix, long ones, and one of the longest.
fn key(random: &mut Random) -> Vec<u8> {
    let number = random.below(400);
    match number % 5 {
        0 => number.to_be_bytes().to_vec(),
        1 => number.to_be_bytes()[6..].to_vec(),
        2 => format!("the name of number {number}").into_bytes(),
        3 => [&[b'l'; 300][..], &number.to_be_bytes()].concat(),
        _ if number == 4 => vec![b'm'; 60_000],
        _ => [&[b'p'; 20][..], &number.to_be_bytes()[7..]].concat(),
    }
}

fn value(random: &mut Random) -> Vec<u8> {
    const LENS: [usize; 8] = [0, 1, 8, 9, 100, 512, 513, 4096];
    vec![random.below(251) as u8; LENS[random.below(8) as usize]]
}

/// Some keys, a few of them more than once, in any order.
fn some_keys(random: &mut Random) -> Vec<Vec<u8>> {
    (0..random.below(70)).map(|_| key(random)).collect()
}

fn expected(map: &Map, keys: &[Vec<u8>]) -> Vec<Option<Vec<u8>>> {
    keys.iter().map(|key| map.get(key).cloned()).collect()
}

fn copied(values: Vec<Option<Value<'_>>>) -> Vec<Option<Vec<u8>>> {
    values.into_iter().map(|value| value.map(|value| value.to_vec())).collect()
}

/// Changes some keys; in stores with an order, now and then a range of them.
fn change(random: &mut Random, (store, space): (&Store, Keyspace), map: &mut Map) {
    let mut writer = store.exclusive().unwrap();
    for _ in 0..1 + random.below(60) {
        let key = key(random);
        if random.below(4) == 0 {
            writer.remove(space, &key).unwrap();
            map.remove(&key);
        } else {
            let value = value(random);
            writer.put(space, &key, &value).unwrap();
            map.insert(key, value);
        }
    }
    if store.is_ordered() && random.below(6) == 0 {
        let (from, to) = (key(random), key(random));
        let (from, to) = if from < to { (from, to) } else { (to, from) };
        writer.remove_range(space, &from[..]..&to[..]).unwrap();
        map.retain(|key, _| *key < from || *key >= to);
    }
    let keys = some_keys(random);
    assert_eq!(copied(writer.get_many(space, &keys).unwrap()), expected(map, &keys));
    writer.commit(Durability::Strict).unwrap();
}

#[test]
fn keys_that_are_looked_for_together_have_what_each_of_them_has() {
    for index in IndexKind::ALL {
        let (store, space) = open(index);
        let (mut random, mut map) = (Random(21), Map::new());
        let mut kept: Vec<(Snapshot, Map)> = Vec::new();
        for round in 0..150 {
            change(&mut random, (&store, space), &mut map);
            if random.below(8) == 0 {
                kept.push((store.snapshot().unwrap(), map.clone()));
            }
            if kept.len() > 4 {
                kept.swap_remove(random.below(4) as usize);
            }
            if round % 3 == 0 {
                // What a removed range covered is erased a few keys at a time.
                store.maintain(5).unwrap();
            }
            let keys = some_keys(&mut random);
            let all = expected(&map, &keys);
            assert_eq!(store.get_many(space, &keys).unwrap(), all, "{index:?}, round {round}");
            let alone: Vec<_> = keys.iter().map(|key| store.get(space, key).unwrap()).collect();
            assert_eq!(alone, all);
            for (snapshot, map) in &kept {
                let found = copied(snapshot.get_many(space, &keys).unwrap());
                assert_eq!(found, expected(map, &keys), "{index:?}, {}", snapshot.version());
            }
        }
        assert!(map.len() > 40, "{}", map.len());
    }
}

#[test]
fn a_transaction_finds_what_it_has_written_among_what_was_there() {
    for (index, isolation) in IndexKind::ALL.into_iter().zip([
        Isolation::Snapshot,
        Isolation::Serialisable,
        Isolation::Snapshot,
    ]) {
        let (store, space) = open(index);
        let (mut random, mut map) = (Random(5), Map::new());
        for round in 0..30 {
            change(&mut random, (&store, space), &mut map);
            let mut tx = store.transaction(isolation).unwrap();
            for _ in 0..random.below(40) {
                let key = key(&mut random);
                if random.below(3) == 0 {
                    tx.remove(space, &key).unwrap();
                    map.remove(&key);
                } else {
                    let value = value(&mut random);
                    tx.put(space, &key, &value).unwrap();
                    map.insert(key, value);
                }
            }
            let keys = some_keys(&mut random);
            assert_eq!(tx.get_many(space, &keys).unwrap(), expected(&map, &keys), "{round}");
            tx.commit(Durability::Strict).unwrap();
        }
    }
}

#[test]
fn a_serialisable_transaction_has_read_all_of_them() {
    let (store, space) = open(IndexKind::Nvtree);
    let mut tx = store.transaction(Isolation::Serialisable).unwrap();
    assert_eq!(tx.get_many(space, &["a", "b"]).unwrap(), [None, None]);
    tx.put(space, b"c", b"1").unwrap();
    store.put(space, b"b", b"2", Durability::Strict).unwrap();
    assert!(matches!(tx.commit(Durability::Strict), Err(Error::Conflict { .. })));
}

#[test]
fn a_keyspace_that_is_not_there_is_an_error_and_no_key_is_none() {
    let (store, space) = open(IndexKind::Nvtree);
    let none: [&[u8]; 0] = [];
    assert_eq!(store.get_many(space, &none).unwrap(), Vec::<Option<Vec<u8>>>::new());
    let before = store.snapshot().unwrap();
    let later = store.keyspace("later").unwrap();
    let found = before.get_many(later, &["a"]).map(copied);
    assert!(matches!(found, Err(Error::NoSuchKeyspace { .. })), "{found:?}");
    assert_eq!(store.get_many(later, &["a"]).unwrap(), [None]);
}

/// Each commit gives all keys one number, and beside it single keys come and go: leaves are split, and change while
/// they are looked at.
#[test]
fn all_are_of_one_version_beside_writers() {
    const KEYS: u64 = 40;
    const COMMITS: u64 = 300;
    for index in IndexKind::ALL {
        let (store, space) = open(index);
        let keys: Vec<Vec<u8>> = (0..KEYS)
            .map(|number| match number % 2 {
                0 => (number << 32).to_be_bytes().to_vec(),
                _ => format!("the name of number {number}").into_bytes(),
            })
            .collect();
        let write = |number: u64| {
            let mut writer = store.exclusive().unwrap();
            for key in &keys {
                // A word, or a record.
                let value = number.to_le_bytes().repeat(1 + key.len() % 3 * 40);
                writer.put(space, key, &value).unwrap();
            }
            writer.commit(Durability::Strict).unwrap();
        };
        write(0);
        let (is_over, mut seen) = (AtomicBool::new(false), 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (1..=COMMITS).for_each(write);
                is_over.store(true, Ordering::Relaxed);
            });
            let mut random = Random(3);
            while !is_over.load(Ordering::Relaxed) {
                let mut numbers = Vec::new();
                let read = |value: Option<Value<'_>>| {
                    let value = value.map(|value| value.to_vec()).unwrap();
                    let number = value[..8].to_vec();
                    assert!(value.chunks(8).all(|part| part == &number[..]));
                    numbers.push(u64::from_le_bytes(number.try_into().unwrap()));
                };
                store.get_many_with(space, &keys, read).unwrap();
                assert_eq!(numbers.len() as u64, KEYS);
                let first = numbers[0];
                assert!(numbers.iter().all(|&number| number == first), "{index:?}: {numbers:?}");
                assert!(first >= seen, "{first} after {seen}");
                seen = first;
                let other = (random.below(1 << 40)).to_be_bytes();
                store.put(space, &other, &other, Durability::Strict).unwrap();
            }
        });
    }
}
