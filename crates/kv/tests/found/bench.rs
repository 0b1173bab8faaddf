//! What the tests stand on: directories, options, a map beside a store.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use tembo_kv::{Direction, Durability, Keyspace, Options, Progress, Snapshot, Store};
use tembo_pmem::{DomainRequest, RegionOptions, SyncPolicy};
use tembo_pool::{Geometry, PoolOptions};

use super::INDEX;

pub(crate) type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Gone when dropped.
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new(name: &str) -> Directory {
        let (index, process) = (INDEX.name(), std::process::id());
        let path = std::env::temp_dir().join(format!("tembo-found-{process}-{index}-{name}"));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn pool(&self) -> PathBuf {
        self.0.join("test.pool")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
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
    Options { pool, index: INDEX, background: false, ..Options::default() }
}

/// A pool of that size, which does not grow, with nodes of four entries.
pub(crate) fn tiny(size: u64) -> Options {
    let mut options = options(size, size);
    options.pool.geometry = Geometry::TINY;
    options
}

pub(crate) fn key(i: u64) -> Vec<u8> {
    format!("key:{i:012}").into_bytes()
}

pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 11) % n
    }
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
        tx.put(space, &key(i), &[value]).unwrap();
    }
    tx.commit(Durability::Buffered).unwrap();
}

pub(crate) fn all(snapshot: &Snapshot<'_>, space: Keyspace) -> Map {
    let mut map = Map::new();
    let mut visit = |k: &[u8], v: &[u8]| {
        assert!(map.insert(k.to_vec(), v.to_vec()).is_none(), "a key is seen twice");
        true
    };
    let (from, to) = (Bound::Unbounded, Bound::Unbounded);
    snapshot.range(space, from, to, Direction::Forward, &mut visit).unwrap();
    map
}

/// The store shows exactly this, by range and by key.
pub(crate) fn expect(store: &Store, space: Keyspace, map: &Map, what: &str) {
    let snapshot = store.snapshot().unwrap();
    for (key, value) in map {
        let found = snapshot.get(space, key).unwrap();
        assert!(
            found.as_deref() == Some(value.as_slice()),
            "{what}: {}",
            String::from_utf8_lossy(key)
        );
    }
    assert!(all(&snapshot, space) == *map, "{what}: a range sees something else");
}

/// Runs `work` in a thread of its own; it must end in time, and not by a panic.
pub(crate) fn ends<T: Send + 'static>(
    what: &str,
    seconds: u64,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (sender, receiver) = mpsc::channel();
    let name = what.to_owned();
    std::thread::Builder::new().name(name).spawn(move || drop(sender.send(work()))).unwrap();
    match receiver.recv_timeout(Duration::from_secs(seconds)) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{what}: no end after {seconds} s"),
        Err(mpsc::RecvTimeoutError::Disconnected) => panic!("{what}: a panic"),
    }
}
