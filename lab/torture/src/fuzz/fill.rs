//! What is written into the stores that the corpus begins with: something of everything.

use std::path::Path;

use tembo_kv::{Durability, Error, IndexKind, Keyspace, Progress, Store};
use tembo_server::format::{Header, data_keyspace, encode_expiry_entry, expiry_keyspace};
use tembo_sim::Random;

use super::options::options;

/// Milliseconds since 1970, long ago.
const LONG_AGO_MS: u64 = 1_000;
/// Milliseconds since 1970, in a thousand years.
const LATE_MS: u64 = 32_000_000_000_000;
/// Entries of which an NV-Tree has so many leaves that it writes a hint.
const MANY: u64 = 420;

/// Databases of the server, one of them cleared, expiries, a long value, named snapshots, a rollback,
/// an abort; in an NV-Tree what only that has.
pub(super) fn fill(path: &Path, index: IndexKind) -> Result<Store, Error> {
    let store = Store::create(path, &options().index(index))?;
    recover(&store)?;
    fill_databases(&store)?;
    if index == IndexKind::Nvtree {
        fill_leaves(&store)?;
    }
    let data = store.keyspace(&data_keyspace(0))?;
    let mut tx = store.exclusive()?;
    tx.put(data, b"aborted", b"\0")?;
    drop(tx);
    put_string(&store, "last", b"one")?;
    store.sync()?;
    Ok(store)
}

fn recover(store: &Store) -> Result<(), Error> {
    while store.maintain(16)? == Progress::More {}
    Ok(())
}

fn put_string(store: &Store, key: &str, payload: &[u8]) -> Result<(), Error> {
    let data = store.keyspace(&data_keyspace(0))?;
    let mut tx = store.exclusive()?;
    tx.put_parts(data, key.as_bytes(), &[Header::string(None).as_bytes(), payload])?;
    tx.commit(Durability::Buffered).map(drop)
}

fn fill_databases(store: &Store) -> Result<(), Error> {
    let (data, expiries) =
        (store.keyspace(&data_keyspace(0))?, store.keyspace(&expiry_keyspace(0))?);
    let cleared = store.keyspace(&data_keyspace(1))?;
    for number in 0..14 {
        put_string(store, &format!("key:{:04}", number * 5 % 14), &[number; 12])?;
        store.put(cleared, &[number], b"\0x", Durability::Buffered)?;
    }
    store.save_snapshot("then")?;
    for number in 10..18 {
        put_string(store, &format!("key:{number:04}"), &[number; 30])?;
    }
    let version = store.visible();
    let mut tx = store.exclusive()?;
    tx.clear(cleared)?;
    tx.put(cleared, b"one", b"\0two")?;
    for (key, at) in [(b"long ago", LONG_AGO_MS), (b"some day", LATE_MS)] {
        let mut entry = Vec::new();
        encode_expiry_entry(&mut entry, at, key);
        tx.put_parts(data, key, &[Header::string(Some(at)).as_bytes(), b"17"])?;
        tx.put(expiries, &entry, &[])?;
    }
    tx.commit(Durability::Buffered)?;
    store.save_snapshot("save")?;
    store.remove(data, b"key:0003", Durability::Buffered)?;
    put_string(store, "void", b"")?;
    store.rollback(store.snapshots().iter().map(|(_, at)| *at).max().unwrap_or(version))?;
    put_string(store, "long", &[b'7'; 1500])
}

/// Leaves enough for a hint, removals, low keys in records, keys that lack their leaf's prefix, and a
/// key with more versions than a leaf has slots.
fn fill_leaves(store: &Store) -> Result<(), Error> {
    let (many, long) = (store.keyspace("many")?, store.keyspace("long")?);
    let mut random = Random::new(1);
    let numbers: Vec<u64> = (0..MANY).map(|_| random.number()).collect();
    for number in &numbers {
        store.put(many, &number.to_be_bytes(), &number.to_le_bytes(), Durability::Buffered)?;
    }
    for number in 0..30_u8 {
        let key = [
            b"a prefix that does not fit into a header, ".as_slice(),
            &[b'a' + number % 16; 3],
            &[number],
        ]
        .concat();
        let value = vec![number; if number % 3 == 0 { 40 } else { 5 }];
        store.put(long, &key, &value, Durability::Buffered)?;
    }
    for key in ["a prefix", "z", "zz"] {
        store.put(long, key.as_bytes(), b"lacks it", Durability::Buffered)?;
    }
    fill_history(store, long)?;
    recover(store)?;
    for number in numbers.iter().step_by(20) {
        store.remove(many, &number.to_be_bytes(), Durability::Buffered)?;
    }
    store.remove(long, b"z", Durability::Buffered).map(drop)
}

fn fill_history(store: &Store, space: Keyspace) -> Result<(), Error> {
    for number in 0..16_u8 {
        if number == 9 {
            store.remove(space, b"often", Durability::Buffered)?;
        } else {
            let value = vec![number; if number % 4 == 1 { 20 } else { 8 }];
            store.put(space, b"often", &value, Durability::Buffered)?;
        }
        store.save_snapshot(&format!("of {number}"))?;
    }
    Ok(())
}
