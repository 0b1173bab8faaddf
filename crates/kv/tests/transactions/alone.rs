//! One transaction: retries, sizes, a log that is smaller than it.

use super::super::*;
use tembo_kv::ATTEMPTS_MAX;

#[test]
fn a_retry_begins_anew_and_gives_up_with_the_conflict() {
    let (store, space) = store(IndexKind::Nvtree, 1 << 20);
    let mut attempts = 0;
    let refused = store.with_retry(Isolation::Snapshot, Durability::Strict, |tx| {
        attempts += 1;
        assert!(tx.get(space, b"mine")?.is_none());
        put(&store, space, b"k", &[attempts as u8]);
        tx.put(space, b"mine", b"1")?;
        tx.put(space, b"k", b"mine")
    });
    assert!(matches!(refused, Err(Error::Conflict { key, .. }) if key == b"k"));
    assert_eq!(attempts, ATTEMPTS_MAX);
    let mut attempts = 0;
    let done = store.with_retry(Isolation::Snapshot, Durability::Strict, |tx| {
        attempts += 1;
        if attempts < 3 {
            put(&store, space, b"k", &[attempts]);
        }
        tx.put(space, b"k", b"mine")?;
        Ok(attempts)
    });
    assert_eq!(done.unwrap(), 3);
    assert_eq!(store.get(space, b"k").unwrap().as_deref(), Some(&b"mine"[..]));
    // What is no conflict is not tried again.
    let mut attempts = 0;
    let failed = store.with_retry(Isolation::Snapshot, Durability::Strict, |tx| {
        attempts += 1;
        tx.put(space, &[0; 70_000], b"")
    });
    assert!(matches!(failed, Err(Error::KeyTooLong { .. })) && attempts == 1);
}

#[test]
fn what_finds_no_room_fails_alone_and_leaves_nothing() {
    for kind in IndexKind::ALL {
        for memory in [0, 1 << 20] {
            let mut options =
                Options::new().index(kind).background(false).transaction_memory(memory);
            options = options.geometry(Geometry::TINY);
            options = options.size(256 << 10);
            options = options.size_max(256 << 10);
            let store = Store::volatile(&options).unwrap();
            settle(&store);
            let space = store.keyspace("x").unwrap();
            put(&store, space, b"before", b"1");
            let mut tx = store.transaction(Isolation::Snapshot).unwrap();
            let filled = (0..400u32).try_for_each(|i| tx.put(space, &i.to_be_bytes(), &[1; 900]));
            let filled = filled.and_then(|()| tx.commit(Durability::Strict));
            assert!(matches!(filled, Err(Error::Full(_))), "{filled:?}");
            settle(&store);
            assert_eq!(committed(&store, space).len(), 1);
            let mut tx = store.transaction(Isolation::Snapshot).unwrap();
            tx.put(space, b"after", b"1").unwrap();
            tx.commit(Durability::Strict).unwrap();
            settle(&store);
            let check = store.check().unwrap();
            assert_eq!((check.leaked, check.keyspaces[0].1.entry_count), (0, 2));
        }
    }
}

fn value(i: u32) -> [u8; 200] {
    [i as u8; 200]
}

fn fill(store: &Store, keys: std::ops::Range<u32>) -> Transaction {
    let space = store.keyspace("x").unwrap();
    let mut tx = store.transaction(Isolation::Snapshot).unwrap();
    for i in keys {
        tx.put(space, &i.to_be_bytes(), &value(i)).unwrap();
    }
    tx
}

/// A pool on disk whose log has a hundredth of what the transaction writes.
#[test]
fn a_transaction_may_be_larger_than_the_log_and_than_its_memory() {
    let folder = std::env::temp_dir().join(format!("tembo-tx-{}", std::process::id()));
    // What an earlier run of the same process number left.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    for kind in IndexKind::ALL {
        for memory in [64 << 10, 1 << 30] {
            let path = folder.join(format!("{}-{memory}.pool", kind.name()));
            let mut options = Options::new().index(kind).transaction_memory(memory);
            let mut pool = options.pool_options();
            pool.region.background = false;
            options = options.pool(pool).background(false);
            options = options.size(64 << 20);
            options = options.log_size(1 << 20);
            let matches = |store: &Store, count: u32| {
                let space = store.keyspace("x").unwrap();
                let found = committed(store, space);
                assert_eq!(found.len() as u32, count);
                assert!(found.values().zip(0..).all(|(found, i)| found[..] == value(i)));
            };
            let store = Store::create(&path, &options).unwrap();
            drop(fill(&store, 0..50_000));
            matches(&store, 0);
            fill(&store, 0..50_000).commit(Durability::Strict).unwrap();
            matches(&store, 50_000);
            // What a crash in the middle of another would leave; no thread is at the files.
            let tx = fill(&store, 50_000..60_000);
            store.sync().unwrap();
            let left = folder.join("left.pool");
            for suffix in ["", ".log"] {
                let of = |path: &std::path::Path| format!("{}{suffix}", path.display());
                std::fs::copy(of(&path), of(&left)).unwrap();
            }
            drop(tx);
            drop(store);
            for path in [&left, &path] {
                let store = Store::open(path, &options).unwrap();
                matches(&store, 50_000);
                settle(&store);
                assert_eq!(store.check().unwrap().leaked, 0);
                store.close().unwrap();
            }
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
