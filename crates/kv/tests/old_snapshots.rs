//! Snapshots of versions before the last change of the list of keyspaces: they see each key, whatever is written meanwhile.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use tembo_kv::{Direction, Durability, IndexKind, Keyspace, Options, Snapshot, Store};

#[path = "driver/directory.rs"]
mod directory;

use directory::Directory;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

const EACH: u64 = 40;

fn options(index: IndexKind) -> Options {
    Options::new().index(index).background(false).size(8 << 20)
}

fn put(store: &Store, space: Keyspace, numbers: impl Iterator<Item = u64>, byte: u8) -> Map {
    let put = |number: u64| {
        let (key, value) = (number.to_be_bytes().to_vec(), vec![byte; 9]);
        store.put(space, &key, &value, Durability::Buffered).unwrap();
        (key, value)
    };
    numbers.map(put).collect()
}

/// What a snapshot shows, key by key and in whole ranges, is what there was.
fn expect(then: &Snapshot, space: Keyspace, map: &Map, what: &str) {
    for (key, value) in map {
        let found = then.get(space, key).unwrap().map(|value| value.to_vec());
        assert_eq!(found.as_ref(), Some(value), "{what}, {key:?}");
    }
    for direction in [Direction::Forward, Direction::Backward] {
        let (mut seen, mut last) = (Map::new(), None);
        let mut visit = |key: &[u8], value: tembo_kv::Value<'_>| {
            last = Some(key.to_vec());
            seen.insert(key.to_vec(), value.to_vec()).is_none()
        };
        then.range_with::<[u8]>(space, .., direction, &mut visit).unwrap();
        assert!(seen == *map, "{what}, {direction:?}: {} of {}, {last:?}", seen.len(), map.len());
    }
}

/// Between the keys of the snapshot, so that its leaves are split.
fn between(store: &Store, space: Keyspace) {
    put(store, space, (1..100 * EACH).step_by(2), 2);
}

#[test]
fn a_snapshot_before_a_keyspace_was_made_sees_what_is_split_off_later() {
    for index in IndexKind::ALL {
        let store = Store::volatile(&options(index)).unwrap();
        let space = store.keyspace("x").unwrap();
        let map = put(&store, space, (0..EACH).map(|number| 2 * number), 1);
        store.save_snapshot("then").unwrap();
        store.keyspace("y").unwrap();
        let then = store.snapshot_named("then").unwrap();
        expect(&then, space, &map, "before");
        between(&store, space);
        expect(&then, space, &map, index.name());
        expect(&then.clone(), space, &map, index.name());
        store.check().unwrap();
    }
}

#[test]
fn a_snapshot_of_an_earlier_life_sees_what_is_split_off_later() {
    for index in IndexKind::ALL {
        let directory = Directory::new(&format!("old-snapshots-{}", index.name()));
        let store = Store::create(&directory.pool(), &options(index)).unwrap();
        let space = store.keyspace("x").unwrap();
        let map = put(&store, space, (0..EACH).map(|number| 2 * number), 1);
        store.save_snapshot("then").unwrap();
        put(&store, space, [1].into_iter(), 1);
        store.close().unwrap();
        let store = Store::open(&directory.pool(), &options(index)).unwrap();
        let space = store.keyspace("x").unwrap();
        let then = store.snapshot_named("then").unwrap();
        expect(&then, space, &map, "before");
        between(&store, space);
        expect(&then, space, &map, index.name());
    }
}

#[test]
fn a_snapshot_sees_what_is_split_off_after_a_rollback_behind_a_clear() {
    for index in IndexKind::ALL {
        let store = Store::volatile(&options(index)).unwrap();
        let space = store.keyspace("x").unwrap();
        let map = put(&store, space, (0..EACH).map(|number| 2 * number), 1);
        let then = store.snapshot().unwrap();
        expect(&then, space, &map, "before");
        let mut tx = store.exclusive().unwrap();
        tx.clear(space).unwrap();
        tx.commit(Durability::Strict).unwrap();
        store.rollback(then.version()).unwrap();
        between(&store, space);
        expect(&then, space, &map, index.name());
        store.check().unwrap();
    }
}

/// A tree is not taken for another one that had its place on media before.
#[test]
fn a_keyspace_that_is_cleared_again_and_again_is_empty_each_time() {
    for index in IndexKind::ALL {
        let store = Store::volatile(&options(index)).unwrap();
        let space = store.keyspace("x").unwrap();
        for round in 0..200u64 {
            let map = put(&store, space, round..round + EACH, round as u8);
            store.save_snapshot("then").unwrap();
            let mut tx = store.exclusive().unwrap();
            tx.clear(space).unwrap();
            if round % 3 == 0 {
                drop(tx);
            } else {
                tx.commit(Durability::Buffered).unwrap();
            }
            let then = store.snapshot_named("then").unwrap();
            expect(&then, space, &map, index.name());
            drop(then);
            store.maintain(100).unwrap();
            let mut tx = store.exclusive().unwrap();
            tx.clear(space).unwrap();
            tx.commit(Durability::Buffered).unwrap();
            expect(&store.snapshot().unwrap(), space, &Map::new(), index.name());
        }
        store.drop_snapshot("then").unwrap();
        assert_eq!(store.check().unwrap().leaked, 0);
    }
}
