//! The threads behind a log: one checkpoints, one calls `fdatasync` at intervals.

use std::io;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use super::{RedoLog, State};
use crate::SyncPolicy;

/// How long the checkpointer waits after a failure before it tries again.
const RETRY: Duration = Duration::from_millis(100);

/// When nothing was appended for so long, pages of which the process has copies are brought into the pool file.
const REST: Duration = Duration::from_secs(1);

/// Threads that run until they are stopped.
#[derive(Default)]
pub(crate) struct Threads {
    handles: Vec<JoinHandle<()>>,
}

impl Threads {
    /// Starts what the log wants.
    pub(crate) fn start(log: &Arc<RedoLog>) -> io::Result<Threads> {
        let mut threads = Threads::default();
        // Where it cannot be, the log goes without: most file systems do not need it.
        let _ = log.fill_ballast();
        log.measure(0);
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
        log.second_sync.stop();
    }
}

impl RedoLog {
    fn run_checkpoints(&self) {
        let mut state = self.lock();
        while !state.stop {
            if state.want_extension {
                drop(state);
                self.extend();
                state = self.lock();
                continue;
            }
            if std::mem::take(&mut state.want_sync) && state.poison.is_none() {
                drop(state);
                // A failure poisons, and the next sync reports it.
                let _ = self.make_durable("log.sync_extents");
                state = self.lock();
                continue;
            }
            if !state.want_checkpoint {
                if state.want_measure {
                    drop(state);
                    self.measure(0);
                    state = self.lock();
                    continue;
                }
                if state.want_zeroes {
                    state = self.zero_blank(state);
                    continue;
                }
                state = self.wait_or_rest(state);
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

    /// Waits until something is wanted, or nothing was appended for a while.
    fn wait_or_rest<'s>(&'s self, mut state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        if !self.has_pages_to_drop(&state) {
            state.is_idle = true;
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.is_idle = false;
            return state;
        }
        let end = state.end.position;
        let waited = self.wake.wait_timeout(state, REST);
        let (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        if !timeout.timed_out() || state.end.position != end || state.stop {
            return state;
        }
        drop(state);
        self.rest();
        self.lock()
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
