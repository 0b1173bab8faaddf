//! A store over the hash index: what takes no order of keys works as in any store, what takes one is refused.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use tembo_kv::backup::restore;
use tembo_kv::{
    Direction, DomainRequest, Durability, Error, Event, IndexKind, Isolation, Keyspace, Options,
    Progress, SaveOptions, Since, Store,
};
use tembo_pmem::RegionOptions;
use tembo_pool::PoolOptions;

#[path = "driver/directory.rs"]
mod directory;

use directory::Directory;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn options() -> Options {
    let region = RegionOptions { domain: DomainRequest::Flush, ..RegionOptions::default() };
    Options::new()
        .pool(PoolOptions { size: 16 << 20, region, ..PoolOptions::default() })
        .index(IndexKind::Hash)
        .background(false)
}

fn volatile() -> (Store, Keyspace) {
    let store = Store::volatile(&options()).unwrap();
    let space = store.keyspace("x").unwrap();
    (store, space)
}

/// Keys of all lengths.
fn key(n: u64) -> Vec<u8> {
    match n % 4 {
        0 => n.to_be_bytes().to_vec(),
        1 => n.to_be_bytes()[4..].to_vec(),
        2 => format!("key number {n}").into_bytes(),
        _ => [n.to_le_bytes(); 3].concat(),
    }
}

fn all(store: &Store, space: Keyspace) -> Map {
    store.range::<[u8]>(space, ..).unwrap().map(Result::unwrap).collect()
}

#[test]
fn ranges_of_keys_are_refused_and_say_so() {
    let (store, space) = volatile();
    store.put(space, b"a", b"1", Durability::Buffered).unwrap();
    let unordered = |result: Result<(), Error>| assert!(matches!(result, Err(Error::Unordered)));
    let bounds = &b"a"[..]..&b"b"[..];
    let snapshot = store.snapshot().unwrap();
    let mut none = |_: &[u8], _: tembo_kv::Value<'_>| -> bool { panic!("a key was shown") };
    unordered(store.range(space, bounds.clone()).map(drop));
    unordered(snapshot.range(space, bounds.clone()).map(drop));
    unordered(snapshot.range_with(space, bounds.clone(), Direction::Forward, &mut none));
    unordered(snapshot.changed_keys(&snapshot, space, bounds.clone()).map(drop));
    unordered(store.remove_range(space, bounds.clone(), Durability::Buffered));
    let mut exclusive = store.exclusive().unwrap();
    unordered(exclusive.range(space, bounds.clone()).map(drop));
    unordered(exclusive.range_with(space, bounds.clone(), Direction::Forward, &mut none));
    unordered(exclusive.remove_range::<[u8]>(space, ..));
    drop(exclusive);
    let mut transaction = store.transaction(Isolation::Serialisable).unwrap();
    unordered(transaction.range::<[u8]>(space, ..).map(drop));
    unordered(transaction.range_with::<[u8]>(space, .., Direction::Forward, &mut none));
    unordered(transaction.remove_range(space, bounds));
    let message = Error::Unordered.to_string();
    assert!(message.contains("hash") && message.contains("nvtree"), "{message}");
    // Nothing was changed by it.
    assert_eq!(all(&store, space).len(), 1);
    store.check().unwrap();
}

#[test]
fn all_keys_are_visited_once_from_either_end_also_by_several_batches() {
    let (store, space) = volatile();
    let expected: Map = (0..3000).map(|n| (key(n), n.to_be_bytes().to_vec())).collect();
    for (key, value) in &expected {
        store.put(space, key, value, Durability::Buffered).unwrap();
    }
    let forward: Vec<_> = store.range::<[u8]>(space, ..).unwrap().map(Result::unwrap).collect();
    assert_eq!(forward.len(), expected.len());
    assert_eq!(forward.iter().cloned().collect::<Map>(), expected);
    let mut both = store.range::<[u8]>(space, ..).unwrap();
    let (mut front, mut back) = (Vec::new(), Vec::new());
    while let Some(entry) = both.next() {
        front.push(entry.unwrap());
        back.extend(both.next_back().map(Result::unwrap));
    }
    front.extend(back.into_iter().rev());
    assert_eq!(front, forward);
    let exclusive = store.exclusive().unwrap();
    let seen: Map = exclusive.range::<[u8]>(space, ..).unwrap().map(Result::unwrap).collect();
    assert_eq!(seen, expected);
}

