//! Wakes the background thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// Whether there is something to do, and which threads are to stop. A store that is opened again while another one of its pool
/// still sweeps has a new thread; the number of the old one then distinguishes it.
#[derive(Default)]
pub(crate) struct Wake {
    wanted: Mutex<bool>,
    changed: Condvar,
    /// A sweep of the pool has ended since the store's last marking began.
    has_swept: AtomicBool,
    /// The number of the last thread that was started.
    started: AtomicU64,
    /// The last thread that is to stop, with all before it.
    stopped: AtomicU64,
}

impl Wake {
    /// Notifies the thread that there is something to do.
    pub(crate) fn want(&self) {
        *self.wanted.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Notes that a sweep of the pool has ended, by success or not. The next may begin.
    pub(crate) fn sweep_ended(&self) {
        self.has_swept.store(true, Ordering::Release);
        self.want();
    }

    /// Whether a sweep has ended, since this was asked last.
    pub(crate) fn take_swept(&self) -> bool {
        self.has_swept.swap(false, Ordering::AcqRel)
    }

    /// Returns the number of a thread that is about to start.
    pub(crate) fn start(&self) -> u64 {
        self.started.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Asks the thread of that number, and all before it, to stop, also while it marks.
    pub(crate) fn stop(&self, thread: u64) {
        self.stopped.fetch_max(thread, Ordering::AcqRel);
        self.want();
    }

    /// Whether all threads that were started are to stop.
    pub(crate) fn is_stopped(&self) -> bool {
        let stopped = self.stopped.load(Ordering::Acquire);
        stopped != 0 && stopped >= self.started.load(Ordering::Acquire)
    }

    /// Whether the thread of that number is to stop.
    pub(crate) fn has_ended(&self, thread: u64) -> bool {
        self.stopped.load(Ordering::Acquire) >= thread
    }

    /// Waits until there is something to do. Returns false if the thread of that number is to stop.
    pub(crate) fn wait(&self, thread: u64) -> bool {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        while !*wanted && !self.has_ended(thread) {
            wanted = self.changed.wait(wanted).unwrap_or_else(PoisonError::into_inner);
        }
        let has_ended = self.has_ended(thread);
        // A thread that stops leaves the work to the thread after it.
        *wanted &= has_ended;
        !has_ended
    }
}
