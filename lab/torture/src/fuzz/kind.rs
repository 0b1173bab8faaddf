//! The faces by what they take bytes as.

/// What bytes are offered as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A pool.
    Pool,
    /// A pool that a server serves.
    Served,
    /// The redo log of a pool that was in use.
    Log,
    /// What a client sends.
    Resp,
}
