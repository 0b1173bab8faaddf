//! What can go wrong in an index.

use tembo_pmem::Fault;

use crate::KEY_SIZE_MAX;

/// Errors of an index operation. Before its first store an operation either has everything that it
/// needs or fails with [`Error::Pool`]; later only damage can stop it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No room, or the region refuses writes.
    #[error(transparent)]
    Pool(#[from] tembo_pool::Error),
    /// An offset on media led outside the pool.
    #[error("damaged index: {0}")]
    Fault(#[from] Fault),
    /// Nothing was written: use a shorter key.
    #[error("a key of {size} bytes is longer than {KEY_SIZE_MAX}")]
    KeyTooLong {
        /// Its length, in bytes.
        size: usize,
    },
    /// The marker wanted no more.
    #[error("the mark was stopped")]
    Stopped,
    /// A record of a pool that was opened is not as it was written: its checksum is another. All else can be
    /// read, also behind this key; restore the key from a backup, or put or remove it.
    #[error("the record at offset {offset:#x}, of the key {}, is corrupt: restore it from a backup, or put it again", key.escape_ascii())]
    Corrupt {
        /// Where it lies in the pool.
        offset: u64,
        /// The key, as it stands in the record, which may be what is corrupt.
        key: Vec<u8>,
    },
    /// What lies at an offset is not what should lie there.
    #[error("damaged index at offset {offset:#x}: {what}")]
    Damaged {
        /// Where.
        offset: u64,
        /// What was expected.
        what: &'static str,
    },
}

pub(crate) fn damaged<T>(offset: u64, what: &'static str) -> Result<T, Error> {
    Err(Error::Damaged { offset, what })
}
