//! Wakes the background thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// Whether there is something to do, and whether it is time to stop.
#[derive(Default)]
pub(crate) struct Wake {
    wanted: Mutex<bool>,
    changed: Condvar,
    stopped: AtomicBool,
}

impl Wake {
    /// There is something to do.
    pub(crate) fn want(&self) {
        *self.wanted.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Ends the thread, a marking that runs included.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.want();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Waits until there is something to do; false: time to stop.
    pub(crate) fn wait(&self) -> bool {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        while !*wanted {
            wanted = self.changed.wait(wanted).unwrap_or_else(PoisonError::into_inner);
        }
        *wanted = false;
        !self.is_stopped()
    }
}
