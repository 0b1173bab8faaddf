//! What the tests stand on: directories, options, a map beside a store.

use std::sync::mpsc;
use std::time::Duration;

use tembo_kv::{Durability, Keyspace, Options, Progress, Store};
use tembo_pmem::{DomainRequest, RegionOptions, SyncPolicy};
use tembo_pool::{Geometry, PoolOptions};

use super::INDEX;
pub(crate) use crate::directory::Directory;
pub(crate) use crate::map::{Map, all};
pub(crate) use crate::random::Random;

/// Both indexes run in one process.
pub(crate) fn directory(name: &str) -> Directory {
    Directory::new(&format!("{}-{name}", INDEX.name()))
}

/// A pool in the `logged` domain that survives the process; recovery step by step.
pub(crate) fn options(size: u64, size_max: u64) -> Options {
    let region = RegionOptions {
        domain: DomainRequest::Logged,
        sync: SyncPolicy::Os,
        size_max,
        log_size: 4 << 20,
        ..RegionOptions::default()
    };
    let pool = PoolOptions { size, region, ..PoolOptions::default() };
    Options::new().pool(pool).index(INDEX).background(false)
}

/// A pool of that size, which does not grow, with nodes of four entries.
pub(crate) fn tiny(size: u64) -> Options {
    options(size, size).geometry(Geometry::TINY)
}

pub(crate) fn key(i: u64) -> Vec<u8> {
    format!("key:{i:012}").into_bytes()
}

/// What is synced is durable; no close, no checkpoint.
pub(crate) fn kill(store: Store) {
    store.sync().unwrap();
    drop(store);
}

/// Recovers until there is nothing left to do.
pub(crate) fn recover(store: &Store) {
    while store.maintain(16).unwrap() == Progress::More {}
}

/// Puts the keys of a range in one transaction.
pub(crate) fn fill(store: &Store, space: Keyspace, keys: std::ops::Range<u64>, value: &[u8]) {
    let mut tx = store.exclusive().unwrap();
    for i in keys {
        tx.put(space, &key(i), value).unwrap();
    }
    tx.commit(Durability::Buffered).unwrap();
}

/// The store shows exactly this, by range and by key.
pub(crate) fn expect(store: &Store, space: Keyspace, map: &Map, what: &str) {
    let snapshot = store.snapshot().unwrap();
    for (key, value) in map {
        let found = snapshot.get(space, key).unwrap();
        assert!(
            found.is_some_and(|found| found == *value),
            "{what}: {}",
            String::from_utf8_lossy(key)
        );
    }
    assert!(all(&snapshot, space) == *map, "{what}: a range sees something else");
}

/// Runs `work` in a thread of its own; it must end in time, and not by a panic.
pub(crate) fn ends<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    // Many times what any of it takes on a machine that is busy with something else.
    const PATIENCE: Duration = Duration::from_secs(120);
    let (sender, receiver) = mpsc::channel();
    let name = what.to_owned();
    std::thread::Builder::new().name(name).spawn(move || drop(sender.send(work()))).unwrap();
    match receiver.recv_timeout(PATIENCE) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{what}: no end after {PATIENCE:?}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => panic!("{what}: a panic"),
    }
}
