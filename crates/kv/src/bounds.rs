//! How long keys, values and names may be.

/// Longest key, in bytes.
pub const KEY_SIZE_MAX: usize = 65_000;

/// Longest name of a keyspace, in bytes of UTF-8.
pub const KEYSPACE_NAME_SIZE_MAX: usize = 255;

/// Longest value, in bytes.
pub const VALUE_SIZE_MAX: usize = 513 << 20;
