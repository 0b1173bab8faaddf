//! What a store has after the end of its process, and when the power comes back on a disk that loses all that was not synced.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;

use tembo_kv::{
    DomainRequest, Durability, IndexKind, Isolation, Options, PoolOptions, Store, SyncPolicy,
    Transaction,
};
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

/// The store after its process was killed: the disk has what was handed to the operating system.
fn after_kill(disk: &SimDisk, index: IndexKind) -> Store {
    let left = disk.snapshot().after_kill();
    Store::open(Path::new(POOL), &options(&left, index)).unwrap()
}

/// A way to commit that the elephant has a value.
type Commit = fn(&Store, &[u8], Durability);

const COMMITS: [(&str, Commit); 5] = [
    ("put", |store, value, durability| {
        let animals = store.keyspace("animals").unwrap();
        store.put(animals, b"elephant", value, durability).unwrap();
    }),
    ("exclusive", |store, value, durability| {
        let animals = store.keyspace("animals").unwrap();
        let mut writer = store.exclusive().unwrap();
        writer.put(animals, b"elephant", value).unwrap();
        writer.put(animals, b"other", value).unwrap();
        writer.commit(durability).unwrap();
    }),
    ("transaction", |store, value, durability| {
        let mut tx = store.transaction(Isolation::Snapshot).unwrap();
        tx.put(store.keyspace("animals").unwrap(), b"elephant", value).unwrap();
        tx.commit(durability).unwrap();
    }),
    ("transactions together", |store, value, durability| {
        let animals = store.keyspace("animals").unwrap();
        let begin = |key: &[u8]| {
            let mut tx = store.transaction(Isolation::Snapshot).unwrap();
            tx.put(animals, key, value).unwrap();
            tx
        };
        let all = vec![begin(b"elephant"), begin(b"other")];
        for done in Transaction::commit_all(all, durability) {
            done.unwrap();
        }
    }),
    ("prepared", |store, value, durability| {
        let mut tx = store.transaction(Isolation::Snapshot).unwrap();
        tx.put(store.keyspace("animals").unwrap(), b"elephant", value).unwrap();
        tx.prepare(b"one").unwrap();
        store.commit_prepared(b"one", durability).unwrap();
    }),
];

#[test]
fn what_is_written_survives_its_process_and_not_the_power() {
    for index in IndexKind::ALL {
        for (name, commit) in COMMITS {
            let disk = SimDisk::default();
            let store = Store::create(Path::new(POOL), &options(&disk, index)).unwrap();
            store.keyspace("animals").unwrap();
            store.sync().unwrap();

            commit(&store, b"forgets", Durability::Buffered);
            assert_eq!(elephant(&after_kill(&disk, index)), None, "{index:?}, {name}");
            store.sync().unwrap();

            let syncs = || store.report().fdatasyncs;
            let before = syncs();
            commit(&store, b"remembers", Durability::Written);
            // To prepare is to sync.
            let prepares = u64::from(name == "prepared");
            assert_eq!(syncs() - before, prepares, "{index:?}, {name}");
            let found = elephant(&after_kill(&disk, index)).unwrap();
            assert_eq!(found, b"remembers", "{index:?}, {name}");
            let found = elephant(&reopened(&disk, index)).unwrap();
            assert_eq!(found, b"forgets", "{index:?}, {name}");

            store.sync().unwrap();
            let found = elephant(&reopened(&disk, index)).unwrap();
            assert_eq!(found, b"remembers", "{index:?}, {name}");
        }
    }
}
