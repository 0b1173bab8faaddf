//! What keeps the log writable for a moment when the disk is full: blocks behind the ring, which are given up then.
//!
//! Blocks of the ring are allocated, and most file systems write to them in place. One that copies what is written (btrfs,
//! ZFS, one under a snapshot) needs free blocks for each write, and a quota may end in the middle of one. What finds the disk
//! full is then a sync, when the changes are visible already. So the file has some blocks behind the ring that hold nothing. The
//! first write that finds no room gives them up and is done again: what was begun is made durable. From then on no
//! section begins until the blocks are there again: an operation is refused before its first store.
//!
//! An operation that has more to write than the ballast may still find the disk full in its sync; then the sync says so, and
//! the next one tries again.

use std::sync::{MutexGuard, PoisonError};

use super::RedoLog;
use crate::format::LOG_HEADER_SIZE;
use crate::{DiskFile, Error};

/// Bytes behind the ring: as many as it has, and no more than this.
const BALLAST_MAX: u64 = 4 << 20;

impl RedoLog {
    /// The length of the file behind the ring is changed by one thread at a time.
    pub(super) fn lock_length(&self) -> MutexGuard<'_, ()> {
        self.length.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sees to it that there are blocks behind the ring; whether there are.
    pub(super) fn fill_ballast(&self) -> bool {
        let _one = self.lock_length();
        let capacity = self.ring.capacity();
        let (end, wanted) = (LOG_HEADER_SIZE + capacity, capacity.min(BALLAST_MAX));
        let is_there = self.ring.file.len().is_ok_and(|len| len >= end + wanted);
        is_there || self.ring.file.allocate("log.ballast_allocate", end, wanted).is_ok()
    }

    /// Does what may find the disk full; then once more, if the ballast could be given up.
    pub(super) fn with_room(
        &self,
        mut write: impl FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        match write() {
            Err(Error::DiskFull { .. }) if self.give_up_ballast() => {
                {
                    let mut state = self.lock();
                    state.log_full = true;
                    state.given_up += 1;
                }
                write()
            }
            done => done,
        }
    }

    /// Gives up what is behind the ring; whether there was something.
    fn give_up_ballast(&self) -> bool {
        let _one = self.lock_length();
        let end = LOG_HEADER_SIZE + self.ring.capacity();
        self.ring.file.len().is_ok_and(|len| len > end)
            && self.ring.file.truncate("log.ballast_release", end).is_ok()
    }
}
