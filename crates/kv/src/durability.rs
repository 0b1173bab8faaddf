//! How durable a commit is.

/// How durable a commit is when it returns; capped by the region's policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Synced before it returns. Commits that wait for a sync at the same time share one.
    #[default]
    Strict,
    /// Handed to the operating system before it returns: it survives the end of the process, not that of the machine. Durable
    /// at the next sync.
    Written,
    /// Visible when it returns, durable at the next sync: of a later strict commit, or by
    /// [`Store::sync`](crate::Store::sync).
    Buffered,
}
