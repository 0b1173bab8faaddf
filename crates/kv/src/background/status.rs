//! The status of the background, for reports, which read it without the writer's lock.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The status as the writer has left it last. It has lines of its own, away from what other threads read.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Status {
    is_recovering: AtomicBool,
    retired: AtomicU64,
    collections: AtomicU64,
    collected_to: AtomicU64,
}

impl Status {
    /// Notes the status. The writer does this before it releases its lock.
    #[inline]
    pub(crate) fn note(&self, is_recovering: bool, retired: u64, collections: u64) {
        self.is_recovering.store(is_recovering, Ordering::Relaxed);
        self.retired.store(retired, Ordering::Relaxed);
        self.collections.store(collections, Ordering::Relaxed);
    }

    /// Notes that nothing is left to collect of what the versions up to this one removed. The background does this with the
    /// writer's lock.
    pub(crate) fn note_collected(&self, version: u64) {
        self.collected_to.store(version, Ordering::Relaxed);
    }

    /// See [`note_collected`](Status::note_collected).
    pub(crate) fn collected_to(&self) -> u64 {
        self.collected_to.load(Ordering::Relaxed)
    }

    /// Whether a marking or a scrub is due or under way.
    pub(crate) fn is_recovering(&self) -> bool {
        self.is_recovering.load(Ordering::Relaxed)
    }

    /// Objects that wait for the versions that see them.
    pub(crate) fn retired(&self) -> u64 {
        self.retired.load(Ordering::Relaxed)
    }

    /// Collections that have come to their end since the open.
    pub(crate) fn collections(&self) -> u64 {
        self.collections.load(Ordering::Relaxed)
    }
}
