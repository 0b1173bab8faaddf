//! What a region can say about itself.

use std::time::Duration;

use crate::{Domain, SyncPolicy};

/// State and totals of a region since it was opened.
#[derive(Clone, Debug)]
pub struct Report {
    /// The domain in force.
    pub domain: Domain,
    /// The domain of the files: of a region that is open to be read, that of the program that wrote them last; else the
    /// one in force.
    pub file_domain: Domain,
    /// Whether the medium of [`file_domain`](Report::file_domain) only pretends to be persistent memory.
    pub emulated: bool,
    /// What a sync waits for.
    pub sync: SyncPolicy,
    /// The pool's identity; zero without a file.
    pub identity: u128,
    /// Generation of the redo log.
    pub generation: u64,
    /// Bytes in the region.
    pub size: u64,
    /// Bytes that it can grow to.
    pub size_max: u64,
    /// Groups of the log that opening replayed.
    pub replayed_groups: u64,
    /// Bytes of the log that opening replayed.
    pub replayed_bytes: u64,
    /// Bytes of pages that have not been touched since, and so have not got their lines of it yet.
    pub waiting_bytes: u64,
    /// How long opening took, recovery included.
    pub recovery: Duration,
    /// Bytes of pages that differ from the pool file and so are held in memory.
    pub private_bytes: u64,
    /// Bytes that they may take, as things are.
    pub private_limit: u64,
    /// Bytes of the log in use.
    pub log_used: u64,
    /// Bytes that the log can hold.
    pub log_capacity: u64,
    /// Checkpoints done.
    pub checkpoints: u64,
    /// Times that the log was made durable.
    pub log_syncs: u64,
    /// `fdatasync`s of the pool file.
    pub pool_syncs: u64,
    /// Bytes written to the log.
    pub log_bytes_written: u64,
    /// Bytes written to the pool file.
    pub pool_bytes_written: u64,
    /// Whether a failure of the log has ended all promises.
    pub poisoned: bool,
    /// System calls that [protection](crate::RegionOptions::protect) from stray stores has cost.
    pub protection_calls: u64,
}

impl Report {
    /// Nothing has happened yet.
    pub(crate) fn new(domain: Domain, sync: SyncPolicy) -> Report {
        Report {
            domain,
            file_domain: domain,
            emulated: false,
            sync,
            identity: 0,
            generation: 0,
            size: 0,
            size_max: 0,
            replayed_groups: 0,
            replayed_bytes: 0,
            waiting_bytes: 0,
            recovery: Duration::ZERO,
            private_bytes: 0,
            private_limit: u64::MAX,
            log_used: 0,
            log_capacity: 0,
            checkpoints: 0,
            log_syncs: 0,
            pool_syncs: 0,
            log_bytes_written: 0,
            pool_bytes_written: 0,
            poisoned: false,
            protection_calls: 0,
        }
    }
}
