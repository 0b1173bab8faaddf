//! Versions: how they are drawn, become visible and durable, and for which handles they are kept.
//!
//! ```text
//!  drawn            fenced                      synced
//!  Clock ── change ───────► visible ── sync ───────► durable
//!                              │
//!         snapshots, names ── Pins ── window, followers (Past)
//!                              │
//!                           Retained: the versions that are needed
//! ```

mod commits;
mod long_reads;
mod names;
mod past;
mod pins;
mod read_slots;
mod visible;
mod window;

pub(crate) use commits::Commits;
pub(crate) use names::Names;
pub(crate) use past::Rollbacks;
pub(crate) use pins::{PinKind, Pins};
pub(crate) use read_slots::Reading;
pub(crate) use visible::{Visible, WRITE_SLOT_COUNT, bits};
pub(crate) use window::Window;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tembo_index::Clock;
use tembo_pmem::Region;
use tembo_pmem::thread::{Apart, EventCount};

use long_reads::LongReads;

use crate::Error;

/// The versions of a store.
pub(crate) struct Versions {
    /// Draws them.
    pub(crate) clock: Clock,
    pub(crate) pins: Pins,
    pub(crate) long_reads: LongReads,
    /// In the `logged` domain: every version up to it is synced.
    durable: AtomicU64,
    /// In that domain: wakes those that wait for what is durable.
    synced: EventCount,
    /// In that domain: syncs of what is no version that have failed, and how many of them a later one has made up for.
    unsynced: AtomicU64,
    made_up: AtomicU64,
    is_logged: bool,
    /// Held for reading while a snapshot begins, for writing by a rollback.
    gate: Apart<RwLock<()>>,
}

impl Versions {
    /// Of a store that was opened at a version.
    pub(crate) fn new(visible: u64, is_logged: bool) -> Versions {
        Versions {
            clock: Clock::new(visible),
            pins: Pins::new(visible),
            long_reads: LongReads::default(),
            durable: AtomicU64::new(visible),
            synced: EventCount::default(),
            unsynced: AtomicU64::new(0),
            made_up: AtomicU64::new(0),
            is_logged,
            gate: Apart::default(),
        }
    }

    /// No rollback begins or goes on while a snapshot begins.
    pub(crate) fn begin_snapshot(&self) -> RwLockReadGuard<'_, ()> {
        self.gate.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// No snapshot begins while a rollback goes on.
    pub(crate) fn begin_rollback(&self) -> RwLockWriteGuard<'_, ()> {
        self.gate.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a version visible that was drawn in a write slot and is fenced; `None`: no other thread is in one.
    #[inline]
    pub(crate) fn land(&self, slot: Option<usize>, version: u64) {
        match slot {
            Some(slot) => {
                self.pins.visible.land(slot, version);
                self.pins.published.notify();
            }
            None => self.pins.publish(version),
        }
    }

    /// Everything fenced becomes as durable as the policy promises.
    pub(crate) fn sync(&self, region: &Region) -> Result<(), Error> {
        // Without a log nothing is left to do behind a fence.
        if !self.is_logged {
            return Ok(());
        }
        let version = self.pins.visible();
        let unsynced = self.unsynced.load(Ordering::Acquire);
        if version > self.durable() || unsynced > self.made_up.load(Ordering::Acquire) {
            region.sync().map_err(Error::of_sync)?;
            self.made_up.fetch_max(unsynced, Ordering::AcqRel);
            self.durable.fetch_max(version, Ordering::AcqRel);
            self.synced.notify();
        }
        Ok(())
    }

    /// Everything fenced is handed to the operating system.
    pub(crate) fn write_out(&self, region: &Region) -> Result<(), Error> {
        region.write_out().map_err(Error::of_sync)
    }

    /// As [`sync`](Versions::sync), for what the caller has fenced and is no version: a name, the window.
    pub(crate) fn sync_beside(&self, region: &Region) -> Result<(), Error> {
        region.sync().map_err(|error| {
            // The next sync has to do it, though no version waits for it.
            self.unsynced.fetch_add(1, Ordering::AcqRel);
            Error::of_sync(error)
        })
    }

    /// Wakes those that wait for a version to be durable.
    pub(crate) fn durable_event(&self) -> &EventCount {
        if self.is_logged { &self.synced } else { &self.pins.published }
    }

    /// Every version up to it is synced.
    pub(crate) fn durable(&self) -> u64 {
        if self.is_logged { self.durable.load(Ordering::Acquire) } else { self.pins.visible() }
    }

    /// Whether what is visible and is to be durable waits for a sync.
    #[inline]
    pub(crate) fn needs_sync(&self) -> bool {
        self.is_logged
    }
}
