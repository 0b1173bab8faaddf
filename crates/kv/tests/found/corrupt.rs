//! A corrupt record: every handle says of which keyspace it is, and of which key.

use std::ops::ControlFlow;
use std::path::Path;

use tembo_kv::{Direction, Durability, Error, Isolation, Keyspace, Retention, SaveOptions, Store};

use super::bench::{directory, fill, options, recover};

const KEY: &[u8] = b"a key that is longer than a word";

/// Two keyspaces with the same key; one bit of its value in the second is flipped in the closed pool.
fn damaged(path: &Path) -> Store {
    let value = |name: &str| [name.as_bytes(); 40].concat();
    let store = Store::create(path, &options(4 << 20, 4 << 20)).unwrap();
    store.retain(Retention::Since(store.visible())).unwrap();
    for name in ["first", "second"] {
        let space = store.keyspace(name).unwrap();
        store.put(space, KEY, &value(name), Durability::Buffered).unwrap();
    }
    store.save_snapshot("then").unwrap();
    store.close().unwrap();
    let mut image = std::fs::read(path).unwrap();
    let wanted = value("second");
    let at = image.windows(wanted.len()).position(|bytes| bytes == wanted).unwrap();
    image[at + 100] ^= 1;
    std::fs::write(path, image).unwrap();
    Store::open(path, &options(4 << 20, 4 << 20)).unwrap()
}

#[track_caller]
fn names<T>(what: &str, found: Result<T, Error>) {
    match found.err() {
        Some(Error::Corrupt { keyspace, key, offset }) => {
            assert_eq!((keyspace.as_deref(), &key[..]), (Some("second"), KEY), "{what}");
            assert!(offset > 0, "{what}");
        }
        other => panic!("{what}: {other:?}"),
    }
}

#[test]
fn every_reader_names_the_keyspace_of_a_corrupt_record() {
    let directory = directory("corrupt");
    let store = damaged(&directory.pool());
    let [first, second] = ["first", "second"].map(|name| store.keyspace(name).unwrap());
    assert!(store.get(first, KEY).unwrap().is_some());
    names("get", store.get(second, KEY));
    let forward = |space: Keyspace| store.range::<[u8]>(space, ..).unwrap().collect::<Vec<_>>();
    assert!(forward(first).into_iter().all(|entry| entry.is_ok()));
    names("range", forward(second).into_iter().collect::<Result<Vec<_>, _>>());
    let snapshot = store.snapshot().unwrap();
    names("get of a snapshot", snapshot.get(second, KEY).map(drop));
    let mut all = |_: &[u8], _: tembo_kv::Value<'_>| true;
    let direction = Direction::Backward;
    names("range of a snapshot", snapshot.range_with::<[u8]>(second, .., direction, &mut all));
    names(
        "get of a named snapshot",
        store.snapshot_named("then").unwrap().get(second, KEY).map(drop),
    );
    let mut tx = store.transaction(Isolation::Serialisable).unwrap();
    names("get of a transaction", tx.get(second, KEY));
    names("range of a transaction", tx.range_with::<[u8]>(second, .., direction, &mut all));
    drop(tx);
    let exclusive = store.exclusive().unwrap();
    names("get of an exclusive writer", exclusive.get(second, KEY).map(drop));
    names("its range", exclusive.range_with::<[u8]>(second, .., direction, &mut all));
    drop(exclusive);
    names("changes", store.changes(store.oldest()).unwrap().next());
    names("check", store.check());
    let text = store.get(second, KEY).unwrap_err().to_string();
    assert!(text.contains("\"second\"") && text.contains("longer than a word"), "{text}");
    let backup = directory.pool().with_extension("backup");
    let saved = store.save(&backup, &SaveOptions::default(), &mut |_| ControlFlow::Continue(()));
    assert!(saved.unwrap_err().to_string().contains("keyspace \"second\""));
}

/// Does something to the key whose record is corrupt.
type Cure = fn(&Store, Keyspace) -> Result<(), Error>;

const CURES: [(&str, Cure); 6] = [
    ("put", |store, space| store.put(space, KEY, b"sound", Durability::Strict).map(drop)),
    ("remove", |store, space| store.remove(space, KEY, Durability::Strict).map(drop)),
    ("put by an exclusive writer", |store, space| {
        let mut tx = store.exclusive()?;
        assert!(tx.put(space, KEY, b"sound")?);
        tx.commit(Durability::Strict).map(drop)
    }),
    ("remove by an exclusive writer", |store, space| {
        let mut tx = store.exclusive()?;
        assert!(tx.remove(space, KEY)?);
        tx.commit(Durability::Strict).map(drop)
    }),
    ("put by a transaction", |store, space| {
        let mut tx = store.transaction(Isolation::Snapshot)?;
        tx.put(space, KEY, b"sound")?;
        // So that it has something to validate.
        store.put(space, b"another", b"key", Durability::Strict)?;
        tx.commit(Durability::Strict).map(drop)
    }),
    ("remove by a transaction", |store, space| {
        let mut tx = store.transaction(Isolation::Snapshot)?;
        tx.remove(space, KEY)?;
        store.put(space, b"another", b"key", Durability::Strict)?;
        tx.commit(Durability::Strict).map(drop)
    }),
];

#[test]
fn a_corrupt_record_can_be_put_again_and_removed() {
    for has_tombstone in [false, true] {
        for (what, cure) in CURES {
            let directory = directory("corrupt-cure");
            let store = damaged(&directory.pool());
            let space = store.keyspace("second").unwrap();
            if has_tombstone {
                store.remove_range(space, &b"x"[..]..b"y", Durability::Strict).unwrap();
            }
            cure(&store, space).unwrap_or_else(|error| panic!("{what}: {error}"));
            let expected = what.starts_with("put").then(|| b"sound".to_vec());
            assert_eq!(store.get(space, KEY).unwrap(), expected, "{what}");
        }
    }
}

#[test]
fn a_corrupt_record_of_a_removed_range_is_erased() {
    let directory = directory("corrupt-range");
    let store = damaged(&directory.pool());
    let space = store.keyspace("second").unwrap();
    fill(&store, space, 0..200, b"a value that lies in a record");
    store.remove_range(space, &b"a"[..].., Durability::Strict).unwrap();
    store.retain(Retention::Nothing).unwrap();
    store.drop_snapshot("then").unwrap();
    recover(&store);
    assert_eq!(store.get(space, KEY).unwrap(), None);
    assert_eq!(store.exclusive().unwrap().count(space), Some(0));
    assert_eq!(store.check().unwrap().leaked, 0);
}
