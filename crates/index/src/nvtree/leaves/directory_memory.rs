//! The memory of the directories of a pool's hash indexes, counted together and limited.

use std::sync::atomic::{AtomicU64, Ordering};

/// Directories take at most one part in so many of the memory that the process may have.
const SHARE: u64 = 16;

/// Bytes of memory: those taken, and their limit.
pub(crate) struct DirectoryMemory {
    taken: AtomicU64,
    most: u64,
}

impl DirectoryMemory {
    /// The limit for a process that may have `own` bytes of memory. `None`: that is not known.
    pub(crate) fn of(own: Option<u64>) -> DirectoryMemory {
        let most = own.map_or(u64::MAX, |own| own / SHARE);
        DirectoryMemory { taken: AtomicU64::new(0), most }
    }

    /// Takes so many bytes. Returns false if they would be too many.
    pub(crate) fn take(&self, bytes: u64) -> bool {
        let more = |taken: u64| taken.checked_add(bytes).filter(|&taken| taken <= self.most);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Takes so many bytes whatever the limit is. For the table that each directory needs.
    pub(crate) fn take_always(&self, bytes: u64) {
        self.taken.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Gives so many bytes back.
    pub(crate) fn give_back(&self, bytes: u64) {
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Bytes taken.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Bytes that may be taken.
    pub(crate) fn most(&self) -> u64 {
        self.most
    }
}
