//! The store as a tenant of its pool: the calls of a sweep or a check that another tenant drives.
//!
//! When it is marked on behalf of another tenant, the store goes through the states of its own background: Marking, then
//! Scrubbing, by its own background or by the driver, then Done. Only the sweep belongs to the other tenant.

use std::any::Any;
use std::sync::Arc;

use tembo_pool::{
    Kinds, KnownKind, Marker, NewTenant, Object, Pool, Still, Tenant, TenantCheck, TenantEntry,
    TenantError, TenantKind, TenantStat,
};

use crate::background::{Found, Marking, Phase};
use crate::check::mark_checked;
use crate::ledger::{begin_foreign, end_foreign, end_marking, mark_own, scrub_batch, take_foreign};
use crate::maintain::step;
use crate::media::FEATURES_KNOWN;
use crate::open::{NEW_TENANT, open};
use crate::write::{Engine, Locked};
use crate::{Error, Progress};

/// The kinds of tenants that this crate knows: stores.
pub fn kinds() -> Kinds {
    Kinds::default().with(Arc::new(StoreKind))
}

/// The kind of stores.
pub(crate) struct StoreKind;

impl TenantKind for StoreKind {
    fn known(&self) -> KnownKind {
        let NewTenant { kind, version, .. } = NEW_TENANT;
        KnownKind { kind, version, features: FEATURES_KNOWN }
    }

    fn open(&self, pool: &Arc<Pool>, entry: &TenantEntry) -> Result<Arc<dyn Tenant>, TenantError> {
        let make = || Ok::<_, Error>(Arc::new(open(pool, entry)?));
        Ok(pool.open_tenant(entry, make)?)
    }
}

impl Tenant for Engine {
    fn quiesce(&self) -> Option<Box<dyn Still + '_>> {
        let mut writing = self.try_lock()?;
        let (shared, ledger) = writing.parts();
        end_foreign(shared, ledger);
        if !ledger.machine.is_done() && !matches!(ledger.machine.phase(), Phase::Owed) {
            return None;
        }
        // A sweep that is owed keeps its limit.
        let has_old_limit = self.shared.pool().usage().recovering;
        Some(Box::new(Stopped { engine: self, writing, has_old_limit }))
    }

    fn settle(&self) -> Result<(), TenantError> {
        let is_owed = || Ok::<_, Error>(matches!(self.lock()?.machine.phase(), Phase::Owed));
        loop {
            let was_owed = is_owed()?;
            let progress = step(self)?;
            // This does not wait for another tenant, whose sweep covers this store too.
            if progress == Progress::Idle || was_owed && is_owed()? {
                return Ok(());
            }
            std::thread::yield_now();
        }
    }

    fn stat(&self) -> TenantStat {
        let under_way = match self.try_lock() {
            Some(writing) => writing.machine.phase().name(),
            None => "writing",
        };
        let TenantEntry { name, kind, .. } = self.shared.tenant.clone();
        TenantStat { name, kind, under_way: under_way.to_owned() }
    }

    fn sweep_ended(&self) {
        self.shared.wake.sweep_ended();
    }
}

/// A store whose writer's lock this holds.
struct Stopped<'s> {
    engine: &'s Engine,
    writing: Locked<'s>,
    /// A sweep was owed before this one began.
    has_old_limit: bool,
}

impl Still for Stopped<'_> {
    fn begin(
        &mut self,
        tenant: Arc<dyn Tenant>,
    ) -> Result<Box<dyn tembo_pool::Marking>, TenantError> {
        let tenant: Arc<dyn Any + Send + Sync> = tenant;
        let engine = tenant.downcast::<Engine>().map_err(|_| Error::Damaged { what: "a store" })?;
        let (shared, ledger) = self.writing.parts();
        let (marking, life) = begin_foreign(shared, ledger, self.has_old_limit)?;
        let pending = ledger.retired.objects().collect();
        Ok(Box::new(StoreMarking { engine, marking, pending, found: None, life: Some(life) }))
    }

    fn check(&mut self, marker: &mut dyn Marker) -> Result<TenantCheck, TenantError> {
        let (keyspaces, objects) = mark_checked(&self.engine.shared, &self.writing, marker)?;
        let keys = keyspaces.into_iter().map(|(name, report)| (name, report.entry_count));
        let pending = self.writing.retired.len() as u64;
        let owes_sweep = self.writing.machine.is_recovering();
        Ok(TenantCheck { objects, pending, counts: keys.collect(), owes_sweep })
    }
}

/// A marking on behalf of another tenant's sweep.
struct StoreMarking {
    engine: Arc<Engine>,
    marking: Marking,
    pending: Vec<Object>,
    found: Option<Found>,
    /// The life of the marking, until it has ended.
    life: Option<Arc<()>>,
}

impl tembo_pool::Marking for StoreMarking {
    fn mark(&mut self, marker: &mut dyn Marker) -> Result<(), TenantError> {
        self.found = Some(mark_own(&self.engine.shared, marker, &self.marking)?);
        for &object in &self.pending {
            marker.mark(object)?;
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<bool, TenantError> {
        let Some(mut writing) = self.engine.try_lock() else { return Ok(false) };
        let (shared, ledger) = writing.parts();
        if let Some(found) = self.found.take() {
            take_foreign(ledger);
            self.life = None;
            end_marking(shared, ledger, (&self.marking, None), Ok(found))?;
        }
        if ledger.machine.scrubbing().is_some() {
            scrub_batch(shared, ledger)?;
        }
        Ok(ledger.machine.scrubbing().is_none())
    }
}
