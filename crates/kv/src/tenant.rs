//! The store as a tenant of its pool: what a sweep or a check that another one drives asks of it.
//!
//! Marked on behalf of another, the store goes through the states of its own recovery: it is surveyed, then
//! scrubbed, by its own background or by the driver, and done. Only the sweep is not its own.

use std::any::Any;
use std::sync::{Arc, Weak};

use tembo_index::Retained;
use tembo_pool::{
    Kind, Kinds, KnownKind, Marker, Marking, NewTenant, Pool, Still, Tenant, TenantCheck,
    TenantEntry, TenantError, TenantFeatures, TenantKind, TenantStat,
};

use crate::inner::Inner;
use crate::open;
use crate::recovery::{Found, Noted};
use crate::store::TRANSACTION_MEMORY;
use crate::writer::{Recovery, WriterState, Writing};
use crate::{Error, Progress};

/// A store, as a tenant to be added to a pool.
pub(crate) const NEW_TENANT: NewTenant<'_> = NewTenant {
    kind: Kind::STORE,
    name: "main",
    version: 1,
    features: TenantFeatures { may: 0, must: 0, read_only: 0 },
};

/// The kinds of tenants that this crate knows: stores.
pub fn kinds() -> Kinds {
    Kinds::default().with(Arc::new(StoreKind))
}

/// The kind of stores.
pub(crate) struct StoreKind;

impl TenantKind for StoreKind {
    fn known(&self) -> KnownKind {
        let NewTenant { kind, version, features, .. } = NEW_TENANT;
        KnownKind { kind, version, features }
    }

    fn open(&self, pool: &Arc<Pool>, entry: &TenantEntry) -> Result<Arc<dyn Tenant>, TenantError> {
        let make = || Ok::<_, Error>(Arc::new(open::open(pool, entry, TRANSACTION_MEMORY)?));
        Ok(pool.open_tenant(entry, make)?)
    }
}

impl Tenant for Inner {
    fn quiesce(&self) -> Option<Box<dyn Still + '_>> {
        let mut state = self.writer.try_lock().ok()?;
        self.end_foreign_survey(&mut state);
        if state.is_taken || !matches!(state.recovery, Recovery::Owed | Recovery::Done) {
            return None;
        }
        Some(Box::new(Stopped { inner: self, state: Writing::begin(self, state) }))
    }

    fn settle(&self) -> Result<(), TenantError> {
        loop {
            match self.recovery_step()? {
                Progress::More => std::thread::yield_now(),
                Progress::Idle => return Ok(()),
            }
        }
    }

    fn stat(&self) -> TenantStat {
        let under_way = match self.writer.try_lock() {
            Ok(state) if state.recovery == Recovery::Done => String::new(),
            Ok(state) => format!("{:?}", state.recovery).to_lowercase(),
            Err(_) => "writing".to_owned(),
        };
        let TenantEntry { name, kind, .. } = self.tenant.clone();
        TenantStat { name, kind, objects: None, bytes: None, under_way }
    }

    fn sweep_ended(&self) {
        self.wake.want();
    }
}

/// A store whose writer's lock is held.
struct Stopped<'s> {
    inner: &'s Inner,
    state: Writing<'s>,
}

impl Still for Stopped<'_> {
    fn begin(&mut self, tenant: Arc<dyn Tenant>) -> Result<Box<dyn Marking>, TenantError> {
        let tenant: Arc<dyn Any + Send + Sync> = tenant;
        let inner = tenant.downcast::<Inner>().map_err(|_| Error::Damaged { what: "a store" })?;
        let noted = self.inner.note_survey(&mut self.state)?;
        let pending = self.state.retired.objects().collect();
        let lives = Arc::new(());
        self.state.foreign_survey = Some((Arc::downgrade(&lives), noted.retained.clone()));
        Ok(Box::new(StoreMarking { inner, noted, pending, found: None, lives: Some(lives) }))
    }

    fn check(&mut self, marker: &mut dyn Marker) -> Result<TenantCheck, TenantError> {
        let (keyspaces, objects) = self.inner.check_marking(&self.state, marker)?;
        let keys = keyspaces.into_iter().map(|(name, report)| (name, report.entry_count));
        let pending = self.state.retired.len() as u64;
        Ok(TenantCheck { objects, pending, counts: keys.collect() })
    }
}

/// A survey on behalf of another tenant's sweep.
struct StoreMarking {
    inner: Arc<Inner>,
    noted: Noted,
    pending: Vec<tembo_pool::Object>,
    found: Option<Found>,
    /// The survey has not ended.
    lives: Option<Arc<()>>,
}

impl Marking for StoreMarking {
    fn mark(&mut self, marker: &mut dyn Marker) -> Result<(), TenantError> {
        self.found = Some(self.inner.mark_noted(&self.noted, marker)?);
        for &object in &self.pending {
            marker.mark(object)?;
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<bool, TenantError> {
        let Ok(state) = self.inner.writer.try_lock() else { return Ok(false) };
        if state.is_taken {
            return Ok(false);
        }
        let mut state = Writing::begin(&self.inner, state);
        if let Some(found) = self.found.take() {
            state.foreign_survey = None;
            self.lives = None;
            self.inner.end_survey(&mut state, None, &self.noted, Ok(found))?;
        }
        if state.recovery == Recovery::Scrubbing {
            self.inner.scrub_batch(&mut state)?;
        }
        Ok(state.recovery != Recovery::Scrubbing)
    }
}

/// The life of a survey by another tenant, and what it retains.
pub(crate) type ForeignSurvey = (Weak<()>, Arc<Retained>);

impl Inner {
    /// Ends a survey whose sweep was given up.
    pub(crate) fn end_foreign_survey(&self, state: &mut WriterState) {
        if state.foreign_survey.as_ref().is_some_and(|(lives, _)| lives.strong_count() == 0)
            && let Some((_, retained)) = state.foreign_survey.take()
        {
            self.pins.unpin(retained.visible());
            state.recovery = Recovery::Owed;
        }
    }
}
