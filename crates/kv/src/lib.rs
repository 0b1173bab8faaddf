//! The store: versions, commit, keyspaces, snapshots, transactions.
//!
//! A store is a pool with a root: a durable limit of versions, a commit word, a table of dead
//! intervals, and a catalogue of keyspaces, which is a versioned keyspace itself. A commit writes
//! stamped entries, fences, stores its version in the commit word, and fences. Opening does not
//! undo what was in flight: it notes its stamps as dead.

mod background;
pub mod backup;
mod bounds;
mod changes;
mod check;
mod commit;
mod compact;
mod counts;
mod durability;
mod entries;
mod erase;
mod error;
mod exclusive;
mod expected;
mod held;
mod horizon;
mod keyspace;
mod large_value;
mod ledger;
mod maintain;
mod media;
mod open;
mod opened;
mod options;
mod prefetched;
mod prepared;
mod progress;
mod read_set;
mod replica;
mod report;
mod retry;
mod shared;
mod single;
mod snapshot;
mod store;
mod stores;
mod sync;
mod tally;
mod tenant;
mod tombstones;
mod transaction;
mod trees;
mod version;
mod write;

pub use backup::{BackupError, BackupInfo, SaveOptions, Since};
pub use bounds::{
    BASE_NAME, KEY_SIZE_MAX, KEYSPACE_NAME_SIZE_MAX, LARGE_VALUE_SIZE_MAX, ORIGIN_NAME_PREFIX,
    PIECE_SIZE_MAX, PIECE_SIZE_MIN, PREPARED_COUNT_MAX, PREPARED_ID_SIZE_MAX, VALUE_SIZE_MAX,
    is_own_name,
};
pub use changes::{Change, Changes, Event, Readiness};
pub use check::Check;
pub use durability::Durability;
pub use entries::{Entries, Entry};
pub use error::{Access, Error};
pub use exclusive::Exclusive;
pub use held::Prepared;
pub use horizon::{Holder, HolderKind, Horizon};
pub use keyspace::{KeyCount, Keyspace};
pub use large_value::{LargeValue, LargeValueRead, LargeValueWrite};
pub use media::Retention;
pub use options::{LOG_SIZE_MIN, Options};
pub use progress::Progress;
pub use replica::Replica;
pub use report::{LogReport, Report};
pub use retry::ATTEMPTS_MAX;
pub use snapshot::Snapshot;
pub use store::{CloseError, Store};
pub use stores::Pool;
pub use tembo_index::{CheckReport, Direction, Error as IndexError, IndexKind, Value, Visit};
#[doc(no_inline)]
pub use tembo_pmem as pmem;
pub use tembo_pmem::{DomainRequest, RegionOptions, SyncPolicy};
#[doc(no_inline)]
pub use tembo_pool as pool;
pub use tembo_pool::{
    Account, ClassUsage, Fragmentation, Geometry, Kind, PoolCheck, PoolOptions, TenantCheck,
    TenantStat,
};
pub use tenant::kinds;
pub use transaction::{Isolation, Savepoint, Transaction};
