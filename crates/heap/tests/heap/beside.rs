//! A sweep beside another tenant of the pool.

use std::sync::{Arc, Barrier};

use tembo_heap::{Error, HeapFile, PoolOptions};
use tembo_pool::{
    Error as PoolError, Kind, KnownKind, Marker, Marking, NewTenant, Object, Pool, Still, Tenant,
    TenantCheck, TenantEntry, TenantError, TenantFeatures, TenantKind, TenantStat,
};

const KIND: Kind = Kind::new("toy");
const FEATURES: TenantFeatures = TenantFeatures { may: 0, must: 0, read_only: 0 };

/// Its tenants are opened by the test alone.
struct ToyKind;

impl TenantKind for ToyKind {
    fn known(&self) -> KnownKind {
        KnownKind { kind: KIND, version: 1, features: FEATURES }
    }

    fn open(&self, _: &Arc<Pool>, entry: &TenantEntry) -> Result<Arc<dyn Tenant>, TenantError> {
        Err(PoolError::TenantInUse { name: entry.name.clone() }.into())
    }
}

/// A tenant whose marking waits for another thread, twice.
struct Toy {
    root: Object,
    meeting: Arc<Barrier>,
}

impl Tenant for Toy {
    fn quiesce(&self) -> Option<Box<dyn Still + '_>> {
        Some(Box::new(Stopped(self)))
    }

    fn stat(&self) -> TenantStat {
        TenantStat { name: "toy".into(), kind: KIND, under_way: String::new() }
    }
}

struct Stopped<'t>(&'t Toy);

impl Still for Stopped<'_> {
    fn begin(&mut self, _: Arc<dyn Tenant>) -> Result<Box<dyn Marking>, TenantError> {
        Ok(Box::new(Waiting { root: self.0.root, meeting: self.0.meeting.clone() }))
    }

    fn check(&mut self, marker: &mut dyn Marker) -> Result<TenantCheck, TenantError> {
        marker.mark(self.0.root)?;
        Ok(TenantCheck { objects: 1, ..TenantCheck::default() })
    }
}

struct Waiting {
    root: Object,
    meeting: Arc<Barrier>,
}

impl Marking for Waiting {
    fn mark(&mut self, marker: &mut dyn Marker) -> Result<(), TenantError> {
        self.meeting.wait();
        marker.mark(self.root)?;
        self.meeting.wait();
        Ok(())
    }
}

#[test]
fn transactions_go_on_while_a_sweep_marks_another_tenant() {
    let kinds = tembo_heap::kinds(tembo_pool::Kinds::default()).with(Arc::new(ToyKind));
    let options = PoolOptions { kinds, ..PoolOptions::default() };
    let pool = Arc::new(Pool::volatile(&options).unwrap());
    let new = NewTenant { kind: KIND, name: "toy", version: 1, features: FEATURES };
    let entry = {
        let _section = pool.reserve(64, 2).unwrap();
        let write = |region: &tembo_pmem::Region, root: Object| {
            region.write("test.root", root.offset(), &[b"a root"])?;
            Ok(())
        };
        pool.add_tenant::<PoolError>(&new, 64, write).unwrap()
    };
    let meeting = Arc::new(Barrier::new(2));
    let toy = Arc::new(Toy { root: entry.root, meeting: meeting.clone() });
    let _toy = pool.open_tenant::<_, PoolError>(&entry, || Ok(toy)).unwrap();
    let file = HeapFile::add_to(&pool, "heap").unwrap();
    file.enter(|heap| {
        std::thread::scope(|scope| {
            scope.spawn(move || assert!(heap.sweep().unwrap()));
            meeting.wait();
            heap.atomic(|tx| {
                let root = tx.alloc(7_u64)?;
                tx.set_root(&root)?;
                Ok::<_, Error>(())
            })
            .unwrap();
            heap.exclusive(|tx| tx.alloc(8_u64).map(drop)).unwrap();
            meeting.wait();
        });
    });
    let check = file.check().unwrap();
    assert_eq!((check.account.leaked, check.account.dangling), (0, 0));
}
