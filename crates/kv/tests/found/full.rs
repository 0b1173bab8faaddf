//! A full pool refuses, and nothing else happens.

use tembo_kv::{Durability, Error, Options, Store};
use tembo_pmem::Counters;

use super::bench::{Map, Random, directory, expect, fill, key, kill, options, recover, tiny};
use crate::wait::wait_until;

/// Transactions of puts in a pool that has no room for all of them; how many were refused.
fn overfill(store: &Store, map: &mut Map, random: &mut Random) -> u32 {
    let space = store.keyspace("a").unwrap();
    let mut refused = 0;
    for round in 0..30 {
        let before = map.clone();
        let mut tx = store.exclusive().unwrap();
        for _ in 0..40 {
            let (key, value) = (key(random.below(3000)), vec![round; random.below(60) as usize]);
            match tx.put(space, &key, &value) {
                Ok(existed) => assert_eq!(existed, map.insert(key, value).is_some()),
                Err(error) => {
                    assert!(matches!(error, Error::Full(_)), "{error}");
                    let found = tx.get(space, &key).unwrap().map(|value| value.to_vec());
                    assert_eq!(found.as_ref(), map.get(&key));
                    refused += 1;
                }
            }
        }
        if round % 7 == 6 {
            drop(tx);
            *map = before;
        } else if let Err(error) = tx.commit(Durability::Buffered) {
            assert!(matches!(error, Error::Full(_)), "{error}");
            *map = before;
        }
    }
    refused
}

#[test]
fn a_refused_put_changes_nothing_though_its_transaction_commits() {
    let mut refused = 0;
    for seed in 0..24 {
        let what = format!("seed {seed}");
        let directory = directory(&format!("refused-{seed}"));
        let options = tiny((128 << 10) + (seed % 5) * (32 << 10));
        let store = Store::create(&directory.pool(), &options).unwrap();
        let space = store.keyspace("a").unwrap();
        recover(&store);
        let (mut map, mut random) = (Map::new(), Random(seed * 7919 + 13));
        refused += overfill(&store, &mut map, &mut random);
        expect(&store, space, &map, &what);
        assert_eq!(store.exclusive().unwrap().count(space), Some(map.len() as u64), "{what}");
        // As after a kill.
        kill(store);
        let store = Store::open(&directory.pool(), &options).unwrap();
        let space = store.keyspace("a").unwrap();
        expect(&store, space, &map, &format!("{what}, opened"));
        refused += overfill(&store, &mut map, &mut random);
        expect(&store, space, &map, &format!("{what}, filled again"));
        recover(&store);
        expect(&store, space, &map, &format!("{what}, recovered"));
        let check = store.check().unwrap();
        assert_eq!((check.leaked, check.keyspaces[0].1.entry_count), (0, map.len() as u64));
    }
    assert!(refused > 500, "{refused} refused: the pools are too large");
}

/// A store filled until it refuses, and how many keys fit.
fn filled(options: &Options) -> (Store, u64) {
    let store = Store::volatile(options).unwrap();
    let space = store.keyspace("a").unwrap();
    recover(&store);
    let put = |i| store.put(space, &key(i), &[1; 40], Durability::Buffered);
    let count = (0..).find(|&i| put(i).is_err()).unwrap();
    (store, count)
}

#[test]
fn a_refused_put_leaves_nothing_to_recover_and_costs_a_fence_only_for_what_it_has_written() {
    for options in [options(1 << 20, 1 << 20), tiny(256 << 10)] {
        let (store, count) = filled(&options);
        let space = store.keyspace("a").unwrap();
        recover(&store);
        let before = Counters::thread();
        for i in 0..500 {
            let key = key(count + i);
            assert!(store.put(space, &key, &[1; 40], Durability::Buffered).is_err());
            assert!(!store.report().recovering, "refusal {i} is owed a recovery");
            assert_eq!(store.get(space, &key).unwrap(), None);
        }
        let done = Counters::thread() - before;
        // What a change has written that is refused is fenced before another thread makes changes.
        let fences_max = if done.lines == 0 { 50 } else { 500 };
        assert!(done.fences <= fences_max, "{done:?} for 500 refusals");
        for i in 0..count {
            assert_eq!(store.get(space, &key(i)).unwrap().as_deref(), Some(&[1; 40][..]));
        }
        store.check().unwrap();
    }
}

#[test]
fn a_full_pool_takes_puts_again_when_keys_are_removed() {
    let (store, count) = filled(&options(1 << 20, 1 << 20));
    let space = store.keyspace("a").unwrap();
    let remove = |i| store.remove(space, &key(i), Durability::Buffered).is_ok_and(|there| there);
    // A removal may be refused until what was removed before has come back.
    let mut left: Vec<u64> = (0..count).collect();
    for _ in 0..20 {
        left.retain(|&i| !remove(i));
        recover(&store);
    }
    assert!(left.len() as u64 <= count / 2, "{} of {count} left", left.len());
    let put = |i| store.put(space, &key(i), &[2; 40], Durability::Buffered).is_ok();
    assert!((count..count + 100).all(put), "a pool with room refuses");
    store.check().unwrap();
}

const SIZE: u64 = 3 << 20;
const KEYS: u64 = 2500;

#[test]
fn filled_and_cleared_again_and_again_a_pool_never_runs_full() {
    let directory = directory("cleared");
    let store = Store::create(&directory.pool(), &options(1 << 20, SIZE)).unwrap();
    let space = store.keyspace("a").unwrap();
    for _ in 0..30 {
        recover(&store);
        fill(&store, space, 0..KEYS, &[1; 100]);
        let mut tx = store.exclusive().unwrap();
        tx.clear(space).unwrap();
        tx.commit(Durability::Buffered).unwrap();
        assert_eq!(store.exclusive().unwrap().count(space), Some(0));
    }
    assert_eq!(store.check().unwrap().leaked, 0);
}

#[test]
fn a_thread_of_its_own_gives_back_what_was_cleared() {
    let directory = directory("cleared-behind");
    let options = options(1 << 20, SIZE).background(true);
    let store = Store::create(&directory.pool(), &options).unwrap();
    let space = store.keyspace("a").unwrap();
    for round in 0..30 {
        let what = format!("recovery in round {round}");
        wait_until(&what, || store.report().recovering, |recovering| !recovering);
        fill(&store, space, 0..KEYS, &[1; 100]);
        let mut tx = store.exclusive().unwrap();
        tx.clear(space).unwrap();
        tx.commit(Durability::Buffered).unwrap();
    }
}
