//! How long keys, values and names may be, which names of snapshots are Tembo's own, and how many transactions may be
//! prepared.

/// Longest key, in bytes.
pub const KEY_SIZE_MAX: usize = 65_000;

/// Longest name of a keyspace, in bytes of UTF-8.
pub const KEYSPACE_NAME_SIZE_MAX: usize = 255;

/// Longest value, in bytes.
pub const VALUE_SIZE_MAX: usize = 513 << 20;

/// Longest id of a prepared transaction, in bytes. An id has at least one byte.
pub const PREPARED_ID_SIZE_MAX: usize = 64;

/// Transactions that may be prepared, and not decided, at a time.
pub const PREPARED_COUNT_MAX: usize = 1024;

/// Smallest size of a piece of a large value, in bytes.
pub const PIECE_SIZE_MIN: usize = 512;

/// Greatest size of a piece of a large value, in bytes.
pub const PIECE_SIZE_MAX: usize = 64 << 10;

/// Longest large value, in bytes.
pub const LARGE_VALUE_SIZE_MAX: u64 = 1 << 48;

/// What the names of those snapshots begin with by which Tembo itself keeps versions: clones of devices read them.
pub const OWN_NAME_PREFIX: &str = "tembo-array@";

/// Whether a snapshot of that name is Tembo's own ([`OWN_NAME_PREFIX`]). It is dropped when nothing needs it any more. What serves
/// people and programs does not list such a name, and refuses to give or to drop it.
pub fn is_own_name(name: &str) -> bool {
    name.starts_with(OWN_NAME_PREFIX)
}
