//! Which images were judged, by what was read of them.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tembo_sim::ByHash;

/// Parts, each with its lock.
const SHARDS: usize = 64;

/// A set of hashes, for several threads.
pub(crate) struct Seen {
    shards: Vec<Mutex<HashSet<u64, ByHash>>>,
    count: AtomicU64,
}

impl Seen {
    pub(crate) fn new() -> Seen {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Seen { shards, count: AtomicU64::new(0) }
    }

    /// Whether it was not there before.
    pub(crate) fn insert(&self, hash: u64) -> bool {
        let shard = &self.shards[(hash >> 32) as usize % SHARDS];
        let is_new = shard.lock().unwrap_or_else(PoisonError::into_inner).insert(hash);
        self.count.fetch_add(u64::from(is_new), Ordering::Relaxed);
        is_new
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}
