//! What was removed comes back: tombstones leave the leaves, and small leaves are merged, in the
//! background.
#![allow(clippy::unwrap_used)]

use tembo_kv::{Durability, IndexKind, Keyspace, Options, Progress, Store};
use tembo_pmem::Counters;

#[path = "driver/wait.rs"]
mod wait;

use wait::wait_until;

/// The indexes under test.
const KEYS: u64 = 20_000;

fn store(background: bool) -> (Store, Keyspace) {
    let options = Options::new()
        .index(IndexKind::Nvtree)
        .background(background)
        .size(4 << 20)
        .size_max(64 << 20);
    let store = Store::volatile(&options).unwrap();
    let space = store.keyspace("a").unwrap();
    (store, space)
}

fn idle(store: &Store) {
    while store.maintain(16).unwrap() == Progress::More {}
}

/// Keys in an order that is not theirs.
fn key(i: u64) -> Vec<u8> {
    format!("key-{:08}", i * 7919 % KEYS).into_bytes()
}

fn fill(store: &Store, space: Keyspace) {
    for i in 0..KEYS {
        store.put(space, &key(i), &i.to_le_bytes(), Durability::Buffered).unwrap();
    }
}

fn leaves(store: &Store) -> u64 {
    store.check().unwrap().keyspaces[0].1.leaf_count
}

#[test]
fn a_store_of_which_everything_was_removed_has_one_leaf_and_no_space() {
    let (store, space) = store(false);
    idle(&store);
    let empty = store.report().used_bytes;
    for round in 0..3 {
        fill(&store, space);
        idle(&store);
        let full = store.report().used_bytes;
        assert!(leaves(&store) > 300, "round {round}");
        if round % 2 == 0 {
            for i in 0..KEYS {
                assert!(store.remove(space, &key(i), Durability::Buffered).unwrap());
            }
        } else {
            let mut tx = store.exclusive().unwrap();
            (0..KEYS).for_each(|i| assert!(tx.remove(space, &key(i)).unwrap()));
            tx.commit(Durability::Buffered).unwrap();
        }
        idle(&store);
        let after = store.report().used_bytes;
        assert_eq!(leaves(&store), 1, "round {round}");
        assert!(after - empty < 8192 && full > 300 << 10, "{empty}, {full}, then {after}");
        assert_eq!(store.check().unwrap().leaked, 0);
    }
    assert_eq!(store.report().collections, 3);
}

#[test]
fn what_is_left_is_found_while_the_rest_is_collected() {
    let (store, space) = store(true);
    fill(&store, space);
    wait_until("recovery", || store.report().recovering, |recovering| !recovering);
    let is_left = |i: u64| i % 10 == 3;
    for i in (0..KEYS).filter(|&i| !is_left(i)) {
        assert!(store.remove(space, &key(i), Durability::Buffered).unwrap());
        let near = i / 10 * 10 + 3;
        let value = store.get(space, &key(near)).unwrap();
        assert_eq!(value.as_deref(), Some(&near.to_le_bytes()[..]));
    }
    // Two thousand keys are left.
    wait_until("leaves that are full", || leaves(&store), |&count| count < 150);
    for i in 0..KEYS {
        assert_eq!(store.get(space, &key(i)).unwrap().is_some(), is_left(i), "{i}");
    }
}

/// Otherwise space that is about to be given back is taken for space that the data needs.
#[test]
fn a_report_says_whether_what_was_removed_is_collected() {
    for index in IndexKind::ALL {
        let options = Options::new().index(index).background(false).size(16 << 20);
        let store = Store::volatile(&options).unwrap();
        let space = store.keyspace("a").unwrap();
        idle(&store);
        assert!(store.report().collected, "{index:?}");
        fill(&store, space);
        assert!(!store.report().collected, "{index:?}: nothing has looked yet");
        idle(&store);
        let full = store.report();
        assert!(full.collected, "{index:?}");
        (0..KEYS)
            .for_each(|i| assert!(store.remove(space, &key(i), Durability::Buffered).unwrap()));
        let before = store.report();
        assert!(!before.collected, "{index:?}: {before:?}");
        idle(&store);
        let after = store.report();
        assert!(after.collected && after.used_bytes < full.used_bytes, "{index:?}: {after:?}");
    }
}

