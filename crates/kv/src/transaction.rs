//! Optimistic transactions: many at a time, each at a snapshot of its own.
//!
//! # How
//! A transaction reads the snapshot that it began with, and keeps what it writes in memory
//! (`write_set.rs`); its own reads see both (`merge.rs`). Nothing is locked until it commits, together
//! with whoever else does (`committer.rs`). *Snapshot isolation*: the first to commit a key wins, and who
//! comes later gets a [`Error::Conflict`] (Berenson et al., SIGMOD 1995). *Serialisable*: what was read is
//! validated as well, keys that were absent and whole ranges included (backward validation of Kung and
//! Robinson, TODS 1981), so that a transaction that commits is as if it had been executed at that
//! instant; one that writes nothing is, at the instant of its snapshot, and needs no validation.
//! Serialisable are such transactions among each other, not beside others that write under snapshot
//! isolation what they read.
//!
//! # Without limit
//! A transaction that outgrows its memory (`spill.rs`) validates what it has, becomes the one writer,
//! makes its changes in place, and goes on so. From then on nobody else commits, and it can have no more
//! conflicts but with what was committed between its begin and that point. What a serialisable one has
//! read stays in memory. If it goes back to savepoints it has several versions, all of which become visible
//! with the last: who reads *as of* one of the others, within a window, sees a part of it.

mod merge;
mod read_set;
mod spill;
mod write_set;

use std::ops::Bound;

use tembo_index::{Direction, Range, VersionedIndex, View, Visit};

use crate::committer::Job;
use crate::inner::Inner;
use crate::uncommitted::{Point, check_sizes};
use crate::{Durability, Error, Keyspace, Snapshot};
pub(crate) use read_set::ReadSet;
use spill::Spilled;
pub(crate) use write_set::WriteSet;

/// Which other transactions a transaction may be affected by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Isolation {
    /// It sees one version, and of two that write a key at the same time one fails. Two that read what
    /// the other writes may both commit (write skew).
    #[default]
    Snapshot,
    /// As if one transaction had been executed after the other. Costs memory and, at the commit, a look
    /// for each key and range that was read.
    Serialisable,
}

/// A point in a transaction to which it can go back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint {
    number: u64,
}

/// A savepoint that can be gone back to.
struct Saved {
    number: u64,
    place: SavedPlace,
}

enum SavedPlace {
    /// In the write set, behind so many writes.
    Memory(usize),
    /// Among the changes that were made in place.
    Pool(Point),
}

/// Reads of one version and writes of its own, which are committed together or not at all. Others are
/// not locked out meanwhile, unless it outgrows [`Options::transaction_memory`](crate::Options): then it
/// is the one writer until it ends, and a thread that changes something beside it waits for it.
///
/// Dropping it costs nothing and leaves nothing.
pub struct Transaction<'s> {
    inner: &'s Inner,
    snapshot: Snapshot<'s>,
    writes: WriteSet,
    /// If it is serialisable.
    reads: Option<ReadSet>,
    saved: Vec<Saved>,
    savepoints: u64,
    /// If it has outgrown memory.
    spilled: Option<Spilled>,
}

