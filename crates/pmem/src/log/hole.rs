//! Holes: pages of the pool file that hold nothing go back to the file system.
//!
//! A hole reads as zeroes. So a range is punched under the conditions under which it may be overwritten
//! ([`beside`](super::beside)), with zeroes for bytes: what had it is free in every state that the log can show, no extent
//! in it is still to be compared, and no line of it waits for a checkpoint.
//!
//! The hole is durable before its space is used again. A line that is to be zero, and is zero already, need not be flushed: a
//! crash that brought the old bytes back would show them there.
//!
//! A hole has no blocks. A checkpoint that finds no room for it on a full disk fails, and is tried again: the log keeps what was
//! acknowledged, and operations are refused before their first store when it has no room left.
#![allow(unsafe_code)]

use std::sync::atomic::Ordering;

use super::RedoLog;
use crate::mapping::PAGE;
use crate::{DiskFile, Error, racy};

impl RedoLog {
    /// Gives `len` bytes at `offset`, whole pages that hold nothing and that no thread uses meanwhile, back to the file
    /// system. `false`: the file system cannot do that, or the log may still need the range; a checkpoint helps.
    ///
    /// Durable when it returns.
    ///
    /// # Errors
    /// [`Error::Poisoned`], also if the hole cannot be made durable; [`Error::DiskFull`], [`Error::Io`]: the range holds
    /// something else then.
    pub(crate) fn punch(&self, offset: u64, len: u64) -> Result<bool, Error> {
        let needs = self.frees.freed(offset, len);
        let Some(_overwriting) = self.overwrite((offset, offset + len), needs)? else {
            return Ok(false);
        };
        let failed = self.pool.failed();
        let punched = self.pool.punch("pool.hole_punch", offset, len);
        // ORDER: the hole is durable before its space is used again: a line that is left out because it is zero
        // must be zero after a crash. One that was not made may be there in part.
        if let Err(error) = self.pool.sync_since("pool.hole_sync", failed) {
            let mut state = self.lock();
            self.poison(&mut state, format!("pool.hole_sync: {error}"));
            self.check(&state)?;
        }
        let io = |error| Error::io("punch a hole into", &self.pool_path, error);
        self.show(offset, offset + len).map_err(io)?;
        let is_hole = punched.map_err(io)?;
        if is_hole && self.pool_is_simulated() {
            self.clear(offset, len);
        }
        if !is_hole {
            self.has_no_holes.store(true, Ordering::Relaxed);
        }
        Ok(is_hole)
    }

    /// Whether the file system may have holes: it has not said that it has none.
    pub(crate) fn can_punch(&self) -> bool {
        !self.has_no_holes.load(Ordering::Relaxed)
    }

    /// Fills a range of a mapping that is a copy.
    fn clear(&self, offset: u64, len: u64) {
        const ZEROES: [u8; PAGE as usize] = [0; PAGE as usize];
        if !self.mapping.holds(offset, len) {
            return;
        }
        for page in (offset..offset + len).step_by(PAGE as usize) {
            let count = (offset + len - page).min(PAGE) as usize;
            // SAFETY: the range is mapped, was checked above; it is the region's.
            unsafe { racy::write(ZEROES.as_ptr(), self.mapping.base().at(page), count) };
        }
    }
}
