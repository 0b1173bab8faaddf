//! Tenants that are open in this process, and the calls that they answer. See the essay in `tenant.rs`.

use std::any::Any;
use std::sync::Arc;

use super::entry::Kind;
use crate::{Error, Object, TenantError};

/// What a tenant reports of each reachable object.
pub trait Marker {
    /// The object is reachable, or waits to be freed; `true` if it was not marked before.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], [`Error::Misplaced`] or [`Error::Overlap`] if the object cannot be
    /// one: the structure that refers to it is damaged. Nothing has been marked then.
    /// [`Error::Stopped`]: the marking is to end.
    fn mark(&mut self, object: Object) -> Result<bool, Error>;
}

/// A tenant that is open in this process. How a sweep uses it stands at the head of `tenant.rs`.
pub trait Tenant: Any + Send + Sync {
    /// Tries to let its operations stand still: while the guard lives, each allocated object of the tenant is
    /// reachable, or waits to be freed and is reported as that. `None`: something is under way. Waits for nothing that
    /// another tenant, or a caller between two calls, may hold.
    fn quiesce(&self) -> Option<Box<dyn Still + '_>>;

    /// Asks the tenant to make way: a sweep or a check could not begin, because the tenant did not stand still, and will try
    /// again soon. If its operations follow each other without a gap, the tenant leaves a gap of a millisecond or so. Otherwise
    /// the sweep may wait as long as the load lasts, and removed objects keep their space. Does not wait.
    fn make_way(&self) {}

    /// Does what its background still owes, for a check. It does not wait for work that others do.
    ///
    /// # Errors
    /// What it met.
    fn settle(&self) -> Result<(), TenantError> {
        Ok(())
    }

    /// The state of the tenant.
    fn stat(&self) -> TenantStat;

    /// Notes that a sweep has ended, by success or not, so that the next can begin. Takes no lock: its caller may hold the
    /// driver's, and this tenant may stand still.
    fn sweep_ended(&self) {}
}

/// A tenant whose operations stand still until this is dropped.
pub trait Still {
    /// Notes what a sweep has to mark: all that is reachable now, and all that waits to be freed. `tenant` is this tenant,
    /// for the marking to keep.
    ///
    /// # Errors
    /// What it met. The sweep does not begin.
    fn begin(&mut self, tenant: Arc<dyn Tenant>) -> Result<Box<dyn Marking>, TenantError>;

    /// Verifies the tenant and marks as a sweep would.
    ///
    /// # Errors
    /// The first damage found.
    fn check(&mut self, marker: &mut dyn Marker) -> Result<TenantCheck, TenantError>;
}

/// What a tenant has to do for a sweep that has begun. Dropped early if the sweep fails.
pub trait Marking: Send {
    /// Marks all that was noted at the begin. Called once.
    ///
    /// # Errors
    /// Damage, also what `marker` says. The sweep then frees nothing.
    fn mark(&mut self, marker: &mut dyn Marker) -> Result<(), TenantError>;

    /// Does a part of what must be done before unmarked objects are given to others. Returns whether all of it is done. If it
    /// would have to wait it returns `false`, and is called again.
    ///
    /// # Errors
    /// What it met. The sweep then frees nothing.
    fn settle(&mut self) -> Result<bool, TenantError> {
        Ok(true)
    }
}

/// The state of a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantStat {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// What its background does, as a text. It is empty if the background does nothing.
    pub under_way: String,
}

/// What the check of a tenant found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantCheck {
    /// Objects that are reachable.
    pub objects: u64,
    /// Objects that wait to be freed.
    pub pending: u64,
    /// Numbers for a person, each with what it counts.
    pub counts: Vec<(String, u64)>,
    /// Whether it waits for a sweep: objects that it has given up are taken, but not reachable, until the sweep has ended.
    pub owes_sweep: bool,
}
