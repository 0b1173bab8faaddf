//! Names of keyspaces have a bound. Without it the 46th name of 65,600 bytes damages the catalogue of an NV-Tree.

use tembo_kv::{Durability, Error, KEYSPACE_NAME_SIZE_MAX, Store};

use super::bench::{directory, kill, options};

#[test]
fn a_name_that_is_too_long_is_refused_and_all_else_stays() {
    let directory = directory("names");
    let options = options(16 << 20, 1 << 30);
    let store = Store::create(&directory.pool(), &options).unwrap();
    for number in 0..60 {
        let name = "n".repeat(65_600) + &format!("{number:02}");
        let refused = store.keyspace(&name);
        assert!(matches!(refused, Err(Error::KeyspaceName { size }) if size == name.len()));
        let longest = "n".repeat(KEYSPACE_NAME_SIZE_MAX - 2) + &format!("{number:02}");
        let space = store.keyspace(&longest).unwrap();
        store.put(space, b"key", &[number], Durability::Strict).unwrap();
    }
    kill(store);
    let store = Store::open(&directory.pool(), &options).unwrap();
    assert_eq!(store.keyspaces().len(), 60);
    for (number, (_, space)) in store.keyspaces().into_iter().enumerate() {
        let value = store.snapshot().unwrap().get(space, b"key").unwrap().unwrap().to_vec();
        assert_eq!(value, [number as u8]);
    }
    store.check().unwrap();
}
