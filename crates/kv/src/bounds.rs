//! How long keys, values and names may be, and how many transactions may be prepared.

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
