//! Space: a full pool can be emptied, and what is given up comes back.
#![allow(clippy::unwrap_used)]

use tembo_kv::{Durability, Error, IndexKind, Keyspace, Options, Progress, Store};
use tembo_pool::Object;

#[path = "driver/directory.rs"]
mod directory;
#[path = "driver/wait.rs"]
mod wait;

use directory::Directory;
use wait::wait_until;

fn options(index: IndexKind, size: u64, size_max: u64) -> Options {
    Options::new().index(index).background(false).size(size).size_max(size_max)
}

fn idle(store: &Store) {
    while store.maintain(16).unwrap() == Progress::More {}
}

/// Waits for the first marking, before which nothing is given back.
fn recover(store: &Store) {
    idle(store);
    wait_until("recovery", || store.report().recovering, |recovering| !recovering);
}

fn key(i: u64) -> Vec<u8> {
    format!("key-{i:06}").into_bytes()
}

/// Puts until the pool refuses; how many keys fit.
fn fill(store: &Store, space: Keyspace, len: usize) -> u64 {
    let put = |i| store.put(space, &key(i), &vec![1; len], Durability::Buffered);
    let refused = (0..).find_map(|i| put(i).err().map(|error| (i, error)));
    let (count, error) = refused.unwrap();
    assert!(matches!(error, Error::Full(_)), "{error}");
    count
}

fn clear(store: &Store, spaces: &[Keyspace]) -> Result<(), Error> {
    let mut tx = store.exclusive()?;
    spaces.iter().try_for_each(|&space| tx.clear(space))?;
    tx.commit(Durability::Strict).map(drop)
}

/// A snapshot keeps everything that fills the pool.
#[test]
fn a_full_pool_that_a_name_keeps_is_emptied_and_given_back() {
    for index in IndexKind::ALL {
        for len in [40, 1000, 100_000] {
            for reopened in [false, true] {
                let what = format!("{index:?}, values of {len} bytes, reopened: {reopened}");
                let directory =
                    Directory::new(&format!("emptied-{}-{len}-{reopened}", index.name()));
                let path = directory.pool();
                let options = options(index, 4 << 20, 4 << 20);
                let mut store = Store::create(&path, &options).unwrap();
                idle(&store);
                let names: Vec<String> = (0..32).map(|i| format!("space-{i}")).collect();
                let open = |store: &Store| -> Vec<Keyspace> {
                    names.iter().map(|name| store.keyspace(name).unwrap()).collect()
                };
                let mut spaces = open(&store);
                let count = fill(&store, spaces[0], len);
                store.save_snapshot("save").unwrap();
                if reopened {
                    drop(store);
                    store = Store::open(&path, &options).unwrap();
                    spaces = open(&store);
                }
                // Some keys, then all, more than once.
                for i in 0..count.min(3) {
                    let removed = store.remove(spaces[0], &key(i), Durability::Buffered);
                    assert!(removed.unwrap(), "{what}");
                }
                for _ in 0..3 {
                    clear(&store, &spaces).unwrap_or_else(|error| panic!("{what}: {error}"));
                }
                store.save_snapshot("save").unwrap();
                idle(&store);
                let again = fill(&store, spaces[0], len);
                assert!(again * 10 >= count * 9, "{what}: {count}, then {again}");
                store.check().unwrap();
            }
        }
    }
}

/// What is cleared comes back at once, not when a marking of the whole pool has ended: however fast a writer clears.
#[test]
fn clearing_again_and_again_takes_no_more_space() {
    for index in IndexKind::ALL {
        for background in [false, true] {
            let options = options(index, 16 << 20, 1 << 30).background(background);
            let store = Store::volatile(&options).unwrap();
            recover(&store);
            let space = store.keyspace("a").unwrap();
            let round = || {
                store.put(space, b"k", b"1", Durability::Buffered).unwrap();
                clear(&store, &[space]).unwrap();
            };
            (0..100).for_each(|_| round());
            let before = store.report().used_bytes;
            let mut most = 0;
            for _ in 0..10_000 {
                round();
                most = most.max(store.report().used_bytes);
            }
            assert!(most <= before + (64 << 10), "{index:?}, {background}: {before}, {most}");
            assert_eq!(store.report().pool_bytes, 16 << 20);
            assert_eq!(store.check().unwrap().leaked, 0);
        }
    }
}

