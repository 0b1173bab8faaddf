//! Transactions that are dropped cost the store nothing, however many they are.

use tembo_kv::{Durability, Error, Options, Store};

use super::bench::{Directory, Map, all, directory, expect, fill, key, kill, options, recover};
use crate::wait::wait_until;

const KEYS: u64 = 4000;

fn filled(directory: &Directory, options: &Options, count: u64) -> (Store, Map) {
    let store = Store::create(&directory.pool(), options).unwrap();
    let space = store.keyspace("a").unwrap();
    fill(&store, space, 0..count, b"good");
    kill(store);
    let store = Store::open(&directory.pool(), options).unwrap();
    (store, (0..count).map(|i| (key(i), b"good".to_vec())).collect())
}

fn abort(store: &Store, i: u64) {
    let space = store.keyspace("a").unwrap();
    let mut tx = store.exclusive().unwrap();
    tx.put(space, &key(i % KEYS), b"void").unwrap();
    tx.remove(space, &key((i + 1) % KEYS)).unwrap();
    if i.is_multiple_of(50) {
        tx.clear(space).unwrap();
    }
}

fn expect_after_kill(store: Store, directory: &Directory, options: &Options, map: &Map) {
    expect(&store, store.keyspace("a").unwrap(), map, "in the store");
    kill(store);
    let store = Store::open(&directory.pool(), options).unwrap();
    let space = store.keyspace("a").unwrap();
    expect(&store, space, map, "opened");
    recover(&store);
    expect(&store, space, map, "recovered");
    let check = store.check().unwrap();
    assert_eq!(check.leaked, 0);
    assert_eq!(check.keyspaces[0].1.entry_count, map.len() as u64);
}

#[test]
fn any_number_of_aborts_between_commits_without_recovery() {
    let directory = directory("aborts");
    let options = options(8 << 20, 64 << 20);
    let (store, mut map) = filled(&directory, &options, KEYS);
    let space = store.keyspace("a").unwrap();
    for i in 0..1000 {
        abort(&store, i);
        if i % 3 == 0 {
            let value = i.to_le_bytes();
            store.put(space, &key(i), &value, Durability::Buffered).unwrap();
            map.insert(key(i), value.to_vec());
        }
        if i % 101 == 0 {
            store.maintain(1).unwrap();
        }
    }
    expect_after_kill(store, &directory, &options, &map);
}

#[test]
fn any_number_of_aborts_and_nothing_else() {
    let directory = directory("only-aborts");
    let options = options(8 << 20, 64 << 20);
    let (store, map) = filled(&directory, &options, KEYS);
    (0..1000).for_each(|i| abort(&store, i));
    expect_after_kill(store, &directory, &options, &map);
}

#[test]
fn aborts_and_commits_while_markings_run() {
    let directory = directory("survey-aborts");
    let options = options(8 << 20, 64 << 20).background(true);
    let (store, mut map) = filled(&directory, &options, 15 * KEYS);
    let space = store.keyspace("a").unwrap();
    // The marking that opening has begun takes longer than all of these.
    (0..300).for_each(|i| abort(&store, i));
    for i in 0..600u64 {
        abort(&store, i);
        if i % 2 == 0 {
            let value = i.to_le_bytes();
            let put = || match store.put(space, &key(i), &value, Durability::Buffered) {
                Err(Error::TooManyAborts) => {
                    store.maintain(1).unwrap();
                    None
                }
                done => Some(done.unwrap()),
            };
            wait_until("recovery", put, Option::is_some);
            map.insert(key(i), value.to_vec());
        }
    }
    assert!(all(&store.snapshot().unwrap(), space) == map);
    let options = options.background(false);
    expect_after_kill(store, &directory, &options, &map);
}
