//! Space that threads have written and not fenced: a debug build finds the thread that frees it for another.
//!
//! A thread notes where it wrote until its next fence. If the space is another thread's by then, the log gets what is not the
//! thread's to say. So the thread [hands over](crate::Region::hand_over) before the lock goes under which it wrote.
//!
//! That is for space that others free. What the thread gives back itself, under the lock, is taken at once by threads that
//! do not need the lock: it fences what it wrote there before. A debug build does not look for that.

use std::sync::{Mutex, PoisonError};

/// Of one region; empty in a release build.
#[derive(Default)]
pub(crate) struct Unfenced(Mutex<Vec<Space>>);

/// What one thread has written.
struct Space {
    start: u64,
    end: u64,
    /// The number of the thread's notes.
    note: u64,
}

impl Unfenced {
    /// The thread of these notes has written the space.
    #[inline]
    pub(crate) fn add(&self, note: u64, (start, end): (u64, u64)) {
        if cfg!(debug_assertions) {
            self.with(|spaces| spaces.push(Space { start, end, note }));
        }
    }

    /// The thread has fenced what it has written, or has ended.
    #[inline]
    pub(crate) fn forget(&self, note: u64) {
        if cfg!(debug_assertions) {
            self.with(|spaces| spaces.retain(|space| space.note != note));
        }
    }

    /// The thread frees the space.
    #[inline]
    pub(crate) fn check_freed(&self, note: u64, (start, end): (u64, u64)) {
        if cfg!(debug_assertions) {
            let is_others =
                |space: &Space| space.note != note && space.start < end && start < space.end;
            let has_other = self.with(|spaces| spaces.iter().any(is_others));
            assert!(!has_other, "another thread has written at {start}..{end} and not fenced it");
        }
    }

    fn with<R>(&self, work: impl FnOnce(&mut Vec<Space>) -> R) -> R {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
