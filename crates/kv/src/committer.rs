//! Committing together: one pair of fences, and one sync, for all transactions that come at a time.
//!
//! # How
//! Who wants to commit puts the writes of its transaction into a queue. The first to find nobody leading
//! *leads*: it waits for the writer's lock, takes all that is in the queue by then, and for one after the
//! other validates it, draws a version and applies its changes in place, stamped as grouped. What came
//! before in the batch counts as committed for what comes after. Then it commits all of them: fence, one
//! store of the last of their versions into the commit word, fence. They become visible together, each
//! with its version; it gives back the lock, hands the lead to the first in the queue, syncs if somebody
//! wants to be durable, and wakes the others. So while one leader waits for the disk, the next commits.
//!
//! # Why that is right
//! *All or nothing.* Stamps of the lane above the commit word are void after a crash; the word passes from
//! below the first version of the batch to the last in one store, behind a fence of the thread that has
//! flushed all the entries. A crash keeps the whole batch or nothing of it, and nobody was told before.
//!
//! *First committer wins.* Under the writer's lock no version is drawn by others, so what validation has
//! found unchanged stays so until the transaction's own changes. Its snapshot is pinned until then: what it
//! needs to be compared with is there.
//!
//! *One write by itself* is committed by its own stamp, with one fence, as `single.rs` does it.
//!
//! *What fails, fails alone.* A conflict leaves nothing. If there is no room for the changes of one
//! transaction, those before it in the batch are committed first; its own stamps are then the only
//! ones above the commit word, and become a dead interval.
//!
//! *Nobody waits for nothing.* Whoever leads takes all that waits, itself included; if others came in the
//! meantime, it names the next leader before it goes. A leader that panics tells its batch that it failed.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::Thread;

use tembo_index::{Op, Place, View};
use tembo_pmem::lock;

use crate::inner::Inner;
use crate::transaction::{ReadSet, WriteSet};
use crate::uncommitted::Uncommitted;
use crate::validation::Meanwhile;
use crate::writer::WriterState;
use crate::{Durability, Error};

/// Looks at its state before a thread goes to sleep: about as long as a commit without a disk.
const SPINS: usize = 100;

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

/// A job that somebody waits for.
struct Pending {
    job: Job,
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
    /// Somebody leads, or was told to.
    is_led: bool,
}

/// A transaction whose changes are made, and not yet committed.
struct Made<'b> {
    pending: &'b Pending,
    changes: Uncommitted,
}

impl Inner {
    /// Commits with whoever else is about to.
    pub(crate) fn commit_job(&self, job: Job) -> Result<u64, Error> {
        let durability = job.durability;
        let pending = Arc::new(Pending::new(job));
        if self.queue.join(pending.clone()) || pending.wait() == LEADING {
            self.lead();
        }
        let version = pending.take_result()?;
        self.make_version_durable(durability, version)?;
        Ok(version)
    }

    /// Commits these as one batch, in this order.
    pub(crate) fn commit_jobs(&self, jobs: Vec<Job>) -> Vec<Result<u64, Error>> {
        let batch: Vec<_> = jobs.into_iter().map(|job| Arc::new(Pending::new(job))).collect();
        self.commit_batch(&mut self.lock_to_write(), &batch);
        let durable = |pending: &Arc<Pending>| {
            let version = pending.take_result()?;
            self.make_version_durable(pending.job.durability, version)?;
            Ok(version)
        };
        batch.iter().map(durable).collect()
    }

    fn lead(&self) {
        let mut state = self.lock_to_write();
        let mut batch = Batch { queue: &self.queue, jobs: self.queue.take(), leads: true };
        self.commit_batch(&mut state, &batch.jobs);
        drop(state);
        batch.hand_over();
        let wants_sync = |pending: &Arc<Pending>| {
            pending.job.durability != Durability::Buffered && pending.has_committed()
        };
        if batch.jobs.iter().any(wants_sync) {
            // Whoever waits for it tries again, and is told.
            let _ = self.sync();
        }
    }

    fn commit_batch(&self, state: &mut WriterState, batch: &[Arc<Pending>]) {
        let mut made: Vec<Made<'_>> = Vec::with_capacity(batch.len());
        for pending in batch {
            let valid = self.validate(state, &pending.job);
            // Its reads are over, and what only they need may go.
            self.pins.unpin(pending.job.since);
            let alone = match valid {
                Ok(()) if batch.len() == 1 => self.commit_alone(state, &pending.job),
                valid => valid.map(|()| None),
            };
            match alone {
                Ok(Some(version)) => pending.set_result(Ok(version)),
                Ok(None) => self.make(state, pending, &mut made),
                Err(error) => pending.set_result(Err(error)),
            }
        }
        self.commit_made(state, made);
    }

