//! Large values, however small the log.

use tembo_kv::{Durability, Store};
use tembo_pmem::RegionOptions;
use tembo_pool::PoolOptions;

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

/// A pool of an earlier release, whose log is too small for the operations of a store.
#[test]
fn a_log_that_is_too_small_is_refused_or_replaced() {
    for log_size in [64 << 10, 128 << 10, 256 << 10, 512 << 10, 768 << 10] {
        let directory = directory(&format!("log-{log_size}"));
        let options = options(1 << 20, 1 << 30).background(true);
        let region = RegionOptions { log_size, ..options.pool_options().region };
        let pool = PoolOptions { region, ..options.pool_options() };
        // The smallest logs refuse an operation that is too large for them.
        if let Ok(store) = Store::create(&directory.pool(), &options.clone().pool(pool))
            && let Ok(space) = store.keyspace("a")
        {
            let put = |key: u8| store.put(space, &[key], &value(7, 400), Durability::Strict);
            let count = (0..50).take_while(|key| put(*key).is_ok()).count();
            drop(store);
            // Fewer count as enough.
            let options = options.log_size(log_size);
            let store = Store::open(&directory.pool(), &options).unwrap();
            let space = store.keyspace("a").unwrap();
            store.check().unwrap();
            store.put(space, b"large", &value(1, 60_000), Durability::Strict).unwrap();
            let snapshot = store.snapshot().unwrap();
            for key in 0..count as u8 {
                assert_eq!(snapshot.get(space, &[key]).unwrap().unwrap(), value(7, 400));
            }
            drop(snapshot);
            store.close().unwrap();
        }
    }
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
