//! The queue of transactions that are about to commit, and how a thread in it comes to lead.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::Thread;

use tembo_pmem::thread::lock;

use super::write_set::WriteSet;
use crate::read_set::ReadSet;
use crate::{Durability, Error};

/// Looks at its state before a thread goes to sleep: where a commit does not wait for a disk, about a hundred microseconds,
/// as a batch of some hundred changes takes. To sleep and be woken takes as long as the commit of twenty keys, and the
/// thread that leads pays for a part of it.
const LOOKS: usize = 400;
/// Where it may: a wait for a disk is longer than any number of looks.
const LOOKS_BEFORE_DISK: usize = 100;

const WAITING: u8 = 0;
const LEADING: u8 = 1;
const DONE: u8 = 2;

/// What is to be committed.
pub(crate) struct Job {
    pub(crate) writes: WriteSet,
    /// Of a serialisable transaction.
    pub(crate) reads: Option<ReadSet>,
    /// The version of its snapshot; the pin goes with it.
    pub(crate) since: u64,
    pub(crate) durability: Durability,
}

/// A job that a thread waits for.
pub(super) struct Pending {
    pub(super) job: Job,
    stage: AtomicU8,
    result: Mutex<Option<Result<u64, Error>>>,
    thread: Thread,
}

/// Transactions that wait to be committed.
#[derive(Default)]
pub(crate) struct CommitQueue {
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    jobs: Vec<Arc<Pending>>,
    /// A thread leads, or was asked to.
    is_led: bool,
}

impl CommitQueue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        lock(&self.waiting)
    }

    /// True: the caller leads, at once or after a while. False: its job is done. `syncs`: the thread that leads may wait for a
    /// disk.
    pub(super) fn join(&self, pending: &Arc<Pending>, syncs: bool) -> bool {
        let mut waiting = self.lock();
        waiting.jobs.push(pending.clone());
        let is_led = std::mem::replace(&mut waiting.is_led, true);
        drop(waiting);
        let looks = if syncs { LOOKS_BEFORE_DISK } else { LOOKS };
        !is_led || pending.wait(looks) == LEADING
    }

    /// All that waits, by the thread that leads.
    pub(super) fn take(&self) -> Batch<'_> {
        let jobs = std::mem::take(&mut self.lock().jobs);
        Batch { queue: self, jobs, leads: true }
    }

    /// The first that waits leads; if none does, the next to come.
    fn hand_over(&self) {
        let mut waiting = self.lock();
        match waiting.jobs.first() {
            Some(first) => first.notify(LEADING),
            None => waiting.is_led = false,
        }
    }

    /// How many wait.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().jobs.len()
    }
}

/// A batch that is being committed: whatever happens, another thread leads after it, and those that wait are
/// notified.
pub(super) struct Batch<'q> {
    queue: &'q CommitQueue,
    pub(super) jobs: Vec<Arc<Pending>>,
    leads: bool,
}

impl Batch<'_> {
    /// Another thread leads from here on.
    pub(super) fn hand_over(&mut self) {
        if std::mem::take(&mut self.leads) {
            self.queue.hand_over();
        }
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.hand_over();
        self.jobs.iter().for_each(|pending| pending.notify(DONE));
    }
}

impl Pending {
    pub(super) fn new(job: Job) -> Pending {
        let (stage, result) = (AtomicU8::new(WAITING), Mutex::new(None));
        Pending { job, stage, result, thread: std::thread::current() }
    }

    /// Waits until it is done, or has to lead.
    fn wait(&self, looks: usize) -> u8 {
        for round in 0.. {
            let stage = self.stage.load(Ordering::Acquire);
            if stage != WAITING {
                return stage;
            }
            if round < looks {
                // Where there are fewer processors than threads, the one that leads gets this one after some rounds.
                tembo_pmem::thread::wait(round);
            } else {
                tembo_pmem::thread::park();
            }
        }
        DONE
    }

    fn notify(&self, stage: u8) {
        self.stage.store(stage, Ordering::Release);
        self.thread.unpark();
    }

    fn result(&self) -> MutexGuard<'_, Option<Result<u64, Error>>> {
        lock(&self.result)
    }

    pub(super) fn set_result(&self, result: Result<u64, Error>) {
        *self.result() = Some(result);
    }

    pub(super) fn has_committed(&self) -> bool {
        matches!(*self.result(), Some(Ok(_)))
    }

    pub(super) fn take_result(&self) -> Result<u64, Error> {
        let lost = Error::Damaged { what: "what the commit of this transaction left half done" };
        self.result().take().unwrap_or(Err(lost))
    }
}
