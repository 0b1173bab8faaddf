//! What becomes of the pool of a process that is killed again and again.
#![allow(clippy::unwrap_used)]

mod driver {
    pub(crate) mod directory;
}

use driver::directory::Directory;
use tembo_kv::{Durability, IndexKind, Options, Store};
use tembo_pmem::SyncPolicy;
use tembo_pool::Geometry;

/// Bytes of values that there are.
const LIVE: u64 = 1 << 20;
const VALUE: u64 = 1000;

fn options(index: IndexKind) -> Options {
    // A process that is killed has not come to the end of its marking, nor begun it.
    let mut options = Options::new()
        .index(index)
        .background(false)
        .geometry(Geometry { chunk_size: 16 << 10, node_size: 1024 })
        .size(4 << 20);
    // It is the process that is killed, and not the power that fails.
    options = options.sync(SyncPolicy::Os);
    options = options.log_size(1 << 20);
    options
}

/// One life of a process: it changes some values, and does not close.
fn live(options: &Options, directory: &Directory, changes: impl Iterator<Item = u64>) -> u64 {
    let pool = directory.pool();
    let store =
        if pool.exists() { Store::open(&pool, options) } else { Store::create(&pool, options) };
    let store = store.unwrap();
    let space = store.keyspace("x").unwrap();
    for key in changes {
        let value = vec![key as u8; VALUE as usize];
        store.put(space, &key.to_be_bytes(), &value, Durability::Strict).unwrap();
    }
    store.report().pool_bytes
}

#[test]
fn a_pool_grows_by_what_is_in_it_and_not_by_how_often_its_process_is_killed() {
    for index in IndexKind::ALL {
        let (directory, options) = (Directory::new("kills"), options(index));
        let mut last = live(&options, &directory, 0..LIVE / VALUE);
        for life in 0..100 {
            last =
                live(&options, &directory, (0..20).map(|n| (life * 77 + n * 13) % (LIVE / VALUE)));
        }
        assert!(last <= 4 << 20, "{index:?}: {last} bytes for {LIVE}");
        let store = Store::open(&directory.pool(), &options).unwrap();
        assert_eq!(store.check().unwrap().leaked, 0);
    }
}
