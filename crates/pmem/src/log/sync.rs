//! Writing the tail and waiting for the disk: what a sync does.

use std::mem;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use super::second_sync::sync_extents;
use super::{RedoLog, State};
use crate::{Error, SyncPolicy};

impl RedoLog {
    /// All groups appended before the call are as durable as the policy promises. Threads that
    /// come together share one write and one `fdatasync`; without new groups nothing is done.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        match self.policy {
            // ORDER: the groups are durable before the caller acknowledges anything of them.
            SyncPolicy::Always => self.make_durable("log.sync"),
            SyncPolicy::Interval(_) | SyncPolicy::Os => self.make_written().map(drop),
        }
    }

    /// All groups appended before the call are in the file, if not on the disk.
    fn make_written(&self) -> Result<MutexGuard<'_, State>, Error> {
        let mut state = self.lock();
        let target = state.end.sequence;
        loop {
            self.check(&state)?;
            if state.written.sequence >= target {
                return Ok(state);
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
        let mut state = self.make_written()?;
        let target = state.written.sequence;
        loop {
            self.check(&state)?;
            if state.durable.sequence >= target {
                return Ok(());
            }
            if state.under_way.syncing {
                state = self.wait(state);
                continue;
            }
            state.under_way.syncing = true;
            let (written, durable) = (state.written, state.durable);
            let (claim, extents) = state.beside.begin_sync(durable.sequence - 1);
            drop(state);
            let result = self.sync_files(step, extents);
            // Behind the sync: a reader of the count may rely on it.
            self.totals.log_syncs.fetch_add(1, Ordering::Relaxed);
            state = self.lock();
            state.under_way.syncing = false;
            match result {
                Ok(()) => {
                    state.durable = written;
                    state.beside.end_sync(written.sequence - 1, claim);
                    self.frees.vouched(state.beside.vouched() + 1);
                }
                Err(cause) => self.poison(&mut state, cause),
            }
            self.notify(&state);
        }
    }

    /// One round: the log, and the pool file where there are `extents`, with the number of its syncs that had failed
    /// when the first of them was written.
    ///
    /// ORDER: both are durable before the groups are called so. Which of them is first is all the same: replay compares
    /// the checksums of extents.
    fn sync_files(&self, step: &'static str, extents: Option<u64>) -> Result<(), String> {
        // A sync of the header may have had the failure that was meant for these groups.
        let sync_log = || self.ring.file.sync_since(step, 0).map_err(|e| format!("{step}: {e}"));
        let Some(failed) = extents else {
            return sync_log();
        };
        let asked = self.background.then(|| self.second_sync.ask(&self.pool, failed)).flatten();
        let log = sync_log();
        let pool = match asked {
            Some(answer) => answer.wait(),
            None => sync_extents(&self.pool, failed),
        };
        log.and(pool.map_err(|e| format!("pool.extent_sync: {e}")))
    }

    /// Writes the tail. No other thread is writing [in its way](State::may_write). A disk that is full in spite of the [ballast](super::ballast) leaves the
    /// tail for another try; any other failure poisons.
    pub(super) fn write_out<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
    ) -> (MutexGuard<'s, State>, Result<(), Error>) {
        state.under_way.writing = true;
        let spare = mem::take(&mut state.spare);
        let mut bytes = mem::replace(&mut state.tail, spare);
        let (from, to) = (state.written, state.end);
        let claim = state.beside.claimed();
        drop(state);
        let result = self.with_room(|| {
            let written = self.ring.write("log.write", &bytes, from.position);
            written.map_err(|error| Error::io("write", &self.path, error))
        });
        self.totals.log_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let mut state = self.lock();
        state.under_way.writing = false;
        let result = match result {
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
                self.poison(&mut state, format!("log.write: {error}"));
                self.check(&state)
            }
        };
        self.notify(&state);
        (state, result)
    }
}
