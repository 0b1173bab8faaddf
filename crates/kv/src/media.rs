//! What the store itself has on media: its root, and each of the root's words by what it says.
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
pub(crate) use format::{INDEX_CDDS, INDEX_NVTREE, KEYSPACE_TAG, KeyspaceEntry, REPLICA_KEY};
pub(crate) use limit::Limit;
pub(crate) use names::NameTable;
pub(crate) use root::{LANE, Root, grouped};
pub use window::Retention;
pub(crate) use window::WindowWords;
