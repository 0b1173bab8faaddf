//! Reserving room before an operation's first store: where back-pressure and errors belong.

use std::io;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use super::{RedoLog, State};
use crate::Error;
use crate::format::BLOCK;
use crate::notes::NoteBook;

/// Bytes of the log that a flushed line may cost: each line in a group of its own.
const LINE_COST: u64 = 192;
/// Bytes that an operation may cost beside its lines.
const BASE_COST: u64 = 256;
/// Lines noted and not fenced beyond which a reservation fences them.
const NOTED_MAX: usize = 4096;
/// Why a thread that ends is refused: what it flushes would be noted nowhere, and a sync would acknowledge what no group has.
const ENDING: &str = "this thread is ending, and what it changes would be lost: make its changes before its thread-local values are dropped";
/// An operation may have one part in this many of the ring.
const SHARE: u64 = 4;

fn cost(lines: u64) -> u64 {
    lines.saturating_mul(LINE_COST).saturating_add(BASE_COST)
}

fn cost_noted(noted: usize) -> u64 {
    if noted == 0 { 0 } else { cost(noted as u64) }
}

impl RedoLog {
    /// Makes room for an operation of `lines` lines beside what the thread has noted already.
    pub(crate) fn reserve(&self, book: &NoteBook, lines: u64) -> Result<(), Error> {
        let (mut noted, depth, is_kept) =
            book.with(|note| (note.noted(), note.depth, note.is_kept()));
        if !is_kept {
            return Err(Error::Unsupported { path: self.pool_path.clone(), what: ENDING });
        }
        let mut may_extend = true;
        let may_fence = depth == 0;
        if noted > NOTED_MAX && may_fence {
            self.append(book);
            noted = 0;
        }
        let mut state = self.lock();
        if may_fence {
            state = self.wait_for_memory(state, book);
            if !self.background && self.is_half_full(&state) {
                state = self.make_room(state);
            }
        }
        loop {
            self.check(&state)?;
            if !self.grants(&mut state, lines, &mut may_extend)? {
                state = self.make_room(state);
                continue;
            }
            if state.log_full {
                state = self.find_room(state)?;
                continue;
            }
            let held = book.with(|note| note.held);
            let wanted =
                if may_fence { cost_noted(noted) + cost(lines) } else { held + cost(lines) };
            let others = state.held.saturating_sub(held);
            if self.fits(&state, others, wanted) {
                state.held = others + wanted;
                state.sections += 1;
                book.with(|note| note.begin_section(wanted));
                return Ok(());
            }
            if noted > 0 && may_fence {
                // A thread that waits must not hold what others wait for.
                drop(state);
                self.append(book);
                noted = 0;
                state = self.lock();
                continue;
            }
            let failures = state.failures;
            state = self.make_room(state);
            if state.failures != failures {
                return Err(self.failure(&state));
            }
        }
    }

    /// An operation has ended: what it noted and has not fenced stays paid for, the rest is free.
    pub(crate) fn end_section(&self, book: &NoteBook) {
        let released = book.with(|note| note.end_section(cost_noted(note.noted())));
        let mut state = self.lock();
        state.sections = state.sections.saturating_sub(1);
        state.held = state.held.saturating_sub(released);
        if released > 0 || state.sections == 0 {
            self.notify(&state);
        }
    }

    /// Whether the ring is large enough for an operation of so many lines, or has to be extended for it. An extension that found no
    /// room is tried once more, as long as `may_extend`.
    fn grants(&self, state: &mut State, lines: u64, may_extend: &mut bool) -> Result<bool, Error> {
        let lines_max = |capacity: u64| (capacity / SHARE).saturating_sub(BASE_COST) / LINE_COST;
        if lines <= lines_max(self.ring.capacity()) {
            return Ok(true);
        }
        let lines_max = lines_max(self.log_size);
        if lines > lines_max {
            return Err(Error::TooLarge { lines, lines_max });
        }
        // It was to be extended, and there was no room. What is there may do.
        if !state.can_extend && cost(lines) <= self.ring.capacity() / 2 {
            return Ok(true);
        }
        if !(state.can_extend || std::mem::take(may_extend) && self.can_extend_again(state)) {
            return Err(Error::DiskFull { path: self.path.clone() });
        }
        state.can_extend = true;
        state.wanted_capacity = state.wanted_capacity.max(cost(lines).saturating_mul(SHARE));
        Ok(false)
    }

