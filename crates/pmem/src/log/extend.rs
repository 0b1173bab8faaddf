//! A log that grows with its use.
//!
//! A new ring is small. Before its groups would go round its end for the first time, it is extended: its file gets more
//! room, and the header a larger capacity. Until then no position is as large as the capacity, so that each lies where
//! it lies in a larger ring, and a crash between the two headers loses nothing: both say the same of every group. From
//! the first time that groups go round, the ring has its size for the rest of the generation.
//!
//! Blocks that are in use already make an `fdatasync` cheaper: the thread of the log writes zeroes, some way before the
//! groups come there, and no farther, so that a store that writes little pays little.

use std::sync::MutexGuard;

use super::ring::{PIECE, limit};
use super::{Checkpoint, RedoLog, State};
use crate::format::{BLOCK, LOG_HEADER_SIZE};
use crate::{DiskFile, Error};

/// Bytes of zeroes before the groups: as many as half of what was written, within these limits.
const ZEROES_MIN: u64 = 256 << 10;
const ZEROES_MAX: u64 = 8 << 20;

/// How an extension ended that was not made.
enum Refused {
    /// There is no room, or it cannot be written: the ring goes round instead.
    Room,
    /// What is on the disk is unknown.
    Lost(String),
}

impl RedoLog {
    /// Whether the ring has room for `wanted` bytes beside what is used, and `held` for other threads.
    pub(super) fn fits(&self, state: &State, held: u64, wanted: u64) -> bool {
        // A ring that will be extended does not go round before.
        let start = if state.can_extend { 0 } else { state.start };
        // Zeroes are written behind the groups, up to the end of a block.
        state.end.position - start + held + wanted + BLOCK <= self.ring.capacity()
    }

    /// Makes the ring twice as large, and as large as waiting threads want it. Where that is more than it may have, or
    /// cannot be, it goes round from now on.
    pub(super) fn extend(&self) {
        let mut work = self.lock_checkpoint();
        let mut state = self.lock();
        state.want_extension = false;
        if !state.can_extend || state.poison.is_some() {
            return;
        }
        let (from, to) = (self.ring.capacity(), self.extended(&state));
        drop(state);
        let done = if to > from { self.extend_to(&mut work, from, to) } else { Err(Refused::Room) };
        if done.is_ok() {
            // Where it cannot be, the log goes without.
            let _ = self.fill_ballast();
        }
        let mut state = self.lock();
        match done {
            Ok(()) => {
                state.can_extend = to < self.log_size;
                if self.background {
                    state.blank = state.blank.or(Some(from));
                    // The next append may be long in coming.
                    self.check_extent(&mut state);
                }
            }
            Err(Refused::Room) => state.can_extend = false,
            Err(Refused::Lost(cause)) => self.poison(&mut state, cause),
        }
        self.notify(&state);
    }

    /// Bytes of the ring after the next extension.
    fn extended(&self, state: &State) -> u64 {
        let pool = self.pool.len().unwrap_or_default();
        let doubled =
            self.ring.capacity().saturating_mul(2).min(limit(self.log_size, pool, self.memory));
        doubled.max(state.wanted_capacity).next_multiple_of(LOG_HEADER_SIZE).min(self.log_size)
    }

    fn extend_to(&self, work: &mut Checkpoint, from: u64, to: u64) -> Result<(), Refused> {
        let _one = self.lock_length();
        let file = &self.ring.file;
        let room = file.allocate("log.extend_allocate", LOG_HEADER_SIZE + from, to - from);
        room.map_err(|_| Refused::Room)?;
        if !self.background {
            // No thread would write them later.
            self.write_zeroes("log.extend_zeroes", from, to).map_err(|_| Refused::Room)?;
        }
        // ORDER: the file has its new length before the header says that it has.
        let synced = file.sync("log.extend_sync");
        synced.map_err(|error| Refused::Lost(format!("log.extend_sync: {error}")))?;
        // ORDER: the header is durable before a group lies where only it would find it.
        let failed = file.failed();
        let updated = work.header.update("log.extend_write", "log.extend_header_sync", |header| {
            header.capacity.set(to);
        });
        updated.map_err(|error| match error {
            // It was not written, so that no sync is in doubt: the older header counts, and the smaller ring.
            Error::DiskFull { .. } if file.failed() == failed => Refused::Room,
            error => Refused::Lost(error.to_string()),
        })?;
        self.ring.extend(to);
        Ok(())
    }

    fn write_zeroes(&self, step: &'static str, from: u64, to: u64) -> std::io::Result<()> {
        let zeroes = vec![0; PIECE];
        (from..to).step_by(PIECE).try_for_each(|at| {
            let piece = (to - at).min(PIECE as u64);
            self.ring.file.write_at(step, &zeroes[..piece as usize], LOG_HEADER_SIZE + at)
        })
    }

    /// Wakes the thread of the log when the ring is to be extended, or zeroes are to be written.
    pub(super) fn check_extent(&self, state: &mut State) {
        if state.can_extend && state.end.position * 2 > self.ring.capacity() {
            self.want_extension(state);
        }
        if self.zeroes_wanted(state, 2).is_some() && !state.want_zeroes {
            state.want_zeroes = true;
            self.wake.notify_all();
        }
    }

    /// Wakes the thread of the log to extend the ring.
    pub(super) fn want_extension(&self, state: &mut State) {
        if !state.want_extension {
            state.want_extension = true;
            self.wake.notify_all();
        }
    }

    /// Where zeroes are missing, if fewer stand before the groups than one part in `part` of what should.
    fn zeroes_wanted(&self, state: &State, part: u64) -> Option<(u64, u64)> {
        let blank = state.blank?;
        let end = state.end.position;
        let zeroes = (end / 2).clamp(ZEROES_MIN, ZEROES_MAX);
        let capacity = self.ring.capacity();
        let is_short = blank < capacity.min(end + zeroes / part);
        // The block that the groups end in is written whole with the next ones.
        is_short.then(|| (blank.max(end.next_multiple_of(BLOCK)), capacity.min(end + zeroes)))
    }

    /// Writes some zeroes before the groups of a ring that is new. Groups are written meanwhile, but none where the zeroes go.
    pub(super) fn zero_blank<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
    ) -> MutexGuard<'s, State> {
        let Some((from, to)) = self.zeroes_wanted(&state, 1).filter(|_| state.poison.is_none())
        else {
            state.want_zeroes = false;
            return state;
        };
        let to = to.min(from + PIECE as u64);
        if from >= to {
            (state.blank, state.want_zeroes) = (None, false);
            return state;
        }
        state.under_way.zeroes = Some(from);
        drop(state);
        let (offset, len) = (self.ring.offset(from), to - from);
        let result = self.ring.file.write_at("log.zero_blank", &vec![0; len as usize], offset);
        // The groups that come there are not to find pages that the system has still to write.
        self.ring.file.begin_writing(offset, len);
        let mut state = self.lock();
        state.under_way.zeroes = None;
        // There were no groups in the way of a failure; the next write of one meets it again.
        let is_left = result.is_ok() && (to < self.ring.capacity() || state.can_extend);
        state.blank = is_left.then_some(to);
        self.notify(&state);
        state
    }
}
