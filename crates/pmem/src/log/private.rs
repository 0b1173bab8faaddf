//! Private pages: how many there may be, and how they are given back.
//!
//! A page that was stored to is memory of the process until it is in the pool file and its copy is dropped. How many there
//! may be follows from what the process may have, and from what else it has: side-cars, inner nodes, clients. A
//! checkpoint begins somewhat before there are too many; where stores come faster than it goes, an operation waits for it
//! before its first store.

use std::ops::Range;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use super::group::Place;
use super::{RedoLog, State};
use crate::mapping::PAGE;
use crate::memory::memory_used;
use crate::notes::NoteBook;

/// Pages that are given back while all threads wait.
const PAGES_AT_ONCE: u64 = 512;
/// How long to wait for a moment without sections, and how often before giving up.
const PAUSE: Duration = Duration::from_millis(1);
const PATIENCE: u32 = 200;
/// As much in the middle of a checkpoint, for which threads may wait that have a section.
const PATIENCE_BETWEEN: u32 = 5;

/// A checkpoint begins when all but one part in this many of the limit is taken.
const EARLY: u64 = 8;
/// What it leaves of the limit, at most: one part in this many.
const KEPT: u64 = 4;
/// So far, or by one part in so many, the limit is exceeded before operations wait.
const EXCESS_MIN: u64 = 1 << 20;
const EXCESS: u64 = 16;
/// Private pages have one part in this many of what they may have, whatever else the process has.
const LEAST: u64 = 8;
/// Bytes of the log after which the memory of the process is looked at again.
const MEASURE_AFTER: u64 = 4 << 20;
/// A checkpoint for want of memory takes in as much of the log, in parts of its size, and of the limit. Each line in it may
/// be a page.
const LOG_SHARE: u64 = 8;
const LIMIT_SHARE: u64 = 64;
const ENOUGH_MIN: u64 = 64 << 10;
/// Bytes of the log that are checkpointed together, and what part of the memory they may be.
const BATCH_MAX: u64 = 64 << 20;
const BATCH_MIN: u64 = 1 << 20;
const BATCH_SHARE: u64 = 4;
/// Sorting the lines of a part of the log takes one byte for each so many of it.
const SORTED: u64 = 3;

impl RedoLog {
    /// Looks what the process has, and so how many private pages there may be. Of what it has, `sorting` bytes are lines that
    /// are sorted: they are always counted as many as there may be.
    pub(super) fn measure(&self, sorting: u64) {
        if self.keeps_pages() {
            return;
        }
        let used = self.memory.and_then(|memory| Some((memory, memory_used()?)));
        let mut state = self.lock();
        state.measured = state.end.position;
        state.want_measure = false;
        let Some((memory, used)) = used else {
            return;
        };
        let beside = used.saturating_sub(state.pages.count() * PAGE + sorting);
        let least = self.private_max / LEAST;
        let sorted = self.batch() / SORTED;
        state.private_limit = memory.saturating_sub(beside + sorted).clamp(least, self.private_max);
    }

    /// Bytes of the log that are checkpointed together: where memory is short, fewer, because their lines are sorted in it.
    pub(super) fn batch(&self) -> u64 {
        self.memory.map_or(BATCH_MAX, |memory| (memory / BATCH_SHARE).clamp(BATCH_MIN, BATCH_MAX))
    }

    /// Wakes the thread of the log when memory is to be looked at, or short; in this case only if there is enough in
    /// the log for a checkpoint to be worth its syncs.
    pub(super) fn check_memory(&self, state: &mut State) {
        if self.keeps_pages() {
            return;
        }
        if state.is_idle && self.mapping.reads_alone() {
            state.is_idle = false;
            self.wake.notify_all();
        }
        if state.end.position - state.measured >= MEASURE_AFTER && !state.want_measure {
            state.want_measure = true;
            self.wake.notify_all();
        }
        if self.is_worth_memory(state) {
            self.want_checkpoint(state);
        }
    }

    /// Whether a checkpoint is wanted because memory is short.
    pub(super) fn is_worth_memory(&self, state: &State) -> bool {
        let enough =
            (self.log_size / LOG_SHARE).min((state.private_limit / LIMIT_SHARE).max(ENOUGH_MIN));
        let used = state.end.position - state.start;
        !self.keeps_pages() && self.is_short(state) && used >= enough
    }