    /// Whether a ring that could not be extended can be by now: it has not gone round, nor will it by what threads have reserved.
    fn can_extend_again(&self, state: &State) -> bool {
        let capacity = self.ring.capacity();
        capacity < self.log_size && state.end.position + state.held + BLOCK <= capacity
    }

    /// Lets the ring be extended, or a checkpoint free room, and waits until something has changed.
    pub(super) fn make_room<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
    ) -> MutexGuard<'s, State> {
        let can_extend = state.can_extend;
        if self.background && !state.stop {
            match can_extend {
                true => self.want_extension(&mut state),
                false => self.want_checkpoint(&mut state),
            }
            return self.wait(state);
        }
        drop(state);
        if can_extend {
            self.extend();
        } else {
            // A failure is counted in the state, and the caller looks there.
            let _ = self.checkpoint();
        }
        self.lock()
    }

    fn is_half_full(&self, state: &State) -> bool {
        let start = if state.can_extend { 0 } else { state.start };
        (state.end.position - start) * 2 > self.ring.capacity()
    }

    /// Wakes the thread of the log when more than half of the ring is in use, to extend it or to checkpoint, and when
    /// memory is short.
    pub(super) fn check_fill(&self, state: &mut State) {
        self.check_extent(state);
        self.check_memory(state);
        if !state.can_extend && self.is_half_full(state) {
            self.want_checkpoint(state);
        }
    }

    /// A checkpoint has ended: what was asked for meanwhile is not wanted any more if it has made the room, or given back the
    /// memory, for which it was. A thread that waits asks again, once it is notified.
    pub(super) fn forget_wanted(&self, state: &mut State) {
        let is_filled = !state.can_extend && self.is_half_full(state);
        state.want_checkpoint &= is_filled || self.is_worth_memory(state);
    }

    /// Wakes the checkpointer.
    pub(super) fn want_checkpoint(&self, state: &mut State) {
        if !state.want_checkpoint {
            state.want_checkpoint = true;
            self.wake.notify_all();
        }
    }

    /// The disk was full: what is left to be written is, and the ballast is there again; or the disk is still full.
    fn find_room<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
    ) -> Result<MutexGuard<'s, State>, Error> {
        if !state.may_write() {
            return Ok(self.wait(state));
        }
        if !state.tail.is_empty() {
            let (unlocked, result) = self.write_out(state);
            result?;
            state = unlocked;
        }
        let given_up = state.given_up;
        drop(state);
        if !self.fill_ballast() {
            return Err(Error::DiskFull { path: self.path.clone() });
        }
        let mut state = self.lock();
        // Another write may have given it up meanwhile.
        state.log_full &= state.given_up != given_up;
        Ok(state)
    }

    fn failure(&self, state: &State) -> Error {
        if let Err(poisoned) = self.check(state) {
            return poisoned;
        }
        match &state.failure {
            Some(failure) if !failure.full => Error::Io {
                action: "checkpoint",
                path: self.pool_path.clone(),
                source: io::Error::other(failure.text.clone()),
            },
            _ => Error::DiskFull { path: self.pool_path.clone() },
        }
    }

    /// Whether private pages are never given back.
    pub(crate) fn keeps_pages(&self) -> bool {
        self.private_max == u64::MAX
    }

    /// Whether nothing more is promised.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.poisoned.load(Ordering::Acquire)
    }
}