#[test]
fn transactions_conflict_and_snapshots_stay() {
    let (store, space) = volatile();
    for n in 0..500 {
        store.put(space, &key(n), b"old", Durability::Buffered).unwrap();
    }
    let before = store.snapshot().unwrap();
    let mut one = store.transaction(Isolation::Serialisable).unwrap();
    let mut other = store.transaction(Isolation::Serialisable).unwrap();
    assert_eq!(one.get(space, &key(1)).unwrap().unwrap().to_vec(), b"old");
    other.put(space, &key(1), b"other").unwrap();
    other.remove(space, &key(2)).unwrap();
    other.commit(Durability::Buffered).unwrap();
    one.put(space, &key(3), b"one").unwrap();
    assert!(matches!(one.commit(Durability::Buffered), Err(Error::Conflict { .. })));
    assert_eq!(store.get(space, &key(1)).unwrap().unwrap(), b"other");
    assert_eq!(store.get(space, &key(2)).unwrap(), None);
    assert_eq!(store.get(space, &key(3)).unwrap().unwrap(), b"old");
    let changed = store.snapshot().unwrap().changed_keys::<[u8]>(&before, space, ..).unwrap();
    assert_eq!(changed.into_iter().collect::<Vec<_>>(), {
        let mut keys = vec![key(1), key(2)];
        keys.sort();
        keys
    });
    for n in 0..500 {
        assert_eq!(before.get(space, &key(n)).unwrap().unwrap().to_vec(), b"old");
    }
    drop(before);
    store.check().unwrap();
}

/// A transaction that outgrows its memory keeps its writes in a private tree.
#[test]
fn a_large_transaction_commits_and_another_is_forgotten() {
    let store = Store::volatile(&options().transaction_memory(4096)).unwrap();
    let space = store.keyspace("x").unwrap();
    let fill = |commits: bool, value: u8| {
        let mut transaction = store.transaction(Isolation::Snapshot).unwrap();
        for n in 0..2000 {
            transaction.put(space, &key(n), &[value; 20]).unwrap();
        }
        assert_eq!(transaction.get(space, &key(7)).unwrap().unwrap().to_vec(), [value; 20]);
        if commits {
            transaction.commit(Durability::Buffered).unwrap();
        }
    };
    fill(true, 1);
    fill(false, 2);
    let found = all(&store, space);
    assert!(found.len() == 2000 && found.values().all(|value| *value == [1; 20]));
    while store.maintain(64).unwrap() == Progress::More {}
    store.check().unwrap();
}

fn save(store: &Store, path: &Path, options: &SaveOptions) {
    store.save(path, options, &mut |_| ControlFlow::Continue(())).unwrap();
}

/// As it was: after openings with and without a clean stop, a rollback, and in a pool made of two backups.
#[test]
fn what_was_put_is_there_after_openings_a_rollback_and_a_restore() {
    let directory = Directory::new("hash-life");
    let path = directory.file("a.pool");
    let mut expected = Map::new();
    let store = Store::create(&path, &options()).unwrap();
    let space = store.keyspace("x").unwrap();
    for n in 0..2000 {
        store.put(space, &key(n), &n.to_be_bytes(), Durability::Strict).unwrap();
        expected.insert(key(n), n.to_be_bytes().to_vec());
    }
    store.save_snapshot("before").unwrap();
    let full = directory.file("full");
    save(&store, &full, &SaveOptions { keep: Some("kept".into()), ..SaveOptions::default() });
    for n in (0..2000).step_by(3) {
        store.remove(space, &key(n), Durability::Strict).unwrap();
    }
    let since = Some(Since::Name("kept".into()));
    let part = directory.file("part");
    save(&store, &part, &SaveOptions { since, ..SaveOptions::default() });
    let after = all(&store, space);
    assert!(after.len() < expected.len());
    // The process goes without a word.
    drop(store);
    let store = Store::open(&path, &options()).unwrap();
    let space = store.keyspace("x").unwrap();
    assert_eq!(store.report().index, IndexKind::Hash);
    assert_eq!(all(&store, space), after);
    while store.maintain(64).unwrap() == Progress::More {}
    store.check().unwrap();
    store.rollback_to("before").unwrap();
    assert_eq!(all(&store, space), expected);
    store.put(space, b"more", b"1", Durability::Strict).unwrap();
    store.close().unwrap();
    let store = Store::open(&path, &options()).unwrap();
    let space = store.keyspace("x").unwrap();
    expected.insert(b"more".to_vec(), b"1".to_vec());
    assert_eq!(all(&store, space), expected);
    store.check().unwrap();
    // A backup has no index: of either kind another can be made.
    for index in [IndexKind::Hash, IndexKind::Nvtree] {
        let pool = directory.file(index.name());
        restore(&[&full, &part], &pool, &options().index(index), &mut |_| ()).unwrap();
        let store = Store::open(&pool, &options()).unwrap();
        let space = store.keyspace("x").unwrap();
        assert_eq!((store.report().index, all(&store, space)), (index, after.clone()));
        store.check().unwrap();
    }
}

