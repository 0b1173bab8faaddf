//! The list as a tenant of its pool.

use std::any::Any;
use std::sync::{Arc, MutexGuard};

use tembo_pool::{
    Error, Kind, Kinds, KnownKind, Marker, Marking, NewTenant, Object, Pool, Still, Tenant,
    TenantCheck, TenantEntry, TenantError, TenantFeatures, TenantKind, TenantStat,
};

use super::list::{List, ROOT};
use crate::judge::text;

const KIND: Kind = Kind::new("toy-heap");
const NAME: &str = "toys";
const FEATURES: TenantFeatures = TenantFeatures { may: 0, must: 0, read_only: 0 };

/// Toy heaps.
pub(crate) fn kinds() -> Kinds {
    beside(Kinds::default())
}

/// Toy heaps, beside other kinds.
pub(crate) fn beside(kinds: Kinds) -> Kinds {
    kinds.with(Arc::new(ListKind))
}

struct ListKind;

impl TenantKind for ListKind {
    fn known(&self) -> KnownKind {
        KnownKind { kind: KIND, version: 1, features: FEATURES }
    }

    fn open(&self, pool: &Arc<Pool>, entry: &TenantEntry) -> Result<Arc<dyn Tenant>, TenantError> {
        Ok(pool.open_tenant::<List, Error>(entry, || List::open(pool, entry))?)
    }
}

/// Adds an empty list to a pool.
pub(crate) fn add(pool: &Pool) -> Result<(), String> {
    let size = ROOT as u64 * 8;
    let _section = pool.reserve(size, 2).map_err(text)?;
    let new = NewTenant { kind: KIND, name: NAME, version: 1, features: FEATURES };
    let added = pool.add_tenant::<Error>(&new, size, |region, root| {
        region.write("torture.toys.root", root.offset(), &[&[0; ROOT * 8]])?;
        Ok(())
    });
    added.map(drop).map_err(text)
}

/// The list of a pool.
pub(crate) fn open(pool: &Arc<Pool>) -> Result<Arc<List>, String> {
    let entry = pool.tenant(NAME).map_err(text)?;
    pool.open_tenant::<List, Error>(&entry, || List::open(pool, &entry)).map_err(text)
}

impl Tenant for List {
    fn quiesce(&self) -> Option<Box<dyn Still + '_>> {
        Some(Box::new(Stopped { list: self, _busy: self.try_hold()? }))
    }

    fn make_way(&self) {
        List::make_way(self);
    }

    fn stat(&self) -> TenantStat {
        let TenantEntry { name, kind, .. } = self.entry.clone();
        TenantStat { name, kind, under_way: String::new() }
    }
}

struct Stopped<'l> {
    list: &'l List,
    _busy: MutexGuard<'l, ()>,
}

impl Still for Stopped<'_> {
    fn begin(&mut self, tenant: Arc<dyn Tenant>) -> Result<Box<dyn Marking>, TenantError> {
        let tenant: Arc<dyn Any + Send + Sync> = tenant;
        let _list = tenant.downcast::<List>().map_err(|_| "not a toy heap")?;
        // It has no versions: what is reachable now is noted now.
        let mut noted = Noted(Vec::new());
        self.list.mark(&mut noted)?;
        Ok(Box::new(noted))
    }

    fn check(&mut self, marker: &mut dyn Marker) -> Result<TenantCheck, TenantError> {
        self.list.content()?;
        let objects = self.list.mark(marker)?;
        Ok(TenantCheck { objects, ..TenantCheck::default() })
    }
}

struct Noted(Vec<Object>);

impl Marker for Noted {
    fn mark(&mut self, object: Object) -> Result<bool, Error> {
        self.0.push(object);
        Ok(true)
    }
}

impl Marking for Noted {
    fn mark(&mut self, marker: &mut dyn Marker) -> Result<(), TenantError> {
        for object in &self.0 {
            marker.mark(*object)?;
        }
        Ok(())
    }
}
