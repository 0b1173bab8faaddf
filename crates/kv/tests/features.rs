//! What a program that does not know a feature of a store does with it: nothing, or nothing but reading.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;

use tembo_kv::{
    Change, Durability, Error, Event, IndexKind, Isolation, Keyspace, Options, Progress, Store,
};
use tembo_pmem::Counters;
use tembo_pool::{
    Error as PoolError, Kind, Kinds, KnownKind, Pool, Tenant, TenantEntry, TenantError,
    TenantFeatures, TenantKind,
};

#[path = "driver/directory.rs"]
mod directory;

use directory::Directory;

/// A release from before all features.
struct Earlier;

impl TenantKind for Earlier {
    fn known(&self) -> KnownKind {
        KnownKind { kind: Kind::STORE, version: 1, features: TenantFeatures::default() }
    }

    fn open(&self, _: &Arc<Pool>, entry: &TenantEntry) -> Result<Arc<dyn Tenant>, TenantError> {
        Err(format!("{} is opened by no test", entry.name).into())
    }
}

fn options() -> Options {
    Options::new().background(false).size(8 << 20)
}

/// Whether the earlier release would write the pool, and whether it would read it.
fn earlier_opens(directory: &Directory) -> (bool, bool) {
    let opens = |is_read_only| {
        let mut earlier = options().read_only(is_read_only).pool_options();
        earlier.kinds = Kinds::default().with(Arc::new(Earlier));
        let opened = Pool::open(&directory.pool(), &earlier).and_then(|pool| {
            let pool = Arc::new(pool);
            // The kind is asked only of a tenant that is admitted.
            pool.open_tenants().map(drop)
        });
        match opened {
            Err(PoolError::Tenant { .. }) => true,
            Err(PoolError::UnknownTenantFeature { .. }) => false,
            other => panic!("{other:?}"),
        }
    };
    (opens(false), opens(true))
}

fn bits(directory: &Directory) -> (u16, u16) {
    let pool = Pool::open(&directory.pool(), &options().pool_options()).unwrap();
    let features = pool.tenant("main").unwrap().features;
    (features.must, features.read_only)
}

fn open(directory: &Directory) -> (Store, Keyspace) {
    let store = Store::open(&directory.pool(), &options()).unwrap();
    let space = store.keyspace("x").unwrap();
    (store, space)
}

/// A store with keys 0 to 99.
fn create(name: &str, index: IndexKind) -> Directory {
    let directory = Directory::new(&format!("features-{name}-{index:?}"));
    let store = Store::create(&directory.pool(), &options().index(index)).unwrap();
    let space = store.keyspace("x").unwrap();
    fill(&store, space);
    directory
}

fn fill(store: &Store, space: Keyspace) {
    let mut writer = store.exclusive().unwrap();
    (0..100_u8).for_each(|key| assert!(!writer.put(space, &[key], b"value").unwrap()));
    writer.commit(Durability::Strict).unwrap();
}

fn idle(store: &Store) {
    while store.maintain(16).unwrap() == Progress::More {}
}

fn count(store: &Store, space: Keyspace) -> usize {
    store.range::<[u8]>(space, ..).unwrap().count()
}

#[test]
fn an_earlier_release_refuses_a_store_with_a_removed_range_and_opens_it_when_none_is_left() {
    for index in IndexKind::ORDERED {
        let directory = create("range", index);
        assert_eq!((bits(&directory), earlier_opens(&directory)), ((0, 0), (true, true)));
        let (store, space) = open(&directory);
        store.remove_range(space, [10]..[90], Durability::Strict).unwrap();
        store.close().unwrap();
        assert_eq!((bits(&directory), earlier_opens(&directory)), ((1, 0), (false, false)));
        // It stays as long as a version has the range and not its removals.
        let (store, space) = open(&directory);
        store.save_snapshot("then").unwrap();
        idle(&store);
        assert_eq!(count(&store, space), 20);
        store.close().unwrap();
        assert_eq!(bits(&directory), (1, 0), "{index:?}");
        let (store, space) = open(&directory);
        let then = store.snapshot_named("then").unwrap();
        assert_eq!(then.range::<[u8]>(space, ..).unwrap().count(), 20);
        drop(then);
        store.drop_snapshot("then").unwrap();
        idle(&store);
        store.close().unwrap();
        assert_eq!((bits(&directory), earlier_opens(&directory)), ((0, 0), (true, true)));
        let (store, space) = open(&directory);
        assert_eq!(count(&store, space), 20);
        assert_eq!(store.check().unwrap().leaked, 0);
    }
}

#[test]
fn the_bit_of_removed_ranges_is_set_once_in_a_life_and_costs_one_fence() {
    let directory = create("life", IndexKind::Nvtree);
    let (store, space) = open(&directory);
    idle(&store);
    let fences = |store: &Store| {
        let before = Counters::thread();
        store.remove_range(space, [10]..[90], Durability::Buffered).unwrap();
        (Counters::thread() - before).fences
    };
    let first = fences(&store);
    idle(&store);
    assert_eq!(count(&store, space), 20);
    fill_again(&store, space);
    assert_eq!(first, fences(&store) + 1);
    idle(&store);
    store.close().unwrap();
    assert_eq!(bits(&directory), (1, 0));
    // Of one that was given up nothing is left but the bit, which goes.
    let (store, space) = open(&directory);
    idle(&store);
    let mut writer = store.exclusive().unwrap();
    writer.remove_range(space, [10]..[20]).unwrap();
    drop(writer);
    idle(&store);
    store.close().unwrap();
    assert_eq!(bits(&directory), (1, 0));
    let (store, _) = open(&directory);
    idle(&store);
    store.close().unwrap();
    assert_eq!(bits(&directory), (0, 0));
}

