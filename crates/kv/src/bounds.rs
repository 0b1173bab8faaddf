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

/// What the names of those snapshots begin with by which Tembo itself keeps versions for clones of devices.
pub const ORIGIN_NAME_PREFIX: &str = "tembo-array@";

/// The name of the snapshot by which a replica keeps the version before a change of which it has a part.
pub const BASE_NAME: &str = "tembo-replication@base";

/// Whether a snapshot of that name is Tembo's own ([`ORIGIN_NAME_PREFIX`], [`BASE_NAME`]). It is dropped when nothing needs it any
/// more. What serves people and programs does not list such a name, and refuses to give or to drop it.
pub fn is_own_name(name: &str) -> bool {
    name.starts_with(ORIGIN_NAME_PREFIX) || name == BASE_NAME
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_by_which_versions_are_kept_are_not_for_programs() {
        assert!(["tembo-array@40", "tembo-replication@base"].into_iter().all(is_own_name));
        assert!(!["tembo-monday", "tembo-replication", "base", ""].into_iter().any(is_own_name));
    }
}
