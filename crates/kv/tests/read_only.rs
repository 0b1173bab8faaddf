//! A store that is open to be read: all that it holds is served, nothing is changed, and what would change it is refused.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "driver/directory.rs"]
mod directory;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use directory::Directory;
use tembo_kv::backup::{SaveOptions, Since, restore, verify};
use tembo_kv::{
    BackupError, DomainRequest, Durability, Error, IndexKind, Isolation, Options, Retention, Store,
};
use tembo_pool::{Error as PoolError, FeatureSet, Kind, KnownKind, NewTenant, Pool, TenantError};
use tembo_pool::{Tenant, TenantEntry, TenantFeatures, TenantKind};

/// The indexes under test.
const COUNT: u32 = 500;

fn options(index: IndexKind) -> Options {
    let options = Options::new().index(index).background(false).domain(DomainRequest::Logged);
    options.size(1 << 20).log_size(1 << 20).size_max(64 << 20)
}

fn to_read(index: IndexKind) -> Options {
    options(index).read_only(true)
}

fn key(i: u32) -> [u8; 4] {
    i.to_be_bytes()
}

/// A store whose process ended in the middle: a named version, a transaction that was never committed.
fn fill(path: &Path, options: &Options) -> u64 {
    let store = Store::create(path, options).unwrap();
    let space = store.keyspace("a").unwrap();
    for i in 0..COUNT {
        store.put(space, &key(i), &[1; 50], Durability::Buffered).unwrap();
    }
    let named = store.save_snapshot("before").unwrap();
    store.retain(Retention::Since(named)).unwrap();
    for i in 0..COUNT / 2 {
        store.put(space, &key(i), &[2; 40], Durability::Buffered).unwrap();
    }
    store.remove(space, &key(COUNT - 1), Durability::Buffered).unwrap();
    let mut writer = store.exclusive().unwrap();
    for i in 0..100 {
        writer.put(space, &key(COUNT + i), &[3; 300]).unwrap();
    }
    store.sync().unwrap();
    // As if the process ended here: neither the writer nor the store does anything more.
    std::mem::forget(writer);
    named
}

fn files(folder: &Directory) -> BTreeMap<String, Vec<u8>> {
    let files = std::fs::read_dir(folder.path()).unwrap().map(Result::unwrap);
    let named = |name: &str| name.starts_with("test.pool");
    files
        .map(|file| (file.file_name().into_string().unwrap(), std::fs::read(file.path()).unwrap()))
        .filter(|(name, _)| named(name))
        .collect()
}

/// A copy of what the process left, which has them locked still.
fn crashed(name: &str, index: IndexKind) -> (Directory, u64) {
    let (first, folder) = (Directory::new(&format!("{name}-first")), Directory::new(name));
    let named = fill(&first.pool(), &options(index));
    for (name, bytes) in files(&first) {
        std::fs::write(folder.file(&name), bytes).unwrap();
    }
    (folder, named)
}

fn serves_all(store: &Store, named: u64) {
    let space = store.keyspace("a").unwrap();
    for i in 0..COUNT {
        let value = store.get(space, &key(i)).unwrap();
        let expected = if i < COUNT / 2 { vec![2; 40] } else { vec![1; 50] };
        assert_eq!(value, (i != COUNT - 1).then_some(expected), "{i}");
    }
    assert_eq!(store.range::<[u8]>(space, ..).unwrap().count(), COUNT as usize - 1);
    assert_eq!(store.snapshots(), [("before".to_owned(), named)]);
    let before = store.snapshot_named("before").unwrap();
    assert_eq!(before.range::<[u8]>(space, ..).unwrap().count(), COUNT as usize);
    assert_eq!(before.get(space, &key(0)).unwrap().unwrap().to_vec(), [1; 50]);
    assert!(store.changes(named).unwrap().next().unwrap().is_some());
}

#[test]
fn all_is_served_beside_others_and_no_file_changes() {
    for index in IndexKind::ALL {
        let (folder, named) = crashed(&format!("served-{}", index.name()), index);
        let before = files(&folder);
        let store = Store::open(&folder.pool(), &to_read(index)).unwrap();
        let other = Store::open(&folder.pool(), &to_read(index)).unwrap();
        assert!(store.is_read_only() && store.report().read_only);
        assert_eq!(store.report().domain, "logged");
        for store in [&store, &other] {
            serves_all(store, named);
            // What recovery does stays in memory.
            let check = store.check().unwrap();
            assert_eq!((check.leaked, &*check.tenants), (0, &[][..]));
            assert_eq!(check.keyspaces[0].1.entry_count, u64::from(COUNT) - 1);
            assert!(!store.report().recovering);
            serves_all(store, named);
        }
        let writer = Store::open(&folder.pool(), &options(index));
        assert!(matches!(writer, Err(Error::Region(tembo_pmem::Error::Held { .. }))));
        store.close().unwrap();
        drop(other);
        assert_eq!(files(&folder), before);
        // Nothing was lost for a writer.
        let store = Store::open(&folder.pool(), &options(index)).unwrap();
        assert!(!store.is_read_only());
        serves_all(&store, named);
        assert!(matches!(
            Store::open(&folder.pool(), &to_read(index)),
            Err(Error::Region(tembo_pmem::Error::Held { .. }))
        ));
    }
}

