//! A keyspace as callers hold it, and the checks of sizes and names.

use crate::Error;
use crate::bounds::{KEY_SIZE_MAX, KEYSPACE_NAME_SIZE_MAX, VALUE_SIZE_MAX};

/// A keyspace of an open store: a small copyable handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Keyspace {
    pub(crate) id: u32,
    /// Distinguishes a keyspace from another that took its number after a rollback.
    pub(crate) incarnation: u32,
}

/// The number of keys in a keyspace, or an estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyCount {
    /// The number of keys.
    pub keys: u64,
    /// Whether the number is exact. If not, it is the one that was last written down, with the changes since the open; the
    /// background counts the keys.
    pub is_exact: bool,
}

/// # Errors
/// [`Error::KeyTooLong`], [`Error::ValueTooLong`].
pub(crate) fn check_sizes(key: &[u8], parts: &[&[u8]]) -> Result<(), Error> {
    let size = parts.iter().map(|part| part.len()).sum();
    if size > VALUE_SIZE_MAX {
        return Err(Error::ValueTooLong { size });
    }
    if key.len() > KEY_SIZE_MAX {
        return Err(Error::KeyTooLong { size: key.len() });
    }
    Ok(())
}

/// # Errors
/// [`Error::KeyspaceName`].
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    if name.len() > KEYSPACE_NAME_SIZE_MAX {
        return Err(Error::KeyspaceName { size: name.len() });
    }
    Ok(())
}