fn fill_again(store: &Store, space: Keyspace) {
    let mut writer = store.exclusive().unwrap();
    (10..90_u8).for_each(|key| assert!(!writer.put(space, &[key], b"value").unwrap()));
    writer.commit(Durability::Strict).unwrap();
}

#[test]
fn an_earlier_release_only_reads_what_was_a_replica() {
    let directory = create("replica", IndexKind::Nvtree);
    let (store, space) = open(&directory);
    let replica = store.replica().unwrap();
    // Nothing of it is on media yet.
    drop(replica);
    store.close().unwrap();
    assert_eq!(bits(&directory), (0, 0));
    let (store, _) = open(&directory);
    let replica = store.replica().unwrap();
    let version = store.visible() + 100;
    let event = Event::Removed { key: vec![7] };
    let change = Change { keyspace: "x".into(), version, event };
    replica.apply(version, [change], Durability::Strict).unwrap();
    drop(replica);
    store.close().unwrap();
    assert_eq!((bits(&directory), earlier_opens(&directory)), ((0, 2), (false, true)));
    let (store, _) = open(&directory);
    assert_eq!(count(&store, space), 99);
    store.replica().unwrap().promote().unwrap();
    store.close().unwrap();
    // A rollback could make it a replica again.
    assert_eq!(bits(&directory), (0, 2));
}

#[test]
fn an_earlier_release_only_reads_what_had_prepared_transactions() {
    let directory = create("prepared", IndexKind::Nvtree);
    let (store, space) = open(&directory);
    let mut tx = store.transaction(Isolation::Snapshot).unwrap();
    tx.put(space, b"key", b"value").unwrap();
    tx.prepare(b"id").unwrap();
    store.drop_prepared(b"id").unwrap();
    store.close().unwrap();
    assert_eq!((bits(&directory), earlier_opens(&directory)), ((0, 1), (false, true)));
}

#[test]
fn features_come_beside_each_other() {
    let directory = create("both", IndexKind::Nvtree);
    let (store, space) = open(&directory);
    store.remove_range(space, [10]..[20], Durability::Strict).unwrap();
    let mut tx = store.transaction(Isolation::Snapshot).unwrap();
    tx.put(space, b"key", b"value").unwrap();
    tx.prepare(b"id").unwrap();
    store.close().unwrap();
    assert_eq!(bits(&directory), (1, 1));
    let (store, _) = open(&directory);
    idle(&store);
    store.close().unwrap();
    assert_eq!(bits(&directory), (0, 1));
}

#[test]
fn what_cannot_be_announced_is_refused_and_changes_nothing() {
    let directory = create("refused", IndexKind::Nvtree);
    let before = bits(&directory);
    // A pool whose kinds know no features admits none.
    let mut earlier = options().pool_options();
    earlier.kinds = Kinds::default().with(Arc::new(Earlier));
    let pool = Pool::open(&directory.pool(), &earlier).unwrap();
    let store = Store::start(pool, &options()).unwrap();
    let space = store.keyspace("x").unwrap();
    let is_refused = |done: Result<(), Error>| {
        matches!(done, Err(Error::Pool(PoolError::UnknownTenantFeature { .. })))
    };
    let visible = store.visible();
    assert!(is_refused(store.remove_range(space, [10]..[90], Durability::Strict)));
    let mut tx = store.transaction(Isolation::Snapshot).unwrap();
    tx.remove_range(space, [10]..[90]).unwrap();
    assert!(is_refused(tx.commit(Durability::Strict).map(drop)));
    let mut tx = store.transaction(Isolation::Snapshot).unwrap();
    tx.put(space, b"key", b"value").unwrap();
    assert!(is_refused(tx.prepare(b"id").map(drop)));
    assert_eq!((store.visible(), count(&store, space)), (visible, 100));
    let replica = store.replica().unwrap();
    let event = Event::Removed { key: vec![7] };
    let change = Change { keyspace: "x".into(), version: visible + 9, event };
    assert!(is_refused(replica.apply(visible + 9, [change], Durability::Strict)));
    assert_eq!((store.visible(), count(&store, space)), (visible, 100));
    drop(replica);
    store.close().unwrap();
    assert_eq!(bits(&directory), before);
    let (store, space) = open(&directory);
    assert_eq!(count(&store, space), 100);
}

#[test]
fn a_check_reports_a_feature_that_no_bit_announces() {
    type Make = fn(&Store, Keyspace);
    let cases: [(&str, Make); 2] = [
        ("removed ranges", |store, space| {
            store.remove_range(space, [10]..[90], Durability::Strict).unwrap();
        }),
        ("prepared transactions", |store, space| {
            let mut tx = store.transaction(Isolation::Snapshot).unwrap();
            tx.put(space, &[1], b"held").unwrap();
            tx.prepare(b"id").unwrap();
        }),
    ];
    for (what, make) in cases {
        let directory = create("unannounced", IndexKind::Cdds);
        let (store, space) = open(&directory);
        make(&store, space);
        store.close().unwrap();
        let pool = Pool::open(&directory.pool(), &options().pool_options()).unwrap();
        let id = pool.tenant("main").unwrap().id;
        pool.set_tenant_features(id, TenantFeatures::default()).unwrap();
        pool.close().unwrap();
        let store = Store::open(&directory.pool(), &options()).unwrap();
        let error = store.check().unwrap_err().to_string();
        assert!(error.contains(&format!("the feature bit of {what}")), "{error}");
    }
}
