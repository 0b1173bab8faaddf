//! The four persistence domains, and what a sync promises.

use std::time::Duration;

/// What makes bytes durable on the medium under a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// Flush instructions and a fence.
    Flush,
    /// Caches are inside the power-fail domain: a fence orders, nothing is flushed.
    Eadr,
    /// A redo log beside an ordinary file.
    Logged,
    /// Nothing survives the process.
    Volatile,
}

/// Which domain the caller asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DomainRequest {
    /// Probe the medium; never emulate.
    #[default]
    Auto,
    /// Flush instructions, emulated where the medium is not persistent memory.
    Flush,
    /// As `Flush`, without flush instructions.
    Eadr,
    /// The redo log.
    Logged,
    /// Memory only.
    Volatile,
}

/// What [`Region::sync`](crate::Region::sync) waits for in the `logged` domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncPolicy {
    /// The log is written and `fdatasync`ed.
    #[default]
    Always,
    /// The log is written; a background thread calls `fdatasync` this often.
    Interval(Duration),
    /// The log is written: it survives the process, not the power.
    Os,
}
