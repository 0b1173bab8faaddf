//! What transactions that write the same blocks do to each other.

/// What transactions that write the same blocks do to each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Isolation {
    /// Nothing, as in the thesis (§3.2.2): a read shows what is committed at the call, and each byte has what the last to
    /// commit has written to it. Commits never conflict.
    None,
    /// A transaction reads the version that it began with, and of two that write to one block at the same time the first to
    /// commit wins: the other gets an [`Error::Conflict`](crate::Error::Conflict).
    #[default]
    FirstCommitter,
}
