//! What a store has when the power comes back, on a disk that loses all that was not synced.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;

use tembo_kv::{DomainRequest, Durability, IndexKind, Options, PoolOptions, Store, SyncPolicy};
use tembo_pool::Geometry;
use tembo_sim::{Chooser, Rest, SimDisk};

/// The indexes under test.
const POOL: &str = "/disk/test.pool";

fn options(disk: &SimDisk, index: IndexKind) -> Options {
    let mut pool = PoolOptions::default();
    pool.region.disk = Arc::new(disk.clone());
    // Nothing syncs but what is asked to.
    pool.region.background = false;
    Options::new()
        .pool(pool)
        .domain(DomainRequest::Logged)
        .sync(SyncPolicy::Always)
        .geometry(Geometry { chunk_size: 16 << 10, node_size: 1024 })
        .size(1 << 20)
        .size_max(8 << 20)
        .log_size(1 << 20)
        .index(index)
        .background(false)
}

/// The store after a power loss that took everything that was not durable.
fn reopened(disk: &SimDisk, index: IndexKind) -> Store {
    let lost = disk.snapshot().after_power_loss(Chooser::new(Rest::Old));
    Store::open(Path::new(POOL), &options(&lost, index)).unwrap()
}

fn elephant(store: &Store) -> Option<Vec<u8>> {
    let animals = store.keyspace("animals").unwrap();
    store.get(animals, b"elephant").unwrap()
}

#[test]
fn a_keyspace_survives_a_power_loss_without_a_later_sync() {
    for index in IndexKind::ALL {
        let disk = SimDisk::default();
        let store = Store::create(Path::new(POOL), &options(&disk, index)).unwrap();
        let animals = store.keyspace("animals").unwrap();
        let found = reopened(&disk, index).keyspaces();
        assert_eq!(found.len(), 1, "{index:?}: {found:?}");
        assert_eq!(found[0].0, "animals", "{index:?}");

        // The disk does lose what is visible and not synced.
        store.put(animals, b"elephant", b"forgets", Durability::Buffered).unwrap();
        assert_eq!(elephant(&reopened(&disk, index)), None, "{index:?}");
        store.sync().unwrap();
        assert_eq!(elephant(&reopened(&disk, index)).unwrap(), b"forgets", "{index:?}");
    }
}
