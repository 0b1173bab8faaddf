//! Committing together: one pair of fences, and one sync, for all transactions that come at a time.
//!
//! # How
//! ```text
//!   thread ─ job ─┐                 the leader, with the writer's lock
//!   thread ─ job ─┼─► queue ─► batch ─► for each job, in order:
//!   thread ─ job ─┘                       validate ──► draw a version ──► apply in place (grouped stamps)
//!                                            └ conflict: the job ends with the error
//!                                     then for all of the batch:
//!                                       fence ──► commit word = last version ──► fence ──► visible
//!                                   without the lock:
//!                                     the first in the queue leads ──► sync, if a job asks for it ──► wake the threads
//! ```
//! A thread that wants to commit puts the writes of its transaction into a queue. The first thread that finds no leader
//! *leads*: it waits for the writer's lock and takes all jobs that are in the queue by then. One after the other it
//! validates a job, draws a version and applies the changes in place. For a job, those before it in the batch
//! count as committed. All become visible together, each with its version. While one leader waits for the disk, the next
//! one commits.
//!
//! # Why that is right
//! *All or nothing.* Stamps of the lane above the commit word are void after a crash; the word passes from
//! below the first version of the batch to the last in one store, behind a fence of the thread that has
//! flushed all the entries. A crash keeps the whole batch or nothing of it, and no commit was reported before.
//!
//! *First committer wins.* While the leader has the writer's lock no other thread draws a version, so what validation has
//! found unchanged stays so until the transaction's own changes. Its snapshot is pinned until then, so what validation
//! compares with is still there.
//!
//! *One write by itself* is committed by its own stamp, with one fence, as `write/single.rs` does it.
//!
//! *A failure concerns one transaction.* A conflict leaves nothing behind. If there is no room for the changes of one
//! transaction, those before it in the batch are committed first; its own stamps are then the only
//! ones above the commit word, and become a dead interval.
//!
//! *No thread waits in vain.* The leader takes all waiting jobs, its own included. If others came in the
//! meantime, it names the next leader before it leaves. If a leader panics, its batch gets an error.

use std::sync::Arc;

use tembo_index::{Op, View};

use super::queue::{CommitQueue, Job, Pending};
use super::uncommitted::Uncommitted;
use super::validation::{Meanwhile, validate_reads, validate_writes};
use crate::ledger::{Ledger, publish};
use crate::shared::Shared;
use crate::version::PinKind;
use crate::write::{Engine, change_alone};
use crate::{Durability, Error};

/// A transaction whose changes are made, and not yet committed.
struct Made<'b> {
    pending: &'b Pending,
    changes: Uncommitted,
}

/// Commits a job, together with all others that wait to be committed.
///
/// # Errors
/// [`Error::Conflict`]; [`Error::ReadOnly`], [`Error::WouldDeadlock`]; those of the change.
pub(crate) fn commit_job(engine: &Engine, queue: &CommitQueue, job: Job) -> Result<u64, Error> {
    if let Err(error) = engine.check_wait() {
        engine.shared.versions.pins.unpin(job.since, PinKind::Transaction);
        return Err(error);
    }
    let durability = job.durability;
    let pending = Arc::new(Pending::new(job));
    let syncs = engine.shared.versions.needs_sync();
    if queue.join(&pending, syncs) {
        lead(engine, queue)?;
    }
    let version = pending.take_result()?;
    engine.shared.make_version_durable(durability, version)?;
    Ok(version)
}

/// Commits these jobs as one batch, in this order.
pub(crate) fn commit_jobs(engine: &Engine, jobs: Vec<Job>) -> Vec<Result<u64, Error>> {
    let batch: Vec<_> = jobs.into_iter().map(|job| Arc::new(Pending::new(job))).collect();
    match engine.lock_to_write() {
        Ok(mut writing) => {
            let (shared, ledger) = writing.parts();
            commit_batch(shared, ledger, &batch);
        }
        Err(_) => batch.iter().for_each(|pending| {
            engine.shared.versions.pins.unpin(pending.job.since, PinKind::Transaction);
            let refused = engine.check_wait().err().unwrap_or(Error::WouldDeadlock);
            pending.set_result(Err(refused));
        }),
    }
    let durable = |pending: &Arc<Pending>| {
        let version = pending.take_result()?;
        engine.shared.make_version_durable(pending.job.durability, version)?;
        Ok(version)
    };
    batch.iter().map(durable).collect()
}

fn lead(engine: &Engine, queue: &CommitQueue) -> Result<(), Error> {
    let locked = engine.lock_to_write();
    let mut batch = queue.take();
    // A thread that would wait for itself got its error before it joined the queue.
    let mut writing = locked?;
    let (shared, ledger) = writing.parts();
    commit_batch(shared, ledger, &batch.jobs);
    drop(writing);
    batch.hand_over();
    let wants_sync = |pending: &Arc<Pending>| {
        pending.job.durability == Durability::Strict && pending.has_committed()
    };
    if batch.jobs.iter().any(wants_sync) {
        // On an error each thread that waits for durability syncs again, and gets the error itself.
        let _ = engine.shared.versions.sync(engine.shared.region());
    }
    Ok(())
}

