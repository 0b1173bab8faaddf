//! A disk that is full when what is visible is to be synced: the error says so, nothing is lost, and a sync with room makes
//! up for it.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;

use tembo_kv::{
    Durability, Error, Geometry, IndexKind, Keyspace, Options, Pool, PoolOptions, Progress,
    Retention, Store,
};
use tembo_pmem::{DomainRequest, RegionOptions, SyncPolicy};
use tembo_sim::{Chooser, Failure, Fault, Random, Rest, SimDisk};

/// The indexes under test.
const POOL: &str = "/disk/pool";

/// Values that no sync has seen.
const UNSYNCED: u64 = 200;
const VALUE: usize = 2000;

fn options(disk: &SimDisk, index: IndexKind) -> Options {
    let region = RegionOptions {
        domain: DomainRequest::Logged,
        sync: SyncPolicy::Always,
        size_max: 64 << 20,
        log_size: 16 << 20,
        disk: Arc::new(disk.clone()),
        background: false,
        ..RegionOptions::default()
    };
    let geometry = Geometry::default();
    let pool = PoolOptions { size: 32 << 20, region, geometry, ..PoolOptions::default() };
    Options::new().pool(pool).index(index).background(false)
}

/// The power is lost, and is back.
fn unpowered(disk: &SimDisk, index: IndexKind) -> Store {
    let chooser = Chooser::new(Rest::Random(Random::new(7)));
    let disk = disk.snapshot().after_power_loss(chooser);
    Store::open(Path::new(POOL), &options(&disk, index)).unwrap()
}

fn value(store: &Store, key: u64) -> Option<Vec<u8>> {
    store.get(store.keyspace("x").unwrap(), &key.to_be_bytes()).unwrap()
}

/// The log cannot be written, not even into what it keeps for this case.
fn fill(disk: &SimDisk) {
    let steps = vec!["log.write", "log.write_blocks"];
    disk.fail(Fault { failure: Failure::Full, steps, from: 1, count: u64::MAX });
}

/// A store with something to sync, and no room for it.
struct Filled {
    disk: SimDisk,
    store: Store,
    space: Keyspace,
    index: IndexKind,
}

fn filled(index: IndexKind) -> Filled {
    let disk = SimDisk::default();
    let store = Store::create(Path::new(POOL), &options(&disk, index)).unwrap();
    let space = store.keyspace("x").unwrap();
    put_many(&store, space, 1);
    store.sync().unwrap();
    put_many(&store, space, 2);
    fill(&disk);
    Filled { disk, store, space, index }
}

/// Puts values that no sync has seen.
fn put_many(store: &Store, space: Keyspace, byte: u8) {
    for key in 0..UNSYNCED {
        store.put(space, &key.to_be_bytes(), &[byte; VALUE], Durability::Buffered).unwrap();
    }
}

/// Nothing that only old versions need is left behind.
fn collect(store: &Store) {
    while store.maintain(1 << 20).unwrap() == Progress::More {}
}

fn each(test: impl Fn(Filled)) {
    IndexKind::ALL.into_iter().for_each(|index| test(filled(index)));
}

#[test]
fn a_put_that_cannot_be_synced_is_visible_and_a_later_sync_makes_it_durable() {
    each(|Filled { disk, store, space, index }| {
        let refused = store.put(space, b"new", b"value", Durability::Strict);
        assert!(matches!(refused, Err(Error::NotDurable(_))), "{index:?}: {refused:?}");
        assert_eq!(store.get(space, b"new").unwrap().as_deref(), Some(&b"value"[..]));
        disk.heal();
        store.sync().unwrap();
        let after = unpowered(&disk, index);
        let space = after.keyspace("x").unwrap();
        assert_eq!(after.get(space, b"new").unwrap().as_deref(), Some(&b"value"[..]));
        assert_eq!(value(&after, UNSYNCED - 1), Some(vec![2; VALUE]));
    });
}

#[test]
fn a_name_that_cannot_be_synced_keeps_its_version() {
    each(|Filled { disk, store, space, index }| {
        let refused = store.save_snapshot("kept");
        assert!(matches!(refused, Err(Error::NotDurable(_))), "{index:?}: {refused:?}");
        let named = store.snapshots();
        assert_eq!(named.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["kept"]);
        disk.heal();
        put_many(&store, space, 3);
        store.sync().unwrap();
        collect(&store);
        for store in [unpowered(&disk, index), store] {
            collect(&store);
            assert_eq!(store.snapshots(), named);
            let space = store.keyspace("x").unwrap();
            let past = store.snapshot_at(named[0].1).unwrap();
            for key in [0, UNSYNCED / 2, UNSYNCED - 1].map(u64::to_be_bytes) {
                let found = past.get(space, &key).unwrap().unwrap();
                assert_eq!(found.to_vec(), [2; VALUE], "{index:?}");
            }
            store.check().unwrap();
        }
    });
}

/// No version waits for the sync that has failed: the name alone does.
#[test]
fn a_name_that_cannot_be_synced_is_durable_after_the_next_sync() {
    each(|Filled { disk, store, index, .. }| {
        let before = store.report().visible;
        store.save_snapshot("kept").unwrap_err();
        disk.heal();
        store.sync().unwrap();
        assert_eq!(store.report().visible, before);
        assert_eq!(unpowered(&disk, index).snapshots(), store.snapshots());
        assert_eq!(store.snapshots().len(), 1);
    });
}

