//! Space passes from a thread that gave up what it wrote there to another, and what is acknowledged survives.
//!
//! In the `logged` domain values of 64 KiB and more are written beside the log: the group of the thread's next fence has their
//! place and checksum. A thread that gives them up must not keep that for a later group.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use tembo_kv::{
    DomainRequest, Durability, IndexKind, Isolation, Keyspace, Options, Progress, Store,
};

#[path = "driver/directory.rs"]
mod directory;

use directory::Directory;

const STRICT: Durability = Durability::Strict;

/// Written beside the log.
const LARGE: usize = 128 << 10;

/// Values that fill what the pool has free, so that the space that was given up is among what they get.
const VALUES: u32 = 24;

fn options(index: IndexKind) -> Options {
    let options = Options::new().index(index).background(false).transaction_memory(4 << 10);
    options.domain(DomainRequest::Logged).size(8 << 20).log_size(4 << 20)
}

fn value(number: u32) -> Vec<u8> {
    (0..LARGE as u32).map(|at| (at.wrapping_mul(31) ^ number.wrapping_mul(97)) as u8).collect()
}

/// What a crash leaves, as far as it came to the files.
fn copy(pool: &Path, to: &Path) {
    let log = |path: &Path| PathBuf::from(format!("{}.log", path.display()));
    std::fs::copy(pool, to).unwrap();
    std::fs::copy(log(pool), log(to)).unwrap();
}

/// `give_up` writes large values and gives them up; another thread frees their space and uses it; then the first thread
/// commits. The power goes: nothing acknowledged is lost.
fn nothing_is_lost(name: &str, give_up: impl Fn(&Store, Keyspace)) {
    for index in IndexKind::ORDERED {
        let directory = Directory::new(&format!("{name}-{index:?}"));
        let store = Store::create(&directory.pool(), &options(index)).unwrap();
        while store.maintain(16).unwrap() == Progress::More {}
        let space = store.keyspace("x").unwrap();
        store.put(space, b"first", b"1", STRICT).unwrap();
        give_up(&store, space);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while store.maintain(16).unwrap() == Progress::More {}
                for number in 0..VALUES {
                    store.put(space, &number.to_be_bytes(), &value(number), STRICT).unwrap();
                }
            });
        });
        store.put(space, b"last", b"acknowledged", STRICT).unwrap();
        let left = directory.file("left.pool");
        copy(&directory.pool(), &left);

        let after = Store::open(&left, &options(index)).unwrap();
        let space = after.keyspace("x").unwrap();
        for number in 0..VALUES {
            let found = after.get(space, &number.to_be_bytes()).unwrap();
            assert!(found == Some(value(number)), "{index:?}: value {number}");
        }
        let last = after.get(space, b"last").unwrap();
        assert_eq!(last.as_deref(), Some(b"acknowledged".as_slice()), "{index:?}");
    }
}

#[test]
fn a_dropped_exclusive_writer_keeps_nothing_of_its_values() {
    nothing_is_lost("exclusive", |store, space| {
        let mut writer = store.exclusive().unwrap();
        for number in 100..104_u32 {
            writer.put(space, &number.to_be_bytes(), &value(number)).unwrap();
        }
    });
}

#[test]
fn a_dropped_transaction_that_outgrew_memory_keeps_nothing_of_its_values() {
    nothing_is_lost("spilled", |store, space| {
        let mut tx = store.transaction(Isolation::Snapshot).unwrap();
        for number in 100..104_u32 {
            tx.put(space, &number.to_be_bytes(), &value(number)).unwrap();
        }
    });
}

#[test]
fn a_transaction_that_was_taken_back_keeps_nothing_of_its_values() {
    nothing_is_lost("taken-back", |store, space| {
        let mut tx = store.transaction(Isolation::Snapshot).unwrap();
        let point = tx.savepoint();
        for number in 100..104_u32 {
            tx.put(space, &number.to_be_bytes(), &value(number)).unwrap();
        }
        tx.rollback_to(&point).unwrap();
        tx.put(space, b"small", b"1").unwrap();
    });
}
