//! Tenants: the structures that share a pool, each found by its line in the superblock.
//!
//! A tenant is a store, a heap, or another structure with a root object of its own. On media it has one line of the
//! superblock's table: kind, name, version and features of its format, root. In memory it implements [`Tenant`],
//! so that what concerns the whole pool can ask all of them: a sweep, a census, a check, a report.
//!
//! # How a sweep goes over all tenants
//!
//! ```text
//!             driver (a tenant, or none)                  each other tenant
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
//! lets its own writers go on and tries later; [`Tenant::sweep_ended`] notifies it. A tenant that was busy is asked to
//! [make way](Tenant::make_way): under a load without a gap no sweep would ever begin. `mark` and `settle` are called
//! by the driver's thread, which may hold the driver's locks: they take no lock of their tenant that is held while something
//! waits (a `try_lock` is fine).

mod entry;
mod live;
mod registry;
mod table;

pub use entry::{Kind, KnownKind, NewTenant, TenantEntry, TenantFeatures, TenantId};
pub use live::{Marker, Marking, Still, Tenant, TenantCheck, TenantStat};
pub(crate) use registry::{Live, Registry};
pub(crate) use table::{add, admit, place, read, set_features, write_first};
