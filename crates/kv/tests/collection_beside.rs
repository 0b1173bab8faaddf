//! A collection in the background beside changes, reads and snapshots of the same leaves.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tembo_kv::{Direction, Durability, IndexKind, Keyspace, Options, Progress, Store};

const THREADS: u64 = 3;
/// Keys of a thread: neighbours of those of the others, in the same leaves.
const KEYS: u64 = 4000;
const ROUNDS: u64 = 6;

fn key(n: u64) -> Vec<u8> {
    format!("key-{n:08}").into_bytes()
}

/// A value in a word, or in a record.
fn value(n: u64, round: u64) -> Vec<u8> {
    let len = if n.is_multiple_of(3) { 40 } else { 8 };
    [n, round].map(u64::to_le_bytes).concat().into_iter().cycle().take(len).collect()
}

/// Puts all keys of a thread, removes most of them, and says each time what was there.
fn change(store: &Store, space: Keyspace, thread: u64) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut own = BTreeMap::new();
    for round in 0..ROUNDS {
        for n in 0..KEYS {
            let (key, value) = (key(n * THREADS + thread), value(n, round));
            let existed = store.put(space, &key, &value, Durability::Buffered).unwrap();
            assert_eq!(existed, own.insert(key, value).is_some());
        }
        for n in (0..KEYS).filter(|n| (n + round) % 9 != 0) {
            let n = n * 7919 % KEYS;
            let key = key(n * THREADS + thread);
            let existed = store.remove(space, &key, Durability::Buffered).unwrap();
            assert_eq!(existed, own.remove(&key).is_some());
            let near = self::key((n + 1) % KEYS * THREADS + thread);
            assert_eq!(store.get(space, &near).unwrap(), own.get(&near).cloned());
        }
    }
    own
}

/// Takes snapshots, each of which sees one state, whatever the collection does to its leaves.
fn look(store: &Store, space: Keyspace, ends: &AtomicBool) -> u64 {
    let mut snapshots = 0;
    while !ends.load(Ordering::Relaxed) {
        let snapshot = store.snapshot().unwrap();
        let entries = || {
            let mut all = Vec::new();
            let mut visit = |key: &[u8], value: tembo_kv::Value<'_>| {
                all.push((key.to_vec(), value.to_vec()));
                true
            };
            snapshot.range_with::<[u8]>(space, .., Direction::Forward, &mut visit).unwrap();
            all
        };
        let (first, second) = (entries(), entries());
        assert!(first.is_sorted_by_key(|(key, _)| key) && first == second);
        snapshots += 1;
    }
    snapshots
}

fn all_is_right(index: IndexKind, background: bool, looks: bool) {
    let options = Options::new().index(index).background(background).size(8 << 20);
    let store = Store::volatile(&options.size_max(256 << 20)).unwrap();
    let space = store.keyspace("a").unwrap();
    let ends = AtomicBool::new(false);
    let mut expected = BTreeMap::new();
    std::thread::scope(|scope| {
        let looker = looks.then(|| scope.spawn(|| look(&store, space, &ends)));
        let collector = (!background).then(|| {
            scope.spawn(|| {
                while !ends.load(Ordering::Relaxed) {
                    if store.maintain(1).unwrap() == Progress::Idle {
                        std::thread::yield_now();
                    }
                }
            })
        });
        let change = |thread| {
            let store = &store;
            scope.spawn(move || change(store, space, thread))
        };
        let writers: Vec<_> = (0..THREADS).map(change).collect();
        writers.into_iter().for_each(|writer| expected.extend(writer.join().unwrap()));
        ends.store(true, Ordering::Relaxed);
        assert!(looker.is_none_or(|looker| looker.join().unwrap() > 0));
        collector.into_iter().for_each(|collector| collector.join().unwrap());
    });
    // While the thread in the background marks, nothing is left to others.
    let collected = (0..10_000).any(|_| {
        while store.maintain(64).unwrap() == Progress::More {}
        std::thread::sleep(Duration::from_millis(1));
        store.report().collections > 0
    });
    assert!(collected);
    for n in 0..KEYS * THREADS {
        let key = key(n);
        assert_eq!(store.get(space, &key).unwrap(), expected.get(&key).cloned(), "{n}");
    }
    let check = store.check().unwrap();
    assert_eq!((check.keyspaces[0].1.entry_count, check.leaked), (expected.len() as u64, 0));
}

#[test]
fn changes_go_on_beside_the_background() {
    for index in [IndexKind::Nvtree, IndexKind::Hash] {
        all_is_right(index, true, false);
    }
}

#[test]
fn snapshots_see_one_state_beside_a_collection() {
    all_is_right(IndexKind::Nvtree, true, true);
}

/// With steps that follow each other at once, not after the pauses of the background.
#[test]
fn changes_go_on_beside_steps_of_a_thread() {
    all_is_right(IndexKind::Nvtree, false, true);
}