    /// A single write that nobody shares a batch with needs no commit word, if the index can make it in
    /// place; `None`: it cannot, or there is nothing to change, and still it gets a version.
    fn commit_alone(&self, state: &mut WriterState, job: &Job) -> Result<Option<u64>, Error> {
        let before = self.clock.last();
        let write = |keyspace, op: Op<'_>| self.change_alone(state, keyspace, op);
        let Some(changed) = job.writes.only(write) else { return Ok(None) };
        let last = self.clock.last();
        Ok(changed?.filter(|_| last > before).map(|_| last))
    }

    fn validate(&self, state: &mut WriterState, job: &Job) -> Result<(), Error> {
        state.sound()?;
        let dead = state.dead.clone();
        let now = View { version: self.clock.last(), dead: &dead };
        let meanwhile = Meanwhile { since: job.since, now };
        self.validate_writes(state, &job.writes, meanwhile)?;
        match &job.reads {
            Some(reads) => self.validate_reads(state, reads, meanwhile),
            None => Ok(()),
        }
    }

    /// Makes the changes of a valid transaction; if that fails, commits those before it first.
    fn make<'b>(&self, state: &mut WriterState, pending: &'b Pending, made: &mut Vec<Made<'b>>) {
        let mut changes = Uncommitted::begin(self);
        let applied = pending.job.writes.each_last(|keyspace, op| {
            changes.apply(self, state, (keyspace, Place::default()), op).map(drop)
        });
        match applied {
            Ok(()) => {
                changes.note_gone(state);
                made.push(Made { pending, changes });
            }
            Err(error) => {
                changes.forget_unlinked(state, 0);
                self.commit_made(state, std::mem::take(made));
                changes.abort(self, state);
                pending.set_result(Err(error));
            }
        }
    }

    fn commit_made(&self, state: &mut WriterState, made: Vec<Made<'_>>) {
        let Some(last) = made.iter().filter_map(|made| made.changes.last()).max() else { return };
        let (jobs, mut changes): (Vec<_>, Vec<_>) =
            made.into_iter().map(|made| (made.pending, made.changes)).unzip();
        let committed = self.commit_word(state, last);
        let Err(error) = committed else {
            let versions: Vec<Option<u64>> = changes.iter().map(Uncommitted::last).collect();
            self.publish(state, last, &mut changes);
            for (pending, version) in jobs.into_iter().zip(versions) {
                pending.set_result(Ok(version.unwrap_or(last)));
            }
            return;
        };
        changes.iter_mut().rev().for_each(|changes| changes.abort(self, state));
        let mut jobs = jobs.into_iter();
        if let Some(first) = jobs.next() {
            first.set_result(Err(error));
        }
        // An error cannot be told twice: the others meet their own.
        for pending in jobs {
            let mut alone = Vec::new();
            self.make(state, pending, &mut alone);
            self.commit_made(state, alone);
        }
    }
}

impl CommitQueue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        lock(&self.waiting)
    }

    /// True: the caller leads.
    fn join(&self, pending: Arc<Pending>) -> bool {
        let mut waiting = self.lock();
        waiting.jobs.push(pending);
        !std::mem::replace(&mut waiting.is_led, true)
    }

    fn take(&self) -> Vec<Arc<Pending>> {
        std::mem::take(&mut self.lock().jobs)
    }

    /// The first that waits leads; if nobody does, the next to come.
    fn hand_over(&self) {
        let mut waiting = self.lock();
        match waiting.jobs.first() {
            Some(first) => first.tell(LEADING),
            None => waiting.is_led = false,
        }
    }
}

/// A batch that is being committed: whatever happens, others lead after it, and who waits is told.
struct Batch<'q> {
    queue: &'q CommitQueue,
    jobs: Vec<Arc<Pending>>,
    leads: bool,
}

impl Batch<'_> {
    fn hand_over(&mut self) {
        if std::mem::take(&mut self.leads) {
            self.queue.hand_over();
        }
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.hand_over();
        self.jobs.iter().for_each(|pending| pending.tell(DONE));
    }
}

impl Pending {
    fn new(job: Job) -> Pending {
        let (stage, result) = (AtomicU8::new(WAITING), Mutex::new(None));
        Pending { job, stage, result, thread: std::thread::current() }
    }

    /// Waits until it is done, or has to lead.
    fn wait(&self) -> u8 {
        for turn in 0.. {
            let stage = self.stage.load(Ordering::Acquire);
            if stage != WAITING {
                return stage;
            }
            if turn < SPINS {
                tembo_pmem::wait();
            } else {
                tembo_pmem::park();
            }
        }
        DONE
    }

    fn tell(&self, stage: u8) {
        self.stage.store(stage, Ordering::Release);
        self.thread.unpark();
    }