#[test]
fn a_store_says_whether_its_keys_have_an_order() {
    let (store, _) = volatile();
    assert!(!store.is_ordered() && matches!(store.check_ordered(), Err(Error::Unordered)));
    let store = Store::volatile(&options().index(IndexKind::Nvtree)).unwrap();
    assert!(store.is_ordered() && store.check_ordered().is_ok());
}

/// What it takes is counted, and bounded by the memory of the process: beyond the bound all is found by the inner nodes.
#[test]
fn the_directory_takes_its_part_of_the_memory_and_no_more() {
    let filled = |memory: u64| {
        let store = Store::volatile(&options().size(16 << 20).memory(memory)).unwrap();
        let space = store.keyspace("x").unwrap();
        for n in 0..20_000 {
            store.put(space, &key(n), b"value", Durability::Buffered).unwrap();
        }
        for n in 0..20_000 {
            assert_eq!(store.get(space, &key(n)).unwrap().unwrap(), b"value");
        }
        store.check().unwrap();
        let report = store.report();
        (report.directory_bytes, report.directory_limit)
    };
    let (bytes, limit) = filled(1 << 30);
    assert!(limit == 64 << 20 && (1..=limit).contains(&bytes), "{bytes}");
    let small = bytes / 2;
    let (bytes, limit) = filled(small * 16);
    assert!(limit == small && (1..=limit).contains(&bytes), "{bytes} of {limit}");
    let store = Store::volatile(&options().index(IndexKind::Nvtree)).unwrap();
    assert_eq!((store.report().directory_bytes, store.report().directory_limit), (0, 0));
}

/// The tables of the directory grow while threads put, remove and look for keys: from then on a search may inherit a leaf
/// that another thread is about to split or to merge.
#[test]
fn threads_find_what_they_put_while_leaves_and_the_directory_change() {
    const WRITERS: u64 = 3;
    const KEYS: u64 = 60_000;
    let pool = PoolOptions { size: 64 << 20, ..PoolOptions::default() };
    let options = options().pool(pool).background(true);
    for round in 0..3 {
        let store = Store::volatile(&options).unwrap();
        let space = store.keyspace("x").unwrap();
        let put: Vec<AtomicU64> = (0..WRITERS).map(|_| AtomicU64::new(0)).collect();
        // Every eighth key stays; the others are removed behind the puts.
        let key = |writer: u64, n: u64| (n * WRITERS + writer + round).to_be_bytes();
        let write = |writer: u64| {
            for n in 0..KEYS {
                let (at, value) = (key(writer, n), n.to_le_bytes());
                store.put(space, &at, &value, Durability::Buffered).unwrap();
                put[writer as usize].store(n + 1, Ordering::Release);
                let old = n.saturating_sub(KEYS / 2);
                if old % 8 != 0 {
                    let was = store.remove(space, &key(writer, old), Durability::Buffered);
                    assert!(was.unwrap(), "{writer} {old}");
                }
            }
        };
        let read = |seed: u64| {
            let mut seed = seed;
            while put.iter().any(|put| put.load(Ordering::Acquire) < KEYS) {
                seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                let writer = (seed >> 40) % WRITERS;
                let there = put[writer as usize].load(Ordering::Acquire);
                if there >= 8 {
                    let n = (seed >> 20) % there / 8 * 8;
                    let value = store.get(space, &key(writer, n)).unwrap();
                    assert_eq!(value.unwrap(), n.to_le_bytes(), "{writer} {n}");
                }
            }
        };
        std::thread::scope(|scope| {
            let (write, read) = (&write, &read);
            (0..WRITERS).for_each(|writer| drop(scope.spawn(move || write(writer))));
            (0..2).for_each(|seed| drop(scope.spawn(move || read(seed))));
        });
        store.check().unwrap();
    }
}

#[test]
fn followers_see_every_change() {
    let (store, space) = volatile();
    let mut changes = store.changes(store.visible()).unwrap();
    for n in 0..300 {
        store.put(space, &key(n), b"1", Durability::Buffered).unwrap();
    }
    store.remove(space, &key(5), Durability::Buffered).unwrap();
    let mut seen = Map::new();
    while let Some(change) = changes.next().unwrap() {
        match change.event {
            Event::Put { key, value } => drop(seen.insert(key, value)),
            Event::Removed { key } => drop(seen.remove(&key)),
            _ => {}
        }
    }
    assert_eq!(seen, all(&store, space));
}
