//! The queue of transactions that wait to commit, and how a thread in it becomes the leader.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::Thread;

use tembo_pmem::thread::lock;

use super::write_set::WriteSet;
use crate::read_set::ReadSet;
use crate::{Durability, Error};

/// How often a thread looks at its state before it sleeps, where a commit does not wait for a disk. That takes about a
/// hundred microseconds, as long as a batch of some hundred changes. To sleep and be woken takes as long as the commit of
/// twenty keys, and the leader pays for a part of it.
const LOOKS: usize = 400;
/// The same where a commit may wait for a disk, which takes longer than any number of looks.
const LOOKS_BEFORE_DISK: usize = 100;

const WAITING: u8 = 0;
const LEADING: u8 = 1;
const DONE: u8 = 2;

/// What is to be committed.
pub(crate) struct Job {
    pub(crate) writes: WriteSet,
    /// What a serialisable transaction has read.
    pub(crate) reads: Option<ReadSet>,
    /// The version of its snapshot. Its pin goes with the job.
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
    /// Whether a thread leads, or was asked to.
    is_led: bool,
}

impl CommitQueue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        lock(&self.waiting)
    }

    /// Adds a job and waits. Returns true if the caller has to lead, false if its job is done. `syncs`: the leader may wait
    /// for a disk.
    pub(super) fn join(&self, pending: &Arc<Pending>, syncs: bool) -> bool {
        let mut waiting = self.lock();
        waiting.jobs.push(pending.clone());
        let is_led = std::mem::replace(&mut waiting.is_led, true);
        drop(waiting);
        let looks = if syncs { LOOKS_BEFORE_DISK } else { LOOKS };
        !is_led || pending.wait(looks) == LEADING
    }

    /// Takes all waiting jobs. Only the leader calls this.
    pub(super) fn take(&self) -> Batch<'_> {
        let jobs = std::mem::take(&mut self.lock().jobs);
        Batch { queue: self, jobs, leads: true }
    }

    /// Makes the first waiting thread the leader. If none waits, the next thread to come leads.
    fn hand_over(&self) {
        let mut waiting = self.lock();
        match waiting.jobs.first() {
            Some(first) => first.notify(LEADING),
            None => waiting.is_led = false,
        }
    }

    /// How many jobs wait.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().jobs.len()
    }
}

/// A batch that is being committed. Whatever happens, another thread leads after it, and its threads are
/// notified.
pub(super) struct Batch<'q> {
    queue: &'q CommitQueue,
    pub(super) jobs: Vec<Arc<Pending>>,
    leads: bool,
}

impl Batch<'_> {
    /// Hands the lead to another thread.
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

    /// Waits until the job is done, or its thread has to lead.
    fn wait(&self, looks: usize) -> u8 {
        for round in 0.. {
            let stage = self.stage.load(Ordering::Acquire);
            if stage != WAITING {
                return stage;
            }
            if round < looks {
                // Where there are fewer processors than threads, the leader gets this thread's processor after some rounds.
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
