//! The threads behind a log: one checkpoints, one calls `fdatasync` at intervals.

use std::io;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use super::generation::PIECE;
use super::{RedoLog, State};
use crate::SyncPolicy;

/// How long the checkpointer waits after a failure before it tries again.
const RETRY: Duration = Duration::from_millis(100);

/// Threads that run until they are stopped.
#[derive(Default)]
pub(crate) struct Threads {
    handles: Vec<JoinHandle<()>>,
}

impl Threads {
    /// Starts what the log wants.
    pub(crate) fn start(log: &Arc<RedoLog>) -> io::Result<Threads> {
        let mut threads = Threads::default();
        log.check_fill(&mut log.lock());
        if log.background {
            let worker = log.clone();
            let checkpointer = Builder::new()
                .name("tembo-checkpoint".into())
                .spawn(move || worker.run_checkpoints());
            threads.handles.push(checkpointer?);
            if let SyncPolicy::Interval(interval) = log.policy {
                let worker = log.clone();
                let syncer = Builder::new()
                    .name("tembo-sync".into())
                    .spawn(move || worker.run_syncs(interval));
                match syncer {
                    Ok(handle) => threads.handles.push(handle),
                    Err(error) => {
                        threads.stop(log);
                        return Err(error);
                    }
                }
            }
        }
        Ok(threads)
    }

    /// Stops all, waiting for a step that is under way.
    pub(crate) fn stop(&mut self, log: &RedoLog) {
        let mut state = log.lock();
        state.stop = true;
        log.wake.notify_all();
        log.notify(&state);
        drop(state);
        for handle in self.handles.drain(..) {
            // A thread that panicked has nothing more to say.
            let _ = handle.join();
        }
    }
}

impl RedoLog {
    fn run_checkpoints(&self) {
        let mut state = self.lock();
        while !state.stop {
            if !state.want_checkpoint {
                if let Some(blank) = state.blank {
                    state = self.zero_blank(state, blank);
                    continue;
                }
                state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            // Cleared first: what is asked for from now on is not served by the checkpoint that begins.
            state.want_checkpoint = false;
            drop(state);
            let result = self.checkpoint();
            state = self.lock();
            if result.is_err() && !state.stop {
                let waited = self.wake.wait_timeout(state, RETRY);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
                // Room is still wanted, unless nothing can be done any more.
                state.want_checkpoint = state.poison.is_none();
            }
        }
    }

    /// Writes some zeroes into a ring that is new, ahead of its groups: blocks that are in use
    /// already make an `fdatasync` cheaper, and opening does not wait for them.
    fn zero_blank<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        blank: u64,
    ) -> MutexGuard<'s, State> {
        if state.writing {
            return self.wait(state);
        }
        let from = blank.max(state.written.position);
        let to = self.ring.capacity.min(from + PIECE as u64);
        if from >= to || state.poison.is_some() {
            state.blank = None;
            return state;
        }
        state.writing = true;
        drop(state);
        let result = self.ring.write("log.zero_blank", &vec![0; (to - from) as usize], from);
        let mut state = self.lock();
        state.writing = false;
        // There were no groups in the way of a failure; the next write of one meets it again.
        state.blank = result.is_ok().then_some(to);
        self.notify(&state);
        state
    }

    fn run_syncs(&self, interval: Duration) {
        let mut state = self.lock();
        while !state.stop {
            let waited = self.wake.wait_timeout(state, interval);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if state.stop || state.poison.is_some() || state.durable == state.end {
                continue;
            }
            drop(state);
            // A failure poisons, and the next sync reports it.
            let _ = self.make_durable("log.sync_interval");
            state = self.lock();
        }
    }
}