/// What a snapshot sees stays until it goes, and then goes with the next walk.
#[test]
fn a_snapshot_keeps_what_it_sees_through_a_collection() {
    let (store, space) = store(false);
    idle(&store);
    fill(&store, space);
    let snapshot = store.snapshot().unwrap();
    (0..KEYS).for_each(|i| assert!(store.remove(space, &key(i), Durability::Buffered).unwrap()));
    idle(&store);
    for i in (0..KEYS).step_by(7) {
        let value = snapshot.get(space, &key(i)).unwrap().map(|value| value.to_vec());
        assert_eq!(value.as_deref(), Some(&i.to_le_bytes()[..]), "{i}");
    }
    drop(snapshot);
    fill(&store, space);
    (0..KEYS).for_each(|i| assert!(store.remove(space, &key(i), Durability::Buffered).unwrap()));
    idle(&store);
    assert_eq!(leaves(&store), 1);
}

/// The snapshot reads what it read before, however often everything is overwritten.
#[test]
fn what_a_snapshot_held_comes_back_when_it_is_dropped() {
    for index in IndexKind::ALL {
        for (background, len) in [(false, 8), (true, 8), (false, 120)] {
            let options = Options::new()
                .index(index)
                .background(background)
                .size(4 << 20)
                .size_max(256 << 20);
            let store = Store::volatile(&options).unwrap();
            // Nothing is given back before the first marking has ended.
            if background {
                wait_until("recovery", || store.report().recovering, |recovering| !recovering);
            }
            let space = store.keyspace("a").unwrap();
            let value = |i: u64, round: u64| vec![(i % 7 + round) as u8; len];
            let update = |round| {
                for i in 0..KEYS {
                    let value = value(i, round);
                    store.put(space, &key(i), &value, Durability::Buffered).unwrap();
                }
            };
            (0..3).for_each(update);
            idle(&store);
            let before = store.report().used_bytes;
            let snapshot = store.snapshot().unwrap();
            (3..8).for_each(update);
            idle(&store);
            for i in (0..KEYS).step_by(11) {
                let then = snapshot.get(space, &key(i)).unwrap().map(|value| value.to_vec());
                assert_eq!(then.as_deref(), Some(&value(i, 2)[..]));
            }
            let held = store.report().used_bytes;
            assert!(held > before + before / 3, "{before} {held}");
            // What it needs is kept once, however often the rest is overwritten.
            assert!(held < 3 * before, "{before} {held}");
            drop(snapshot);
            idle(&store);
            // Leaves that are more than three quarters full together stay two.
            let enough = before + before * 3 / 4;
            let used = || store.report().used_bytes;
            if background {
                wait_until("space", used, |&after| after < enough);
            }
            assert!(used() < enough, "{index:?} {before} {held} {}", used());
            assert_eq!(store.check().unwrap().leaked, 0);
        }
    }
}

/// Short keys are removed evenly, one in six: no two leaves become small enough for one.
#[test]
fn a_collection_writes_only_where_it_gives_space_back() {
    for (len, gives_back) in [(8, false), (100, true)] {
        let (store, space) = store(false);
        for i in 0..KEYS {
            store.put(space, &key(i)[4..], &vec![7; len], Durability::Buffered).unwrap();
        }
        idle(&store);
        for i in 0..KEYS / 6 {
            assert!(store.remove(space, &key(i)[4..], Durability::Buffered).unwrap());
        }
        let (before, counted) = (store.report().used_bytes, Counters::thread());
        idle(&store);
        let lines = (Counters::thread() - counted).lines;
        assert_eq!(store.report().collections, 1);
        assert_eq!(lines > 0, gives_back, "{lines} lines for values of {len} bytes");
        assert_eq!(store.report().used_bytes < before, gives_back, "values of {len} bytes");
        assert_eq!(store.check().unwrap().leaked, 0);
    }
}