    /// Whether private pages come near to what they may take.
    pub(super) fn is_short(&self, state: &State) -> bool {
        state.pages.count() * PAGE > state.private_limit - state.private_limit / EARLY
    }

    /// Waits, where private pages take more than they may, for one checkpoint: before the first store of an operation.
    pub(super) fn wait_for_memory<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        book: &NoteBook,
    ) -> MutexGuard<'s, State> {
        let is_over = |state: &State| {
            let excess = EXCESS_MIN.max(state.private_limit / EXCESS);
            !self.keeps_pages()
                && state.pages.count() * PAGE > state.private_limit.saturating_add(excess)
        };
        if !self.background || !is_over(&state) {
            return state;
        }
        // A thread that waits must not keep pages, or room that others wait for.
        drop(state);
        self.append(book);
        state = self.lock();
        let ended = state.checkpoints_ended;
        while is_over(&state)
            && state.checkpoints_ended == ended
            && state.poison.is_none()
            && !state.stop
        {
            self.want_checkpoint(&mut state);
            state = self.wait(state);
        }
        state
    }

    /// Drops copies of the pages of a range, of which all lines of groups before `through` are on the disk, as far as threads leave
    /// a moment for it soon, and as there are too many; where it has come to.
    pub(super) fn give_written_back(&self, range: Range<u64>, through: Place) -> u64 {
        let (mut at, mut patience) = (range.start, PATIENCE_BETWEEN);
        while at < range.end && !self.pool_is_simulated() {
            let mut state = self.lock();
            if state.pages.count() * PAGE <= state.private_limit / KEPT || state.stop {
                break;
            }
            if state.sections > 0 || state.held > 0 {
                if patience == 0 || !self.background {
                    break;
                }
                patience -= 1;
                drop(self.pause(state));
                continue;
            }
            let (runs, next) =
                state.pages.take_within(at..range.end, through.sequence, PAGES_AT_ONCE);
            self.give_back_runs(&runs);
            self.notify(&state);
            at = next;
        }
        at
    }

    fn give_back_runs(&self, runs: &[(u64, u64)]) {
        for (start, end) in runs {
            // A page that stays private is a page that takes memory, no more.
            let _ = self.mapping.give_back(*start, *end);
        }
    }

    /// Waits a little for something to change.
    fn pause<'s>(&'s self, mut state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        state.waiting += 1;
        let waited = self.changed.wait_timeout(state, PAUSE);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        state.waiting -= 1;
        state
    }

    /// Whether copies of pages are to be dropped when nothing is appended for a while: where memory is short they take the place of
    /// pages that are read.
    pub(super) fn has_pages_to_drop(&self, state: &State) -> bool {
        self.mapping.reads_alone()
            && !self.keeps_pages()
            && !self.pool_is_simulated()
            && state.poison.is_none()
            && state.pages.count() > 0
    }

    /// Brings all groups into the pool file, and drops all copies of pages.
    pub(super) fn rest(&self) {
        // A failure is counted, and the next checkpoint meets it again.
        if let Ok(through) = self.checkpoint_through() {
            self.give_pages_back(through, 0);
        }
    }

    /// Drops copies of pages that are in the pool file if there are too many, or were before the checkpoint.
    pub(super) fn give_excess_back(&self, through: Place, was_short: bool) {
        let kept = {
            let state = self.lock();
            (was_short || self.is_short(&state)).then_some(state.private_limit / KEPT)
        };
        if let Some(kept) = kept {
            self.give_pages_back(through, kept);
        }
    }

    /// Drops copies of pages that are in the pool file, some at a time, until so many bytes are left. Only
    /// when no thread is in a section: a page may hold stores that are not yet flushed only while one is.
    fn give_pages_back(&self, through: Place, kept: u64) {
        if self.pool_is_simulated() {
            return;
        }
        let mut patience = PATIENCE;
        while patience > 0 {
            let mut state = self.lock();
            if state.pages.count() * PAGE <= kept || state.stop {
                return;
            }
            if state.sections > 0 || state.held > 0 {
                if !self.background {
                    // This may be the very thread that they wait for.
                    return;
                }
                patience -= 1;
                drop(self.pause(state));
                continue;
            }
            let runs = state.pages.take_before(through.sequence, PAGES_AT_ONCE);
            if runs.is_empty() {
                return;
            }
            self.give_back_runs(&runs);
        }
    }
}
