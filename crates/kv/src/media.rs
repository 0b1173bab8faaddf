//! What the store itself has on media: its root, with one type for each group of the root's words.
//!
//! ```text
//! root ─┬─ limit         no version above it was used
//!       ├─ window        versions that stay readable without a handle; what was rolled back
//!       ├─ commit word   grouped stamps count up to it
//!       ├─ dead table    versions that never happened
//!       ├─ names         named snapshots
//!       └─ catalogue     the tree of keyspaces (`trees/catalogue.rs`)
//! ```

mod commit_word;
mod dead_table;
mod format;
mod limit;
mod names;
mod root;
mod window;

pub(crate) use commit_word::CommitWord;
pub(crate) use dead_table::DeadTable;
pub(crate) use format::{
    BOUND_EXCLUDED, BOUND_INCLUDED, BOUND_UNBOUNDED, COUNTS_KEY, CountsHeader, FEATURES_HASH,
    FEATURES_KNOWN, FEATURES_PREPARED, FEATURES_RANGES, FEATURES_REPLICA, INDEX_CDDS, INDEX_HASH,
    INDEX_NVTREE, ITEM_KEY_READ, ITEM_PUT, ITEM_RANGE_READ, ITEM_REMOVE, KEYSPACE_TAG,
    KeyspaceCount, KeyspaceEntry, LARGE_HEADER, LARGE_PIECE, LargeValueHeader, PREPARED_PIECE_SIZE,
    PREPARED_TAG, PreparedHeader, PreparedItem, REPLICA_KEY, SNAPSHOT_COUNT, TOMBSTONE_TAG,
    TombstoneHeader, TombstoneKey,
};
pub(crate) use limit::{GIVEN_VERSION_MAX, Limit};
pub(crate) use names::NameTable;
pub(crate) use root::{LANE, Root, grouped};
pub use window::Retention;
pub(crate) use window::WindowWords;