    fn result(&self) -> MutexGuard<'_, Option<Result<u64, Error>>> {
        lock(&self.result)
    }

    fn set_result(&self, result: Result<u64, Error>) {
        *self.result() = Some(result);
    }

    fn has_committed(&self) -> bool {
        matches!(*self.result(), Some(Ok(_)))
    }

    fn take_result(&self) -> Result<u64, Error> {
        let lost = Error::Damaged { what: "what the commit of this transaction left half done" };
        self.result().take().unwrap_or(Err(lost))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tembo_pmem::Counters;

    use super::*;
    use crate::{Isolation, Keyspace, Options, Store};

    /// Commits `count` transactions that have come while the writer's lock was held; what it cost in
    /// fences, and which versions they have.
    fn commit_together(
        store: &Store,
        space: Keyspace,
        count: u64,
    ) -> (u64, Vec<Result<u64, Error>>) {
        let writer = store.exclusive().unwrap();
        std::thread::scope(|scope| {
            let commit = |n: u64| {
                let mut tx = store.transaction(Isolation::Snapshot).unwrap();
                let before = Counters::thread();
                tx.put(space, &n.to_be_bytes(), b"value").unwrap();
                tx.put(space, b"all write this", b"v").unwrap();
                let committed = tx.commit(Durability::Strict);
                ((Counters::thread() - before).fences, committed)
            };
            let threads: Vec<_> = (0..count).map(|n| scope.spawn(move || commit(n))).collect();
            while (store.inner.queue.lock().jobs.len() as u64) < count {
                std::thread::yield_now();
            }
            drop(writer);
            let done: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            (done.iter().map(|done| done.0).sum(), done.into_iter().map(|done| done.1).collect())
        })
    }

    #[test]
    fn all_that_wait_cost_two_fences_and_one_of_those_that_write_a_key_wins() {
        let options = Options { background: false, ..Options::default() };
        let store = Store::volatile(&options).unwrap();
        let space = store.keyspace("x").unwrap();
        for count in [1, 2, 8, 30] {
            store.remove(space, b"all write this", Durability::Strict).unwrap();
            let before = store.visible();
            let (fences, committed) = commit_together(&store, space, count);
            assert_eq!(fences, 2, "{count}");
            let won: Vec<u64> =
                committed.iter().filter_map(|done| done.as_ref().ok().copied()).collect();
            assert_eq!(won, [before + 1]);
            let lost = |done: &Result<u64, Error>| matches!(done, Err(Error::Conflict { version, .. }) if *version == before + 1);
            assert_eq!(committed.iter().filter(|done| lost(done)).count() as u64, count - 1);
            assert_eq!(store.visible(), before + 1);
        }
    }

    #[test]
    fn a_transaction_of_one_write_that_comes_alone_costs_one_fence() {
        let options = Options { background: false, ..Options::default() };
        let store = Store::volatile(&options).unwrap();
        let space = store.keyspace("x").unwrap();
        let commit = |key: &[u8], value: Option<&[u8]>| {
            let mut tx = store.transaction(Isolation::Serialisable).unwrap();
            tx.get(space, key).unwrap();
            match value {
                Some(value) => tx.put(space, key, value).unwrap(),
                None => tx.remove(space, key).unwrap(),
            }
            let (before, visible) = (Counters::thread(), store.visible());
            let version = tx.commit(Durability::Strict).unwrap();
            assert_eq!(version, store.visible());
            ((Counters::thread() - before).fences, version - visible)
        };
        assert_eq!(commit(b"a", Some(b"1")), (1, 1));
        assert_eq!(commit(b"a", Some(b"2")), (1, 1));
        assert_eq!(commit(b"a", None), (1, 1));
        assert_eq!(commit(b"a", None), (1, 1), "what changes nothing has a version too");
        let mut late = store.transaction(Isolation::Snapshot).unwrap();
        commit(b"a", Some(b"3"));
        late.put(space, b"a", b"late").unwrap();
        assert!(matches!(late.commit(Durability::Strict), Err(Error::Conflict { .. })));
    }

    #[test]
    fn versions_of_a_batch_are_one_for_each_and_its_sync_is_one() {
        let folder = std::env::temp_dir().join(format!("tembo-committer-{}", std::process::id()));
        // What an earlier run of the same process number left.
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let mut options = Options { background: false, ..Options::default() };
        options.pool.size = 16 << 20;
        let store = Store::create(&folder.join("batch.pool"), &options).unwrap();
        let space = store.keyspace("x").unwrap();
        store.sync().unwrap();
        let syncs = || store.inner.region().report().log_syncs;
        for count in [1, 2, 8, 30] {
            let (before, syncs_before) = (store.visible(), syncs());
            let writer = store.exclusive().unwrap();
            let mut versions: Vec<u64> = std::thread::scope(|scope| {
                let commit = |n: u64| {
                    let mut tx = store.transaction(Isolation::Serialisable).unwrap();
                    tx.put(space, &n.to_be_bytes(), &n.to_be_bytes()).unwrap();
                    let version = tx.commit(Durability::Strict).unwrap();
                    assert!(store.durable() >= version);
                    version
                };
                let threads: Vec<_> = (0..count).map(|n| scope.spawn(move || commit(n))).collect();
                while (store.inner.queue.lock().jobs.len() as u64) < count {
                    std::thread::yield_now();
                }
                drop(writer);
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            versions.sort_unstable();
            assert!(versions.into_iter().eq(before + 1..=before + count));
            assert_eq!(syncs() - syncs_before, 1, "{count}");
        }
        drop(store);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