#[test]
fn whatever_would_change_the_store_is_refused() {
    for index in IndexKind::ALL {
        let (folder, named) = crashed(&format!("refused-{}", index.name()), index);
        let before = files(&folder);
        let store = Store::open(&folder.pool(), &to_read(index)).unwrap();
        let space = store.keyspace("a").unwrap();
        let is_refused = |result: Result<(), Error>| {
            assert!(matches!(result, Err(Error::ReadOnly)), "{result:?}");
        };
        for _ in 0..2 {
            is_refused(store.put(space, b"k", b"v", Durability::Strict).map(drop));
            is_refused(store.remove(space, &key(1), Durability::Strict).map(drop));
            is_refused(store.keyspace("another").map(drop));
            let mut exclusive = store.exclusive().unwrap();
            assert!(exclusive.get(space, &key(1)).unwrap().is_some());
            is_refused(exclusive.put(space, b"k", b"v").map(drop));
            is_refused(exclusive.remove(space, &key(1)).map(drop));
            if index.is_ordered() {
                is_refused(exclusive.remove_range::<[u8]>(space, ..).map(drop));
            }
            is_refused(exclusive.clear(space));
            assert!(exclusive.get(space, &key(1)).unwrap().is_some());
            exclusive.commit(Durability::Strict).unwrap();
            is_refused(store.save_snapshot("x").map(drop));
            is_refused(store.name_snapshot("x", &store.snapshot().unwrap()));
            is_refused(store.drop_snapshot("before").map(drop));
            is_refused(store.retain(Retention::Nothing).map(drop));
            is_refused(store.rollback(named).map(drop));
            is_refused(store.rollback_to("before").map(drop));
            let mut tx = store.transaction(Isolation::Serialisable).unwrap();
            is_refused(tx.put(space, b"k", b"v"));
            is_refused(tx.remove(space, &key(1)));
            assert_eq!(tx.get(space, &key(1)).unwrap(), Some(vec![2; 40]));
            assert_eq!(store.visible(), tx.commit(Durability::Strict).unwrap());
            // The write slots of a recovered store are closed too.
            store.check().unwrap();
        }
        serves_all(&store, named);
        drop(store);
        assert_eq!(files(&folder), before);
    }
}

#[test]
fn a_backup_of_a_store_that_is_only_read_is_a_backup() {
    let index = IndexKind::default();
    let (folder, named) = crashed("backup", index);
    let before = files(&folder);
    let store = Store::open(&folder.pool(), &to_read(index)).unwrap();
    let (whole, later) = (folder.file("whole"), folder.file("later"));
    let mut go_on = |_| ControlFlow::Continue(());
    let keep = SaveOptions { keep: Some("kept".into()), ..SaveOptions::default() };
    let refused = store.save(&whole, &keep, &mut go_on);
    assert!(matches!(refused, Err(BackupError::Store(Error::ReadOnly))), "{refused:?}");
    let mut breaks = |_| ControlFlow::Break(());
    let interrupted = store.save(&whole, &SaveOptions::default(), &mut breaks);
    assert!(matches!(interrupted, Err(BackupError::Interrupted { .. })));
    let info = store.save(&whole, &SaveOptions::default(), &mut go_on).unwrap();
    assert_eq!(info.until, store.visible());
    let since = SaveOptions { since: Some(Since::Version(named)), ..SaveOptions::default() };
    assert_eq!(store.save(&later, &since, &mut go_on).unwrap().since, Some(named));
    verify(&whole, &mut |_| {}).unwrap();
    drop(store);
    assert_eq!(files(&folder), before);
    restore(&[&whole], &folder.file("restored"), &options(index), &mut |_| {}).unwrap();
    let restored = Store::open_read_only(&folder.file("restored")).unwrap();
    let space = restored.keyspace("a").unwrap();
    assert_eq!(restored.range::<[u8]>(space, ..).unwrap().count(), COUNT as usize - 1);
}

/// A kind that only this test knows.
struct Heap;

impl TenantKind for Heap {
    fn known(&self) -> KnownKind {
        KnownKind { kind: Kind::new("heap"), version: 1, features: TenantFeatures::default() }
    }

    fn open(
        &self,
        _pool: &std::sync::Arc<Pool>,
        entry: &TenantEntry,
    ) -> Result<std::sync::Arc<dyn Tenant>, TenantError> {
        Err(format!("{} is never opened", entry.name).into())
    }
}

#[test]
fn a_pool_with_what_is_unknown_opens_only_to_be_read() {
    let index = IndexKind::default();
    for (name, is_tenant) in [("tenant", true), ("feature", false)] {
        let (folder, named) = crashed(name, index);
        let mut knowing = options(index).pool_options();
        knowing.kinds = tembo_kv::kinds().with(std::sync::Arc::new(Heap));
        let pool = Pool::open(&folder.pool(), &knowing).unwrap();
        if is_tenant {
            let (kind, features) = (Kind::new("heap"), TenantFeatures::default());
            let new = NewTenant { kind, name: "h", version: 1, features };
            pool.add_tenant::<PoolError>(&new, 64, |_, _| Ok(())).unwrap();
        } else {
            pool.set_features(FeatureSet::ReadOnly, 1 << 7).unwrap();
        }
        pool.close().unwrap();
        let before = files(&folder);
        match (is_tenant, Store::open(&folder.pool(), &options(index)).map(drop)) {
            (true, Err(Error::Pool(PoolError::UnknownTenant { .. }))) => {}
            (false, Err(Error::Pool(PoolError::UnknownFeature { kind: "read-only", .. }))) => {}
            (_, other) => panic!("{other:?}"),
        }
        let store = Store::open(&folder.pool(), &to_read(index)).unwrap();
        serves_all(&store, named);
        let check = store.check().unwrap();
        assert_eq!(check.keyspaces[0].1.entry_count, u64::from(COUNT) - 1);
        assert_eq!(check.leaked, 0);
        serves_all(&store, named);
        drop(store);
        assert_eq!(files(&folder), before);
    }
}
