//! What a region can say about itself.

use std::sync::PoisonError;
use std::time::Duration;

use super::{Backend, Region};
use crate::{Domain, SyncPolicy};

/// State and totals of a region since it was opened.
#[derive(Clone, Debug)]
pub struct Report {
    /// The domain in force.
    pub domain: Domain,
    /// Whether the medium only pretends to be persistent memory.
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
    /// Bytes of pages that nobody has touched yet since, and so have not got their lines of it.
    pub waiting_bytes: u64,
    /// How long opening took, recovery included.
    pub recovery: Duration,
    /// Bytes of pages that differ from the pool file and so are held in memory.
    pub private_bytes: u64,
    /// Bytes of the log in use.
    pub log_used: u64,
    /// Bytes that the log can hold.
    pub log_capacity: u64,
    /// Checkpoints done.
    pub checkpoints: u64,
    /// `fdatasync`s of the log.
    pub log_syncs: u64,
    /// `fdatasync`s of the pool file.
    pub pool_syncs: u64,
    /// Bytes written to the log.
    pub log_bytes_written: u64,
    /// Bytes written to the pool file.
    pub pool_bytes_written: u64,
    /// Whether a failure of the log has ended all promises.
    pub poisoned: bool,
}

impl Region {
    /// What the region can say about itself.
    pub fn report(&self) -> Report {
        // What was locked when a child was forked stays locked in it.
        let media = self.media.as_ref().filter(|_| !self.is_forked());
        let header =
            media.map(|media| *media.header.lock().unwrap_or_else(PoisonError::into_inner).get());
        let mut report = Report {
            domain: self.domain(),
            emulated: self.emulated,
            sync: self.sync_policy,
            identity: header.map_or(0, |header| header.identity()),
            generation: header.map_or(0, |header| header.generation.get()),
            size: self.size(),
            size_max: self.mapping.reserved(),
            replayed_groups: self.replayed.0,
            replayed_bytes: self.replayed.1,
            waiting_bytes: self.pending.as_ref().map_or(0, |pending| pending.waiting_bytes()),
            recovery: self.recovery,
            private_bytes: 0,
            log_used: 0,
            log_capacity: 0,
            checkpoints: 0,
            log_syncs: 0,
            pool_syncs: 0,
            log_bytes_written: 0,
            pool_bytes_written: 0,
            poisoned: false,
        };
        if let Backend::Logged(logged) = &self.backend
            && media.is_some()
        {
            logged.report(&mut report);
        }
        report
    }
}