impl<'s> Transaction<'s> {
    pub(crate) fn begin(inner: &'s Inner, isolation: Isolation) -> Transaction<'s> {
        Transaction {
            inner,
            snapshot: Snapshot::of_visible(inner),
            writes: WriteSet::default(),
            reads: (isolation == Isolation::Serialisable).then(ReadSet::default),
            saved: Vec::new(),
            savepoints: 0,
            spilled: None,
        }
    }

    /// The version that it reads.
    pub fn version(&self) -> u64 {
        self.snapshot.version()
    }

    /// The value under `key`, the transaction's own writes included.
    ///
    /// # Errors
    /// [`Error::NoSuchKeyspace`]; damage.
    pub fn get(&mut self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        if let Some(own) = self.own(keyspace, key)? {
            return Ok(own);
        }
        if let Some(reads) = &mut self.reads {
            reads.key(keyspace, key);
        }
        Ok(self.snapshot.get(keyspace, key)?.map(|value| value.to_vec()))
    }

    /// Calls `visit` with each key and value in the range, in order, until it returns false; the
    /// transaction's own writes included.
    ///
    /// # Errors
    /// [`Error::NoSuchKeyspace`]; damage.
    pub fn range(
        &mut self,
        keyspace: Keyspace,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        direction: Direction,
        visit: &mut Visit<'_>,
    ) -> Result<(), Error> {
        let range = Range { from, to, direction };
        let Some(mut reads) = self.reads.take() else {
            return self.merged(keyspace, range, visit);
        };
        let mut reached = None;
        let walked = self.merged(keyspace, range, &mut |key, value| {
            let goes_on = visit(key, value);
            if !goes_on {
                reached = Some(key.to_vec());
            }
            goes_on
        });
        reads.range(keyspace, range, reached);
        self.reads = Some(reads);
        walked
    }

    /// Puts `value` under `key`.
    ///
    /// # Errors
    /// [`Error::KeyTooLong`], [`Error::ValueTooLong`], [`Error::NoSuchKeyspace`]. When the transaction
    /// outgrows its memory, those of [`commit`](Transaction::commit) too. It has not changed then.
    pub fn put(&mut self, keyspace: Keyspace, key: &[u8], value: &[u8]) -> Result<(), Error> {
        check_sizes(key, &[value])?;
        self.set(keyspace, key, Some(value))
    }

    /// Removes `key`, if it is there.
    ///
    /// # Errors
    /// As of [`put`](Transaction::put).
    pub fn remove(&mut self, keyspace: Keyspace, key: &[u8]) -> Result<(), Error> {
        check_sizes(key, &[])?;
        self.set(keyspace, key, None)
    }

    fn set(&mut self, keyspace: Keyspace, key: &[u8], value: Option<&[u8]>) -> Result<(), Error> {
        self.snapshot.knows(keyspace)?;
        let bytes = self.writes.bytes() + WriteSet::bytes_of(key, value);
        if bytes > self.inner.transaction_memory && !self.writes.is_empty() {
            self.spill()?;
        }
        self.writes.set(keyspace, key, value);
        Ok(())
    }

    /// Where it is.
    pub fn savepoint(&mut self) -> Savepoint {
        let place = match &mut self.spilled {
            Some(spilled) if self.writes.is_empty() => {
                SavedPlace::Pool(spilled.changes.point(self.inner))
            }
            _ => SavedPlace::Memory(self.writes.save()),
        };
        self.savepoints += 1;
        let number = self.savepoints;
        self.saved.push(Saved { number, place });
        Savepoint { number }
    }

    /// Takes back what was written since a savepoint of this transaction, which stays; later ones are
    /// gone. What was read since is still validated.
    ///
    /// # Errors
    /// [`Error::NoSuchSavepoint`]. If the transaction has outgrown its memory, also
    /// [`Error::TooManyAborts`] and those of the region below. Nothing is taken back then.
    pub fn rollback_to(&mut self, savepoint: &Savepoint) -> Result<(), Error> {
        let found = self.saved.iter().rposition(|saved| saved.number == savepoint.number);
        let Some(at) = found else { return Err(Error::NoSuchSavepoint) };
        match &self.saved[at].place {
            SavedPlace::Memory(len) => self.writes.truncate(*len),
            SavedPlace::Pool(point) => {
                if let Some(spilled) = &mut self.spilled {
                    spilled.take_back(self.inner, point)?;
                }
                self.writes.clear();
            }
        }
        self.saved.truncate(at + 1);
        Ok(())
    }

    /// Commits all or nothing, together with others that are about to, and returns the version: that of
    /// the snapshot, if nothing was written.
    ///
    /// Durability point: as `durability` says, capped by the region's sync policy; with it, what it has
    /// read is as durable.
    ///
    /// # Errors
    /// [`Error::Conflict`], [`Error::Full`]: nothing has changed. [`Error::Poisoned`]: then nothing of it
    /// may be shown, though it may be there after the next open.
    pub fn commit(mut self, durability: Durability) -> Result<u64, Error> {
        if self.spilled.is_some() {
            return self.commit_in_place(durability);
        }
        if self.writes.is_empty() {
            let version = self.version();
            // What it has read may be visible and not yet durable.
            self.inner.make_version_durable(durability, version)?;
            return Ok(version);
        }
        let job = self.job(durability);
        self.inner.commit_job(job)
    }

    /// Commits these together, in this order, each all or nothing: two fences and one sync for all that
    /// fit into memory. After a crash all of those are there or none.
    ///
    /// Durability point, errors and results are those of [`commit`](Transaction::commit).
    pub fn commit_all(all: Vec<Self>, durability: Durability) -> Vec<Result<u64, Error>> {
        let Some(inner) = all.first().map(|tx| tx.inner) else { return Vec::new() };
        let (mut jobs, mut done) = (Vec::new(), Vec::new());
        // One that is the one writer keeps the others from committing.
        for mut tx in all {
            let is_same = std::ptr::eq(tx.inner, inner);
            if tx.spilled.is_some() || tx.writes.is_empty() || !is_same {
                done.push(Some(tx.commit(durability)));
            } else {
                jobs.push(tx.job(durability));
                done.push(None);
            }
        }
        let mut committed = inner.commit_jobs(jobs).into_iter();
        done.into_iter().filter_map(|done| done.or_else(|| committed.next())).collect()
    }

    fn job(&mut self, durability: Durability) -> Job {
        Job {
            writes: std::mem::take(&mut self.writes),
            reads: self.reads.take(),
            since: self.snapshot.give_pin(),
            durability,
        }
    }

    /// What it has written under the key: a value, or that it is removed.
    fn own(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Option<Vec<u8>>>, Error> {
        if let Some(own) = self.writes.get(keyspace, key) {
            return Ok(Some(own.map(<[u8]>::to_vec)));
        }
        let Some(spilled) = &self.spilled else { return Ok(None) };
        let index = spilled.index(self.inner, keyspace)?;
        let now: View<'_> = spilled.changes.view(self.inner);
        if index.changed(key, spilled.before, now)?.is_none() {
            return Ok(None);
        }
        Ok(Some(index.get(key, now)?.map(|value| value.to_vec())))
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if let Some(spilled) = self.spilled.take() {
            spilled.abort(self.inner);
        }
    }
}
