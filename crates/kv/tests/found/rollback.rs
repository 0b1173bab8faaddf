//! Rollback: not under a reader, and what did not survive it is not there.

use tembo_kv::{Durability, Error, Store};

use super::bench::{options, recover};

fn store() -> Store {
    let store = Store::volatile(&options(4 << 20, 16 << 20)).unwrap();
    recover(&store);
    store
}

#[test]
fn rollback_is_refused_while_any_handle_above_the_version_is_open() {
    // Where names stand: beside the handle's version, or only between and above.
    for named_too in [false, true] {
        let store = store();
        let space = store.keyspace("a").unwrap();
        let put = |value: &[u8]| store.put(space, b"x", value, Durability::Buffered).unwrap();
        put(b"one");
        let low = store.save_snapshot("low").unwrap();
        put(b"one and a half");
        store.save_snapshot("between").unwrap();
        put(b"two");
        let handle = store.snapshot().unwrap();
        if named_too {
            assert_eq!(store.save_snapshot("beside").unwrap(), handle.version());
        }
        put(b"three");
        store.save_snapshot("high").unwrap();
        let names = store.snapshots();
        let refused = store.rollback(low);
        assert!(matches!(refused, Err(Error::VersionInUse { .. })), "{refused:?}");
        assert_eq!(store.snapshots(), names);
        assert_eq!(store.get(space, b"x").unwrap().unwrap(), b"three");
        recover(&store);
        (0..50).for_each(|i| drop(store.put(space, &[b'y', i], b"z", Durability::Buffered)));
        assert_eq!(handle.get(space, b"x").unwrap().unwrap(), b"two");
        drop(handle);
        store.rollback(low).unwrap();
        assert_eq!(store.snapshots(), [("low".to_owned(), low)]);
        assert_eq!(store.get(space, b"x").unwrap().unwrap(), b"one");
        store.check().unwrap();
    }
}

#[test]
fn a_second_handle_of_a_version_keeps_it_too() {
    let store = store();
    let space = store.keyspace("a").unwrap();
    let low = store.save_snapshot("low").unwrap();
    store.put(space, b"x", b"1", Durability::Buffered).unwrap();
    let version = store.save_snapshot("high").unwrap();
    store.save_snapshot("also high").unwrap();
    let handle = store.snapshot_at(version).unwrap();
    assert!(matches!(store.rollback(low), Err(Error::VersionInUse { .. })));
    drop(handle);
    store.rollback(low).unwrap();
}

#[test]
fn a_keyspace_that_did_not_survive_a_rollback_is_no_other_one() {
    let store = store();
    let kept = store.keyspace("kept").unwrap();
    store.put(kept, b"k", b"of kept", Durability::Buffered).unwrap();
    let version = store.save_snapshot("n").unwrap();
    let lost = store.keyspace("lost").unwrap();
    store.rollback(version).unwrap();
    let missing = |handle| {
        let refused = store.get(handle, b"k").map(drop);
        assert!(matches!(refused, Err(Error::NoSuchKeyspace { .. })), "get: {refused:?}");
        let refused = store.put(handle, b"k", b"v", Durability::Buffered).map(drop);
        assert!(matches!(refused, Err(Error::NoSuchKeyspace { .. })), "put: {refused:?}");
        let refused = store.remove(handle, b"k", Durability::Buffered).map(drop);
        assert!(matches!(refused, Err(Error::NoSuchKeyspace { .. })), "remove: {refused:?}");
        let mut tx = store.exclusive().unwrap();
        assert!(matches!(tx.get(handle, b"k"), Err(Error::NoSuchKeyspace { .. })));
        assert!(matches!(tx.clear(handle), Err(Error::NoSuchKeyspace { .. })));
        assert_eq!(tx.count(handle), None);
    };
    missing(lost);
    // The next one takes its number.
    let other = store.keyspace("other").unwrap();
    assert_ne!(lost, other);
    store.put(other, b"k", b"of other", Durability::Buffered).unwrap();
    missing(lost);
    // One of the same name is another one too.
    store.rollback(version).unwrap();
    let again = store.keyspace("lost").unwrap();
    store.put(again, b"k", b"again", Durability::Buffered).unwrap();
    missing(lost);
    missing(other);
    assert_eq!(store.get(kept, b"k").unwrap().unwrap(), b"of kept");
}

/// A snapshot looks a keyspace up as it was then, but never by its number alone.
#[test]
fn a_snapshot_does_not_take_a_lost_keyspace_for_another() {
    let store = store();
    let version = store.save_snapshot("n").unwrap();
    let lost = store.keyspace("lost").unwrap();
    store.rollback(version).unwrap();
    let other = store.keyspace("other").unwrap();
    store.put(other, b"k", b"of other", Durability::Buffered).unwrap();
    let snapshot = store.snapshot().unwrap();
    let found = snapshot.get(lost, b"k");
    assert!(matches!(found, Err(Error::NoSuchKeyspace { .. })), "{found:?}");
    assert_eq!(snapshot.get(other, b"k").unwrap().unwrap(), b"of other");
    assert!(snapshot.keyspaces().unwrap().contains(&("other".to_owned(), other)));
    // A version before there was such a keyspace.
    let before = store.snapshot_at(version).unwrap();
    assert!(matches!(before.get(other, b"k"), Err(Error::NoSuchKeyspace { .. })));
}
