//! The store: versions, commit, keyspaces, snapshots, transactions.
//!
//! A store is a pool with a root: a durable limit of versions, a commit word, a table of dead
//! intervals, and a catalogue of keyspaces, which is a versioned keyspace itself. A commit writes
//! stamped entries, fences, stores its version in the commit word, and fences. Opening does not
//! undo what was in flight: it notes its stamps as dead.

mod ahead;
pub mod backup;
mod catalogue;
mod changes;
mod check;
mod collection;
mod committer;
mod error;
mod exclusive;
mod format;
mod horizon;
mod inner;
mod lanes;
mod ledger;
mod lineage;
mod open;
mod past;
mod pins;
mod prepare;
mod reading;
mod recovery;
mod removals;
mod retire;
mod retry;
mod rollback;
mod single;
mod snapshot;
mod store;
mod tenant;
mod transaction;
mod uncommitted;
mod validation;
mod visible;
mod wake;
mod window;
mod writer;

pub use backup::{BackupError, BackupInfo, SaveOptions};
pub use changes::{Change, Changes, Event};
pub use check::{Check, Report};
pub use error::Error;
pub use exclusive::Exclusive;
pub use horizon::{Holder, HolderKind, Horizon};
pub use retry::ATTEMPTS_MAX;
pub use snapshot::Snapshot;
pub use store::{Options, Store};
pub use tembo_index::{CheckReport, Direction, IndexKind, Value};
pub use tembo_pmem::{DomainRequest, RegionOptions, SyncPolicy};
pub use tembo_pool::PoolOptions;
pub use tenant::kinds;
pub use transaction::{Isolation, Savepoint, Transaction};
pub use window::Retention;

/// Longest key, in bytes.
pub const KEY_SIZE_MAX: usize = 65_000;

/// Longest name of a keyspace, in bytes of UTF-8.
pub const KEYSPACE_NAME_SIZE_MAX: usize = 255;

/// Longest value, in bytes.
pub const VALUE_SIZE_MAX: usize = 513 << 20;

/// How durable a commit is when it returns; capped by the region's policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Synced before return.
    #[default]
    Strict,
    /// Waits for a sync shared with others.
    Group,
    /// Visible on return, durable at the next sync.
    Buffered,
}

/// A keyspace of an open store: a small copyable handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Keyspace {
    id: u32,
    /// Tells a keyspace from another that took its number after a rollback.
    incarnation: u32,
}

/// What a step of background work left to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing.
    Idle,
    /// Something.
    More,
}
