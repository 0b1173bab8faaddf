//! The report of a store's state, for operators. It is made without the writer's lock.

use tembo_index::IndexKind;
use tembo_pmem::{Counters, Domain, SyncPolicy};

use crate::Horizon;
use crate::horizon::horizon;
use crate::shared::Shared;

/// The state of a store.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The kind of index that every keyspace has.
    pub index: IndexKind,
    /// The persistence domain. If the store is open to be read only, the one in which it was last written.
    pub domain: String,
    /// The medium only pretends to be persistent memory: what is durable outlives the program, but not a power failure.
    pub emulated: bool,
    /// Whether the store is open to be read only.
    pub read_only: bool,
    /// The sync policy of the `logged` domain.
    pub sync_policy: String,
    /// Every version up to it is fenced.
    pub visible: u64,
    /// Every version up to it is synced.
    pub durable: u64,
    /// The time that opening took below the store, in µs.
    pub recovery_us: u64,
    /// Whether a marking or a scrub after opening (or after a rollback) is still under way, or cleared trees wait to be
    /// given back.
    pub recovering: bool,
    /// Private copies of the pool's pages, in bytes (`logged` domain).
    pub private_bytes: u64,
    /// Bytes that they may take at this time.
    pub private_limit: u64,
    /// Memory that the directories of hash indexes take, in bytes.
    pub directory_bytes: u64,
    /// Memory that they may take together, in bytes: a sixteenth of what the process may have
    /// ([`Options::memory`](crate::Options::memory)); 0 where there is no hash index.
    pub directory_limit: u64,
    /// Size of the pool, in bytes.
    pub pool_bytes: u64,
    /// Bytes of it in objects.
    pub used_bytes: u64,
    /// `fdatasync`s of log and pool so far.
    pub fdatasyncs: u64,
    /// Objects that wait for the versions that see them.
    pub retired: u64,
    /// Whether no removed entry is left to be collected, except those that a held version sees, and the share
    /// below which no collection begins.
    pub collected: bool,
    /// What holds older versions than the visible one.
    pub horizon: Horizon,
    /// Collections of a keyspace of which much was removed that have come to their end since the open.
    pub collections: u64,
    /// The redo log (`logged` domain).
    pub log: LogReport,
    /// Fences of the calling thread so far.
    pub fences: u64,
    /// Cache lines that the calling thread has flushed so far.
    pub flushed_lines: u64,
}

/// The use of the redo log. All fields are zero if there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogReport {
    /// Bytes of it in use.
    pub used_bytes: u64,
    /// Bytes that it can hold.
    pub capacity_bytes: u64,
    /// Bytes written to it so far.
    pub bytes_written: u64,
    /// Bytes written to the pool file so far.
    pub pool_bytes_written: u64,
    /// `fdatasync`s of it so far.
    pub syncs: u64,
    /// Checkpoints so far.
    pub checkpoints: u64,
}

impl Report {
    /// Whether what is visible becomes durable by a sync. If not, it is as soon as it is visible.
    pub fn is_logged(&self) -> bool {
        self.domain == domain_name(Domain::Logged)
    }

    /// The domain, with what a reader must know of its medium.
    pub fn domain_on_medium(&self) -> String {
        let of = if self.emulated { " (emulated: does not survive a power failure)" } else { "" };
        format!("{}{of}", self.domain)
    }
}

/// See [`Store::report`](crate::Store::report).
pub(crate) fn report(shared: &Shared) -> Report {
    let (counters, visible) = (Counters::thread(), shared.versions.pins.visible());
    let (directory_bytes, directory_limit) = shared.forest.directory_bytes();
    let (region, usage, status) = (shared.region().report(), shared.pool().usage(), &shared.status);
    Report {
        index: shared.kind(),
        domain: domain_name(region.file_domain).into(),
        emulated: region.emulated,
        read_only: shared.region().is_read_only(),
        sync_policy: policy_name(region.sync).into(),
        visible,
        durable: shared.versions.durable(),
        recovery_us: region.recovery.as_micros() as u64,
        recovering: status.is_recovering() || shared.private.is_giving_back(),
        private_bytes: region.private_bytes,
        private_limit: region.private_limit,
        directory_bytes,
        directory_limit,
        pool_bytes: usage.size,
        used_bytes: usage.allocated_bytes,
        fdatasyncs: region.log_syncs + region.pool_syncs,
        retired: status.retired(),
        collected: status.retired() == 0 && status.collected_to() == visible,
        horizon: horizon(shared),
        collections: status.collections(),
        log: LogReport {
            used_bytes: region.log_used,
            capacity_bytes: region.log_capacity,
            bytes_written: region.log_bytes_written,
            pool_bytes_written: region.pool_bytes_written,
            syncs: region.log_syncs,
            checkpoints: region.checkpoints,
        },
        fences: counters.fences,
        flushed_lines: counters.lines,
    }
}

fn domain_name(domain: Domain) -> &'static str {
    match domain {
        Domain::Flush => "flush",
        Domain::Eadr => "eadr",
        Domain::Logged => "logged",
        Domain::Volatile => "volatile",
    }
}

fn policy_name(policy: SyncPolicy) -> &'static str {
    match policy {
        SyncPolicy::Always => "always",
        SyncPolicy::Interval(_) => "interval",
        SyncPolicy::Os => "os",
    }
}
