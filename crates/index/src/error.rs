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
    /// The surveyor wanted no more.
    #[error("the survey was stopped")]
    Stopped,
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
