//! The smallest tenant: a root, which nothing follows.

use std::sync::Arc;

use tembo_pool::{
    Error, Kind, Kinds, KnownKind, Marker, Marking, Object, Pool, Still, Tenant, TenantCheck,
    TenantEntry, TenantError, TenantFeatures, TenantKind, TenantStat,
};

pub(super) const KIND: Kind = Kind::new("toy");

const FEATURES: TenantFeatures = TenantFeatures { may: 0xffff, must: 1, read_only: 1 };

/// Of toys, and of what a pool of version 1 has.
pub(super) fn kinds() -> Kinds {
    Kinds::default().with(Arc::new(ToyKind(KIND))).with(Arc::new(ToyKind(Kind::STORE)))
}

struct ToyKind(Kind);

impl TenantKind for ToyKind {
    fn known(&self) -> KnownKind {
        KnownKind { kind: self.0, version: 1, features: FEATURES }
    }

    fn open(&self, pool: &Arc<Pool>, entry: &TenantEntry) -> Result<Arc<dyn Tenant>, TenantError> {
        let make = || Ok::<_, Error>(Arc::new(Toy(entry.clone())));
        Ok(pool.open_tenant(entry, make)?)
    }
}

struct Toy(TenantEntry);

impl Tenant for Toy {
    fn quiesce(&self) -> Option<Box<dyn Still + '_>> {
        Some(Box::new(Root(self.0.root)))
    }

    fn stat(&self) -> TenantStat {
        let TenantEntry { name, kind, .. } = self.0.clone();
        TenantStat { name, kind, under_way: String::new() }
    }
}

struct Root(Object);

impl Still for Root {
    fn begin(&mut self, _tenant: Arc<dyn Tenant>) -> Result<Box<dyn Marking>, TenantError> {
        Ok(Box::new(Root(self.0)))
    }

    fn check(&mut self, marker: &mut dyn Marker) -> Result<TenantCheck, TenantError> {
        marker.mark(self.0)?;
        Ok(TenantCheck { objects: 1, ..TenantCheck::default() })
    }
}

impl Marking for Root {
    fn mark(&mut self, marker: &mut dyn Marker) -> Result<(), TenantError> {
        marker.mark(self.0)?;
        Ok(())
    }
}