/// A tree that a snapshot sees, or that a rollback brings back, is not given back; a large one goes in the background.
#[test]
fn what_was_cleared_stays_while_a_version_sees_it() {
    for index in IndexKind::ALL {
        for (count, len) in [(10, 10), (2000, 100), (90_000, 40)] {
            let what = format!("{index:?}, {count} values of {len} bytes");
            let store = Store::volatile(&options(index, 64 << 20, 64 << 20)).unwrap();
            let space = store.keyspace("a").unwrap();
            idle(&store);
            let empty = store.report().used_bytes;
            let put = |value| {
                let mut tx = store.exclusive().unwrap();
                for i in 0..count {
                    tx.put(space, &key(i), &vec![value; len]).unwrap();
                }
                tx.commit(Durability::Buffered).unwrap();
            };
            let expect = |value: u8| {
                let snapshot = store.snapshot().unwrap();
                for i in (0..count).step_by(7) {
                    let found = snapshot.get(space, &key(i)).unwrap().unwrap().to_vec();
                    assert_eq!(found, vec![value; len], "{what}");
                }
            };
            put(1);
            store.save_snapshot("one").unwrap();
            clear(&store, &[space]).unwrap();
            put(2);
            clear(&store, &[space]).unwrap();
            idle(&store);
            put(3);
            assert_eq!(store.check().unwrap().leaked, 0, "{what}");
            expect(3);
            store.rollback_to("one").unwrap();
            expect(1);
            idle(&store);
            expect(1);
            assert_eq!(store.check().unwrap().leaked, 0, "{what}");
            clear(&store, &[space]).unwrap();
            store.drop_snapshot("one").unwrap();
            idle(&store);
            let after = store.report().used_bytes;
            assert!(after < empty + (64 << 10), "{what}: {empty}, then {after}");
            assert_eq!(store.check().unwrap().leaked, 0, "{what}");
        }
    }
}

/// Of a key that is overwritten there is the visible value, the one that a name keeps, and those that wait for the next.
#[test]
fn overwrites_hold_no_more_than_a_snapshot_and_one_value_that_was_ended() {
    for index in IndexKind::ALL {
        for len in [600, 20_000, 10_000_000] {
            let store = Store::volatile(&options(index, 64 << 20, 1 << 30)).unwrap();
            let space = store.keyspace("a").unwrap();
            idle(&store);
            let value = vec![7; len];
            let put = || {
                let mut tx = store.exclusive().unwrap();
                tx.put(space, b"k", &value).unwrap();
                tx.commit(Durability::Buffered).unwrap();
            };
            put();
            let empty = store.report().used_bytes;
            let size = Object::size_for(len as u64 + 64).unwrap();
            let mut count = 4;
            for round in 0..65 {
                if round % 20 == 0 {
                    store.save_snapshot("save").unwrap();
                    // What the name kept before is looked for only where a value is large.
                    count += u64::from(len < 16 << 10);
                }
                put();
                let used = store.report().used_bytes;
                assert!(used <= empty + count * size, "{index:?}, {len}, {round}: {empty} {used}");
            }
            clear(&store, &[space]).unwrap();
            store.save_snapshot("save").unwrap();
            idle(&store);
            let used = store.report().used_bytes;
            assert!(used < 64 << 10, "{index:?}, {len}: {used} when cleared and saved");
            assert_eq!(store.check().unwrap().leaked, 0);
        }
    }
}
