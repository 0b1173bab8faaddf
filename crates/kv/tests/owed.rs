//! A check beside another tenant: what that one has given up, and not swept yet, is no leak.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tembo_kv::{Error, Options, Pool};
use tembo_pool::{
    Error as PoolError, Kind, KnownKind, Marker, Marking, NewTenant, Object, Pool as Space, Still,
    Tenant, TenantCheck, TenantEntry, TenantError, TenantFeatures, TenantKind, TenantStat,
};

const KIND: Kind = Kind::new("toy");

const FEATURES: TenantFeatures = TenantFeatures { may: 0, must: 0, read_only: 0 };

struct ToyKind;

impl TenantKind for ToyKind {
    fn known(&self) -> KnownKind {
        KnownKind { kind: KIND, version: 1, features: FEATURES }
    }

    fn open(&self, pool: &Arc<Space>, entry: &TenantEntry) -> Result<Arc<dyn Tenant>, TenantError> {
        Ok(toy(pool, entry)?)
    }
}

/// A tenant that is busy when it is asked, and then gives an object up.
struct Toy {
    pool: std::sync::Weak<Space>,
    root: Object,
    /// So often it is busy before it gives its object up.
    busy: AtomicU64,
    object: Mutex<Option<Object>>,
    /// So often it has to settle before the object is free.
    unsettled: AtomicU64,
}

fn toy(pool: &Arc<Space>, entry: &TenantEntry) -> Result<Arc<Toy>, PoolError> {
    pool.open_tenant(entry, || {
        Ok(Arc::new(Toy {
            pool: Arc::downgrade(pool),
            root: entry.root,
            busy: AtomicU64::new(0),
            object: Mutex::default(),
            unsettled: AtomicU64::new(0),
        }))
    })
}

impl Tenant for Toy {
    fn quiesce(&self) -> Option<Box<dyn Still + '_>> {
        let is_busy = |busy: u64| busy.checked_sub(1);
        match self.busy.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_busy) {
            Ok(_) => None,
            Err(_) => Some(Box::new(Stopped(self))),
        }
    }

    fn settle(&self) -> Result<(), TenantError> {
        let settles = |unsettled: u64| unsettled.checked_sub(1);
        let is_busy = self.busy.load(Ordering::Relaxed) > 0;
        if !is_busy
            && self.unsettled.fetch_update(Ordering::Relaxed, Ordering::Relaxed, settles) == Ok(1)
            && let (Some(object), Some(pool)) =
                (self.object.lock().unwrap().take(), self.pool.upgrade())
        {
            pool.free(object);
        }
        Ok(())
    }

    fn stat(&self) -> TenantStat {
        TenantStat { name: "toy".into(), kind: KIND, under_way: String::new() }
    }
}

struct Stopped<'t>(&'t Toy);

impl Still for Stopped<'_> {
    fn begin(&mut self, _: Arc<dyn Tenant>) -> Result<Box<dyn Marking>, TenantError> {
        Ok(Box::new(Root(self.0.root)))
    }

    fn check(&mut self, marker: &mut dyn Marker) -> Result<TenantCheck, TenantError> {
        marker.mark(self.0.root)?;
        let owes_sweep = self.0.object.lock().unwrap().is_some();
        Ok(TenantCheck { objects: 1, owes_sweep, ..TenantCheck::default() })
    }
}

struct Root(Object);

impl Marking for Root {
    fn mark(&mut self, marker: &mut dyn Marker) -> Result<(), TenantError> {
        marker.mark(self.0)?;
        Ok(())
    }
}

/// A store, and beside it a toy that has given an object up.
fn beside_a_toy(busy: u64, unsettled: u64) -> (tembo_kv::Store, Arc<Toy>) {
    let options = Options::new().background(false);
    let kinds = tembo_kv::kinds().with(Arc::new(ToyKind));
    let pool_options = tembo_pool::PoolOptions { kinds, ..tembo_pool::PoolOptions::default() };
    let space = Arc::new(Space::volatile(&pool_options).unwrap());
    let entry = {
        let _section = space.reserve(64, 2).unwrap();
        let new = NewTenant { kind: KIND, name: "toy", version: 1, features: FEATURES };
        space
            .add_tenant::<PoolError>(&new, 64, |region, root| {
                region.write("test.root", root.offset(), &[b"a root"])?;
                Ok(())
            })
            .unwrap()
    };
    let store = Pool::of(space.clone(), &options).create_store("a", &options).unwrap();
    assert_eq!(store.check().unwrap().leaked, 0);
    let toy = toy(&space, &entry).unwrap();
    *toy.object.lock().unwrap() = Some(space.alloc(64).unwrap());
    toy.busy.store(busy, Ordering::Relaxed);
    toy.unsettled.store(unsettled, Ordering::Relaxed);
    (store, toy)
}

#[test]
fn what_a_tenant_owes_is_no_leak_however_often_it_was_busy_before() {
    for (busy, unsettled) in [(0, 1), (0, 1_000), (1_000, 1), (1_000, 1_000)] {
        let (store, _toy) = beside_a_toy(busy, unsettled);
        assert_eq!(store.check().unwrap().leaked, 0, "busy {busy} times, unsettled {unsettled}");
    }
}

#[test]
fn what_never_settles_is_a_tenant_that_is_busy_and_no_leak() {
    let (store, toy) = beside_a_toy(0, u64::MAX);
    let refused = store.check().unwrap_err();
    assert!(
        matches!(refused, Error::Pool(PoolError::TenantBusy { ref name }) if name == "toy"),
        "{refused}"
    );
    toy.unsettled.store(1, Ordering::Relaxed);
    assert_eq!(store.check().unwrap().leaked, 0);
}

#[test]
fn what_no_tenant_owes_is_leaked() {
    let (store, toy) = beside_a_toy(0, u64::MAX);
    assert!(toy.object.lock().unwrap().take().is_some());
    assert_eq!(store.check().unwrap().leaked, 1);
}
