//! What clients may do with the data.

/// What clients may do with the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Access {
    /// Read and write.
    #[default]
    Open,
    /// Read: the pool is only read.
    ReadOnlyPool,
    /// Read: another program has removed a file of the pool, and what is written would be gone with the process.
    Removed,
    /// Read: the store follows a primary.
    Replica,
    /// Nothing: the store follows a primary, and does not hold all of a version yet.
    Loading,
}