fn commit_batch(shared: &Shared, ledger: &mut Ledger, batch: &[Arc<Pending>]) {
    let mut made: Vec<Made<'_>> = Vec::with_capacity(batch.len());
    for pending in batch {
        let valid = validate(shared, ledger, &pending.job);
        // The transaction reads no more, so what only its snapshot needs may be given back.
        shared.versions.pins.unpin(pending.job.since, PinKind::Transaction);
        let alone = match valid {
            Ok(()) if batch.len() == 1 => commit_alone(shared, ledger, &pending.job),
            valid => valid.map(|()| None),
        };
        match alone {
            Ok(Some(version)) => pending.set_result(Ok(version)),
            Ok(None) => make(shared, ledger, pending, &mut made),
            Err(error) => pending.set_result(Err(error)),
        }
    }
    commit_made(shared, ledger, made);
}

/// Keys of a transaction that are prefetched together before the first of them is changed, and values that are written
/// together: as many as a disk reads side by side.
pub(crate) const KEYS_ABREAST: usize = 256;

/// Commits a single write that is alone in its batch, without the commit word. `None`: the index cannot make it in
/// place, or it changes nothing; the general path gives it a version then.
fn commit_alone(shared: &Shared, ledger: &mut Ledger, job: &Job) -> Result<Option<u64>, Error> {
    let clock = &shared.versions.clock;
    let before = clock.last();
    let write = |keyspace, op: Op<'_>| change_alone(shared, ledger, keyspace, op);
    let Some(changed) = job.writes.only(write) else { return Ok(None) };
    let last = clock.last();
    Ok(changed?.filter(|_| last > before).map(|_| last))
}

fn validate(shared: &Shared, ledger: &mut Ledger, job: &Job) -> Result<(), Error> {
    ledger.writable()?;
    let dead = ledger.dead.clone();
    let now = View { version: shared.versions.clock.last(), dead: &dead };
    let meanwhile = Meanwhile { since: job.since, now };
    validate_writes(shared, ledger, &job.writes, meanwhile)?;
    match &job.reads {
        Some(reads) => validate_reads(shared, ledger, reads, meanwhile),
        None => Ok(()),
    }
}

/// Makes the changes of a valid transaction; if that fails, commits those before it first.
fn make<'b>(shared: &Shared, ledger: &mut Ledger, pending: &'b Pending, made: &mut Vec<Made<'b>>) {
    let mut changes = Uncommitted::begin(shared);
    let applied = pending.job.writes.each_group(KEYS_ABREAST, |keyspace, group| {
        changes.apply_group(shared, ledger, keyspace, group)
    });
    match applied {
        Ok(()) => {
            changes.note_removed(ledger);
            made.push(Made { pending, changes });
        }
        Err(error) => {
            changes.forget_unlinked(ledger, 0);
            commit_made(shared, ledger, std::mem::take(made));
            changes.abort(shared, ledger);
            pending.set_result(Err(error));
        }
    }
}

fn commit_made(shared: &Shared, ledger: &mut Ledger, made: Vec<Made<'_>>) {
    let Some(last) = made.iter().filter_map(|made| made.changes.last()).max() else { return };
    let (jobs, mut changes): (Vec<_>, Vec<_>) =
        made.into_iter().map(|made| (made.pending, made.changes)).unzip();
    let versions: Vec<Option<u64>> = changes.iter().map(Uncommitted::last).collect();
    let Err(error) = publish(shared, ledger, last, &mut changes) else {
        for (pending, version) in jobs.into_iter().zip(versions) {
            pending.set_result(Ok(version.unwrap_or(last)));
        }
        return;
    };
    changes.iter_mut().rev().for_each(|changes| changes.abort(shared, ledger));
    let mut jobs = jobs.into_iter();
    if let Some(first) = jobs.next() {
        first.set_result(Err(error));
    }
    // An error is no `Clone`, so the other jobs are tried again and get their own results.
    for pending in jobs {
        let mut alone = Vec::new();
        make(shared, ledger, pending, &mut alone);
        commit_made(shared, ledger, alone);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tembo_pmem::Counters;

    use super::*;
    use crate::{Isolation, Keyspace, Options, Store};

    /// Commits `count` transactions that have come while the writer's lock was held. Returns how many fences that took, and
    /// their versions.
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
            while (store.handle().queue().len() as u64) < count {
                std::thread::yield_now();
            }
            drop(writer);
            let done: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            (done.iter().map(|done| done.0).sum(), done.into_iter().map(|done| done.1).collect())
        })
    }

    #[test]
    fn all_that_wait_cost_two_fences_and_one_of_those_that_write_a_key_wins() {
        let options = Options::new().background(false);
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
        let options = Options::new().background(false);
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
        // An earlier run with the same process number may have left the folder.
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let options = Options::new().background(false).size(16 << 20);
        let store = Store::create(&folder.join("batch.pool"), &options).unwrap();
        let space = store.keyspace("x").unwrap();
        store.sync().unwrap();
        let syncs = || store.handle().shared.region().report().log_syncs;
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
                while (store.handle().queue().len() as u64) < count {
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