#[test]
fn a_dropped_name_and_another_window_are_in_force_and_durable_after_the_next_sync() {
    each(|Filled { disk, store, space, index }| {
        disk.heal();
        store.save_snapshot("dropped").unwrap();
        put_many(&store, space, 3);
        fill(&disk);
        let refused = store.drop_snapshot("dropped");
        assert!(matches!(refused, Err(Error::NotDurable(_))), "{index:?}: {refused:?}");
        assert!(store.snapshots().is_empty());
        let refused = store.retain(Retention::Versions(5));
        assert!(matches!(refused, Err(Error::NotDurable(_) | Error::Full(_))), "{refused:?}");
        disk.heal();
        let retention = store.retention();
        store.sync().unwrap();
        let after = unpowered(&disk, index);
        assert_eq!((after.snapshots(), after.retention()), (Vec::new(), retention));
        assert_eq!(value(&after, 9), Some(vec![3; VALUE]));
    });
}

#[test]
fn a_rollback_that_cannot_be_synced_is_in_force_and_durable_after_the_next_sync() {
    each(|Filled { disk, store, space, index }| {
        disk.heal();
        store.save_snapshot("before").unwrap();
        put_many(&store, space, 3);
        store.sync().unwrap();
        fill(&disk);
        let refused = store.rollback_to("before");
        assert!(matches!(refused, Err(Error::NotDurable(_))), "{index:?}: {refused:?}");
        assert_eq!(value(&store, 9), Some(vec![2; VALUE]));
        disk.heal();
        store.sync().unwrap();
        let after = unpowered(&disk, index);
        assert_eq!(value(&after, 9), Some(vec![2; VALUE]));
        store.put(space, b"after", b"it", Durability::Strict).unwrap();
        after.check().unwrap();
    });
}

#[test]
fn a_store_that_cannot_be_synced_is_there_and_durable_when_it_is_opened() {
    for index in IndexKind::ALL {
        let disk = SimDisk::default();
        let options = options(&disk, index);
        let pool = Pool::create(Path::new(POOL), &options).unwrap();
        let first = pool.create_store("first", &options).unwrap();
        fill(&disk);
        let refused = pool.create_store("second", &options).map(drop);
        assert!(matches!(refused, Err(Error::NotDurable(_))), "{index:?}: {refused:?}");
        disk.heal();
        let second = pool.store("second").unwrap();
        let chooser = Chooser::new(Rest::Old);
        let disk = disk.snapshot().after_power_loss(chooser);
        let after = Pool::open(Path::new(POOL), &self::options(&disk, index)).unwrap();
        let names: Vec<String> = after.tenants().unwrap().into_iter().map(|one| one.name).collect();
        assert_eq!(names, ["first", "second"]);
        drop((first, second));
    }
}

fn put_some(store: &Store, space: Keyspace, number: u64) {
    store.put(space, &number.to_be_bytes(), &[number as u8; 1000], Durability::Buffered).unwrap();
}

/// So many puts after a sync the log is written.
fn puts_before_a_write(store: &Store, space: Keyspace) -> u64 {
    // The first time the keys are new.
    (0..5000).for_each(|number| put_some(store, space, number));
    store.sync().unwrap();
    let before = store.report().log.bytes_written;
    let mut puts = 0;
    while store.report().log.bytes_written == before {
        put_some(store, space, puts);
        puts += 1;
    }
    puts
}

/// A rollback with names to be dropped, at each distance from where the log is to be written.
#[test]
fn a_rollback_that_finds_the_disk_full_is_refused_or_made() {
    const NAMES: usize = 20;
    let (mut refused, mut made) = (0, 0);
    for index in IndexKind::ALL {
        let disk = SimDisk::default();
        let store = Store::create(Path::new(POOL), &options(&disk, index)).unwrap();
        let space = store.keyspace("x").unwrap();
        let most = puts_before_a_write(&store, space);
        // Until then the disk is not known to be full; a sync finds it.
        for (puts, is_known) in (most - 12..most + 1).map(|puts| (puts, false)).chain([(1, true)]) {
            store.put(space, b"k", b"old", Durability::Buffered).unwrap();
            let before = store.save_snapshot("before").unwrap();
            store.put(space, b"k", b"new", Durability::Buffered).unwrap();
            for name in 0..NAMES {
                store.save_snapshot(&name.to_string()).unwrap();
            }
            (0..puts).for_each(|number| put_some(&store, space, number));
            fill(&disk);
            assert!(!is_known || store.sync().is_err());
            let rolled_back = store.rollback(before);
            let is_old = store.get(space, b"k").unwrap().as_deref() == Some(&b"old"[..]);
            let names = store.snapshots().len();
            disk.heal();
            match rolled_back {
                Err(Error::Full(_)) => {
                    assert!(!is_old && names == NAMES + 1, "{index:?} {puts} {names}");
                    refused += 1;
                }
                Ok(_) | Err(Error::NotDurable(_)) => {
                    assert!(is_old && names == 1, "{index:?} {puts} {names}");
                    made += 1;
                }
                Err(error) => panic!("{index:?} {puts}: {error}"),
            }
            store.sync().unwrap();
            store.put(space, b"k", b"last", Durability::Strict).unwrap();
        }
        collect(&store);
        store.check().unwrap();
    }
    assert!(refused > 0 && made > 0, "{refused} {made}");
}
