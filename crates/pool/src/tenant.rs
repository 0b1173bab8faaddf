//! Tenants: the structures that share a pool, each found by its line in the superblock.
//!
//! A tenant is a store, a heap, or another structure with a root object of its own. On media it has one line of the
//! superblock's table: kind, name, version and features of its format, root. In memory it implements [`Tenant`],
//! so that what concerns the whole pool can ask all of them: a sweep, a census, a check, a report.
//!
//! # How a sweep goes over all tenants
//!
//! ```text
//!             driver (a tenant, or nobody)                each other tenant
//!             ────────────────────────────                ─────────────────
//! open        pool.open_tenants()                         is opened by its kind, if it is not open
//!
//! begin       quiet itself: its writers stand still
//!             pool.begin_sweep_by(id) ──────────────────► quiesce()          a try; busy: nothing has begun
//!                                     ──────────────────► Still::begin()     what is to be marked, and
//!             its writers go on                           its writers go on  what waits to be freed
//!
//! mark        sweep.mark(object) of its own objects
//!             sweep.mark_others()     ──────────────────► Marking::mark()    writers go on beside it
//!
//! settle      erases what refers to unmarked objects
//!             sweep.settle_others()   ──────────────────► Marking::settle()  the same; a try, again and again
//!
//! finish      sweep.finish(pending)                       all that lies below the limit, is not marked
//!                                                         and does not wait, is free
//! ```
//!
//! An object below the sweep's limit that is neither marked nor waiting is given to others. So three things must hold,
//! and each tenant is responsible for its own objects:
//! - *At the begin nothing hangs in the air*: each object that was allocated is reachable, or it is
//!   reported as waiting. That is what [`Tenant::quiesce`] is for. What is allocated later lies above the limit.
//! - *What is marked includes all that was reachable at the begin*, whatever becomes unreachable meanwhile. What is freed
//!   meanwhile waits in the allocator until the end.
//! - *At the end nothing refers to what was not marked*: references that the marking does not follow (entries of versions that
//!   never happened) are erased before, by [`Marking::settle`].
//!
//! One sweep runs at a time. Two tenants that begin one at once cannot wait for each other: `quiesce` is a try, and
//! `begin_sweep_by` gives up with [`Error::TenantBusy`](crate::Error::TenantBusy) or
//! [`Error::SweepRunning`](crate::Error::SweepRunning), after which the driver
//! lets its own writers go on and tries later; [`Tenant::sweep_ended`] notifies it. `mark` and `settle` are called
//! by the driver's thread, which may hold the driver's locks: they take no lock of their tenant that is held while something
//! waits (a `try_lock` is fine).

mod registry;
mod table;

use std::any::Any;
use std::sync::Arc;

use crate::{Error, Object, TenantError};

pub(crate) use registry::{Live, Registry};
pub(crate) use table::{add, admit, place, read, set_features, write_first};

/// What kind of structure a tenant is: up to eight bytes of ASCII.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(pub(crate) [u8; 8]);

impl Kind {
    /// A store of `tembo-kv`.
    pub const STORE: Kind = Kind::new("store");

    /// The kind of that name: its first eight bytes.
    pub const fn new(name: &str) -> Kind {
        let (name, mut bytes) = (name.as_bytes(), [0; 8]);
        let mut at = 0;
        while at < name.len() && at < bytes.len() {
            bytes[at] = name[at];
            at += 1;
        }
        Kind(bytes)
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let end = self.0.iter().position(|&byte| byte == 0).unwrap_or(self.0.len());
        self.0[..end].escape_ascii().fmt(f)
    }
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kind({self})")
    }
}

/// The place of a tenant in its pool. It does not change while the pool lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(pub(crate) u8);

/// Feature bits of a tenant's format, 16 of each set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TenantFeatures {
    /// May be ignored when unknown.
    pub may: u16,
    /// Forbid opening the tenant, and writing the pool, when unknown.
    pub must: u16,
    /// Forbid writing the pool when unknown.
    pub read_only: u16,
}

/// What a program knows of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownKind {
    /// The kind.
    pub kind: Kind,
    /// The newest version of its format that can be opened.
    pub version: u32,
    /// The feature bits that are known.
    pub features: TenantFeatures,
}

/// A tenant as the superblock names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantEntry {
    /// Its place.
    pub id: TenantId,
    /// Its kind.
    pub kind: Kind,
    /// 1 to 32 bytes, different from those of the pool's other tenants.
    pub name: String,
    /// The version of its format.
    pub version: u32,
    /// The feature bits of its format.
    pub features: TenantFeatures,
    /// Its root object.
    pub root: Object,
}

/// A tenant to be added to a pool.
#[derive(Clone, Copy, Debug)]
pub struct NewTenant<'n> {
    /// Its kind.
    pub kind: Kind,
    /// 1 to 32 bytes, different from those of the pool's other tenants.
    pub name: &'n str,
    /// The version of its format.
    pub version: u32,
    /// The feature bits of its format.
    pub features: TenantFeatures,
}

/// What is told of each reachable object.
pub trait Marker {
    /// The object is reachable, or waits to be freed; `true` if it was not marked before.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], [`Error::Misplaced`] or [`Error::Overlap`] if the object cannot be
    /// one: the structure that refers to it is damaged. Nothing has been marked then.
    /// [`Error::Stopped`]: the marking is to end.
    fn mark(&mut self, object: Object) -> Result<bool, Error>;
}

/// A tenant that is open in this process. See the [module](self) for how a sweep uses it.
pub trait Tenant: Any + Send + Sync {
    /// Tries to let its operations stand still: while the guard lives, each allocated object of the tenant is
    /// reachable, or waits to be freed and is reported as that. `None`: something is under way. Waits for nothing that
    /// another tenant, or a caller between two calls, may hold.
    fn quiesce(&self) -> Option<Box<dyn Still + '_>>;

    /// Does what its background still owes, for a check; what others do meanwhile is not waited for.
    ///
    /// # Errors
    /// What it met.
    fn settle(&self) -> Result<(), TenantError> {
        Ok(())
    }

    /// How it is.
    fn stat(&self) -> TenantStat;

    /// A sweep has ended, by success or not: the next can begin. Takes no lock: its caller may hold the driver's, and this tenant may stand still.
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

    /// Does a part of what must be done before unmarked objects are given to others; whether all of it is done. A try:
    /// if it would wait it returns `false`, and is called again.
    ///
    /// # Errors
    /// What it met. The sweep then frees nothing.
    fn settle(&mut self) -> Result<bool, TenantError> {
        Ok(true)
    }
}

/// How a tenant is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantStat {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// Its objects, if they are known.
    pub objects: Option<u64>,
    /// The bytes that they take.
    pub bytes: Option<u64>,
    /// What its background does, for a person; empty if nothing.
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
}
