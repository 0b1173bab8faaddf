//! Writing the tail and waiting for the disk: what a sync does.

use std::mem;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use super::group::Place;
use super::second_sync::sync_extents;
use super::{RedoLog, State};
use crate::format::BLOCK;
use crate::{Error, SyncPolicy};

/// A tail of more bytes is not written as blocks: the disk takes in the first pieces of it while others are copied, and the
/// checkpoint that reads it finds it in the system's memory.
const BLOCKS_MAX: usize = 128 << 10;

/// As much where memory is short, and the disk has enough to read.
const BLOCKS_MAX_SHORT: usize = 16 << 10;

impl RedoLog {
    /// All groups appended before the call are as durable as the policy promises. Threads that
    /// come together share one write and one `fdatasync`, or one call that does both; without new groups nothing is done.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        match self.policy {
            SyncPolicy::Always => {
                // ORDER: the groups are durable before the caller acknowledges anything of them.
                self.make_durable("log.sync")
            }
            SyncPolicy::Interval(_) | SyncPolicy::Os => self.write_all_out(),
        }
    }

    /// All groups appended before the call survive the process.
    pub(crate) fn write_all_out(&self) -> Result<(), Error> {
        let mut state = self.lock();
        let target = state.end.sequence;
        loop {
            self.check(&state)?;
            if state.written.sequence >= target {
                return Ok(());
            }
            if !state.may_write() {
                state = self.wait(state);
                continue;
            }
            let (unlocked, result) = self.write_out(state);
            result?;
            state = unlocked;
        }
    }

    /// All groups appended before the call are on the disk. `step` names the `fdatasync`.
    pub(super) fn make_durable(&self, step: &'static str) -> Result<(), Error> {
        let mut state = self.lock();
        let target = state.end.sequence;
        loop {
            self.check(&state)?;
            if state.durable.sequence >= target {
                return Ok(());
            }
            let result;
            (state, result) = if self.may_write_durably(&state) {
                self.write_durably(step, state)
            } else if state.written.sequence >= target && !state.under_way.syncing {
                (self.sync_written(step, state), Ok(()))
            } else if state.written.sequence < target && state.may_write() {
                self.write_out(state)
            } else {
                (self.wait(state), Ok(()))
            };
            result?;
        }
    }

    /// Whether the tail can be written and made durable in one: then all before it must be durable already.
    fn may_write_durably(&self, state: &State) -> bool {
        let max = if self.mapping.reads_alone() { BLOCKS_MAX_SHORT } else { BLOCKS_MAX };
        self.policy == SyncPolicy::Always
            && state.tail.len() <= max
            && state.may_write()
            && !state.under_way.syncing
            && state.written == state.durable
            && self.ring.takes_blocks(state.written.position, state.tail.len())
    }

    /// Syncs what is written. No other thread does.
    fn sync_written<'s>(
        &'s self,
        step: &'static str,
        mut state: MutexGuard<'s, State>,
    ) -> MutexGuard<'s, State> {
        state.under_way.syncing = true;
        let (written, durable) = (state.written, state.durable);
        let (claim, extents) = state.beside.begin_sync(durable.sequence - 1);
        drop(state);
        // A sync of the header may have had the failure that was meant for these groups.
        let sync_log = || self.ring.file.sync_since(step, 0).map_err(|e| format!("{step}: {e}"));
        let (log, pool) = self.with_extents(extents, sync_log);
        // Behind the sync: a reader of the count may rely on it.
        self.totals.log_syncs.fetch_add(1, Ordering::Relaxed);
        let mut state = self.lock();
        state.under_way.syncing = false;
        match log.and(pool) {
            Ok(()) => self.is_durable(&mut state, written, claim),
            Err(cause) => self.poison(&mut state, cause),
        }
        self.notify(&state);
        state
    }

    /// Writes the tail as [blocks](super::ring::Ring::write_durably), of which `step` names the sync. Where the disk is full, see
    /// [`write_out`](RedoLog::write_out).
    fn write_durably<'s>(
        &'s self,
        step: &'static str,
        mut state: MutexGuard<'s, State>,
    ) -> (MutexGuard<'s, State>, Result<(), Error>) {
        let tail = self.begin_write(&mut state);
        let zeroes_end = tail.to.position.next_multiple_of(BLOCK);
        debug_assert!(zeroes_end - state.start <= self.ring.capacity(), "zeroes over groups");
        state.under_way.syncing = true;
        let (_, extents) = state.beside.begin_sync(tail.from.sequence - 1);
        drop(state);
        let unnamed = self.sync_unnamed(&tail);
        let (log, pool) = self.with_extents(extents, || {
            unnamed?;
            self.with_room(|| {
                let written = self.ring.write_durably(
                    "log.write_blocks",
                    step,
                    &tail.bytes,
                    tail.from.position,
                );
                written.map_err(|error| Error::io("write", &self.path, error))
            })
        });
        self.totals.log_syncs.fetch_add(1, Ordering::Relaxed);
        let mut state = self.lock();
        state.under_way.syncing = false;
        let (through, claim) = (tail.to, tail.claim);
        let result = self.end_write(&mut state, tail, log);
        match pool {
            Ok(()) if result.is_ok() => self.is_durable(&mut state, through, claim),
            Ok(()) => {}
            Err(cause) => self.poison(&mut state, cause),
        }
        self.notify(&state);
        (state, result)
    }

    /// All groups before `through` are durable, the last of which calls those through `claim` durable.
    fn is_durable(&self, state: &mut State, through: Place, claim: u64) {
        state.durable = through;
        state.beside.end_sync(through.sequence - 1, claim);
        self.frees.vouched(state.beside.vouched() + 1);
    }

    /// One round: the log, by `log`, and the pool file where there are `extents`, with the number of its syncs that had
    /// failed when the first of them was written.
    ///
    /// ORDER: both are durable before the groups are called so. Which of them is first is all the same: replay compares
    /// the checksums of extents.
    fn with_extents<R>(
        &self,
        extents: Option<u64>,
        log: impl FnOnce() -> R,
    ) -> (R, Result<(), String>) {
        let Some(failed) = extents else {
            return (log(), Ok(()));
        };
        // The sync asks for all of it.
        self.behind().take();
        let asked = self.background.then(|| self.second_sync.ask(&self.pool, failed)).flatten();
        let log = log();
        let pool = match asked {
            Some(answer) => answer.wait(),
            None => sync_extents(&self.pool, failed),
        };
        (log, pool.map_err(|e| format!("pool.extent_sync: {e}")))
    }

    /// Writes the tail. No other thread is writing [in its way](State::may_write). A disk that is full in spite of the [ballast](super::ballast) leaves the
    /// tail for another try; any other failure poisons.
    pub(super) fn write_out<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
    ) -> (MutexGuard<'s, State>, Result<(), Error>) {
        let tail = self.begin_write(&mut state);
        drop(state);
        let result = self.sync_unnamed(&tail).and_then(|()| {
            self.with_room(|| {
                let written = self.ring.write("log.write", &tail.bytes, tail.from.position);
                written.map_err(|error| Error::io("write", &self.path, error))
            })
        });
        let mut state = self.lock();
        let result = self.end_write(&mut state, tail, result);
        self.notify(&state);
        (state, result)
    }

    /// Takes the tail; threads append to another one from now on.
    fn begin_write(&self, state: &mut State) -> Tail {
        state.under_way.writing = true;
        let spare = mem::take(&mut state.spare);
        let bytes = mem::replace(&mut state.tail, spare);
        let (claim, unnamed) = (state.beside.claimed(), self.frees.take_unnamed());
        Tail { bytes, from: state.written, to: state.end, claim, unnamed }
    }

    /// Syncs what was given up beside the log, if there is something.
    ///
    /// ORDER: it is on the disk before the groups are in the log: they may be of threads that have left it out, since it was there.
    fn sync_unnamed(&self, tail: &Tail) -> Result<(), Error> {
        let Some(failed) = tail.unnamed else { return Ok(()) };
        // Also where the disk is full: what a sync has failed for may be lost, and is not tried again.
        let failure = |source| Error::Io { action: "sync", path: self.pool_path.clone(), source };
        sync_extents(&self.pool, failed).map_err(failure)
    }

    /// The tail is written, or is not, as `result` says.
    fn end_write(
        &self,
        state: &mut State,
        tail: Tail,
        result: Result<(), Error>,
    ) -> Result<(), Error> {
        let Tail { mut bytes, to, claim, .. } = tail;
        self.totals.log_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        state.under_way.writing = false;
        match result {
            Ok(()) => {
                state.written = to;
                state.beside.written(claim);
                bytes.clear();
                state.spare = bytes;
                Ok(())
            }
            Err(full @ Error::DiskFull { .. }) => {
                state.log_full = true;
                bytes.append(&mut state.tail);
                state.tail = bytes;
                Err(full)
            }
            Err(error) => {
                self.poison(state, format!("log.write: {error}"));
                self.check(state)
            }
        }
    }
}

/// Groups that are being written.
struct Tail {
    bytes: Vec<u8>,
    from: Place,
    to: Place,
    /// What the last of them calls durable.
    claim: u64,
    /// What they may rely on and no group names: see [`FreeMarks::given_up`](crate::frees::FreeMarks::given_up).
    unnamed: Option<u64>,
}
