//! Large values, however small the log.

use tembo_kv::{Durability, Store};
use tembo_pmem::RegionOptions;

use super::bench::{directory, options};

fn value(seed: u64, size: usize) -> Vec<u8> {
    (0..size as u64 / 8).flat_map(|i| (i * 0x9E37_79B9 + seed).to_le_bytes()).collect()
}

fn large_values_survive(name: &str, log_size: u64, sizes: &[usize]) {
    let directory = directory(name);
    let options = options(16 << 20, 1 << 30).log_size(log_size);
    let options = options.background(true);
    let store = Store::create(&directory.pool(), &options).unwrap();
    let space = store.keyspace("a").unwrap();
    for (i, &size) in sizes.iter().enumerate() {
        let put = store.put(space, &[i as u8], &value(i as u64, size), Durability::Strict);
        assert!(matches!(put, Ok(false)), "{size} bytes with a log of {log_size}: {put:?}");
    }
    store.put(space, b"after", b"small", Durability::Strict).unwrap();
    // As after a kill.
    drop(store);
    let store = Store::open(&directory.pool(), &options).unwrap();
    let space = store.keyspace("a").unwrap();
    let snapshot = store.snapshot().unwrap();
    for (i, &size) in sizes.iter().enumerate() {
        let found = snapshot.get(space, &[i as u8]).unwrap().unwrap();
        assert!(found == value(i as u64, size), "{size} bytes with a log of {log_size}");
    }
    assert_eq!(snapshot.get(space, b"after").unwrap().unwrap(), b"small");
}

#[test]
fn large_values_survive_with_a_log_that_is_smaller() {
    large_values_survive("small-log", 8 << 20, &[8 << 20, 64 << 20]);
}

#[test]
fn large_values_survive_with_the_log_of_default_size() {
    let log_size = RegionOptions::default().log_size;
    large_values_survive("usual-log", log_size, &[8 << 20, 64 << 20]);
}
