//! Optimistic transactions: many at a time, each at a snapshot of its own.
//!
//! # How
//! A transaction reads the snapshot that it began with, and keeps what it writes in memory
//! (`commit/write_set.rs`); its own reads see both (`merge.rs`). Nothing is locked until it commits, together
//! with all others that are about to (`commit/committer.rs`). *Snapshot isolation*: the first to commit a key wins,
//! and a later one gets a [`Error::Conflict`] (Berenson et al., SIGMOD 1995). *Serialisable*: what was read is
//! validated as well, keys that were absent and whole ranges included (backward validation of Kung and
//! Robinson, TODS 1981), so that a transaction that commits is as if it had been executed at that
//! instant; one that writes nothing is, at the instant of its snapshot, and needs no validation.
//! Serialisable are such transactions among each other, not beside others that write under snapshot
//! isolation what they read.
//!
//! # Without limit
//! A transaction that outgrows its memory (`spilled.rs`, essay) keeps its writes in the pool, where no other sees them, and
//! others go on. It commits by itself (`apply.rs`). What a serialisable one has read stays in memory. If it
//! removes ranges it has several versions, all of which become visible with the last: a snapshot at one of the others,
//! within a window, sees a part of it.

mod apply;
mod before;
mod merge;
mod own;
mod private;
mod spilled;

use std::ops::{Bound, RangeBounds};

use tembo_index::{Direction, Op, Range, Value, Visit};

use apply::All;
use merge::merged;
use own::Own;
use spilled::{Spilled, SpilledPoint};

use crate::commit::{Job, WriteSet, commit_job, commit_jobs};
use crate::entries::{Entries, bounds};
use crate::keyspace::check_sizes;
use crate::maintain::give_back_private;
use crate::opened::Handle;
use crate::prepared::prepare;
use crate::read_set::ReadSet;
use crate::tombstones::KeyRange;
use crate::version::PinKind;
use crate::{Durability, Error, Keyspace, Snapshot};
/// How far a transaction is isolated from others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Isolation {
    /// A transaction sees one version, and of two that write a key at the same time one fails. Two that each read what
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
    /// In memory: the number of writes before it.
    Memory(usize),
    /// In the pool: a point among the writes there.
    Spilled(SpilledPoint),
}

/// Reads of one version and writes of its own, which are committed together or not at all. Others are
/// not locked out meanwhile. What exceeds [`Options::transaction_memory`](crate::Options::transaction_memory) is kept in the
/// pool until it ends: then others wait for its commit, in proportion to what it writes.
///
/// It owns what it needs: it can be sent to another thread, and may outlive the [`Store`](crate::Store) that it came
/// from, which stays open until then. Dropping it costs nothing and leaves nothing.
pub struct Transaction {
    spilled: Option<Spilled>,
    snapshot: Snapshot,
    writes: WriteSet,
    isolation: Isolation,
    /// Keys and ranges that no other may change before the commit. If it is serialisable, these are all that it has read.
    reads: ReadSet,
    saved: Vec<Saved>,
    savepoints: u64,
    /// Whether it has removed a range, so that it cannot be prepared.
    has_removed_range: bool,
}

impl Transaction {
    pub(crate) fn begin(handle: &Handle, isolation: Isolation) -> Transaction {
        Transaction {
            spilled: None,
            snapshot: Snapshot::of_visible(handle, PinKind::Transaction),
            writes: WriteSet::default(),
            isolation,
            reads: ReadSet::default(),
            saved: Vec::new(),
            savepoints: 0,
            has_removed_range: false,
        }
    }

    /// The version that it reads.
    pub fn version(&self) -> u64 {
        self.snapshot.version()
    }

    fn handle(&self) -> &Handle {
        self.snapshot.handle()
    }

    fn own(&self) -> Own<'_> {
        Own { writes: &self.writes, spilled: self.spilled.as_ref() }
    }

    /// The value under `key`, the transaction's own writes included.
    ///
    /// # Errors
    /// [`Error::NoSuchKeyspace`]; damage.
    pub fn get(&mut self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        if let Some(own) = self.own().get(keyspace, key)? {
            return Ok(own);
        }
        Ok(self.read(keyspace, key)?.map(|value| value.to_vec()))
    }

    /// The values under some keys, in the order of the keys, the transaction's own writes included; as
    /// [`Snapshot::get_many`].
    ///
    /// # Errors
    /// As of [`get`](Transaction::get): if one value cannot be read, none is returned.
    pub fn get_many<K: AsRef<[u8]>>(
        &mut self,
        keyspace: Keyspace,
        keys: &[K],
    ) -> Result<Vec<Option<Vec<u8>>>, Error> {
        let (mut values, mut unwritten) = (Vec::with_capacity(keys.len()), Vec::new());
        for (at, key) in keys.iter().map(AsRef::as_ref).enumerate() {
            let own = self.own().get(keyspace, key)?;
            if own.is_none() {
                unwritten.push((at, key));
            }
            values.push(own.flatten());
        }
        let keys: Vec<&[u8]> = unwritten.iter().map(|&(_, key)| key).collect();
        if self.isolation == Isolation::Serialisable {
            keys.iter().for_each(|key| self.reads.key(keyspace, key));
        }
        let read = self.snapshot.get_many(keyspace, &keys)?;
        for ((at, _), value) in unwritten.into_iter().zip(read) {
            values[at] = value.map(|value| value.to_vec());
        }
        Ok(values)
    }

    /// As [`get`](Transaction::get), but calls `with` with the value.
    pub(crate) fn get_with(
        &mut self,
        keyspace: Keyspace,
        key: &[u8],
        with: impl FnOnce(Option<Value<'_>>),
    ) -> Result<(), Error> {
        match self.own().get(keyspace, key)? {
            Some(own) => with(own.as_deref().map(Value::from)),
            None => with(self.read(keyspace, key)?),
        }
        Ok(())
    }

    /// The value in its snapshot, of a key that it has not written.
    fn read(&mut self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Value<'_>>, Error> {
        if self.isolation == Isolation::Serialisable {
            self.reads.key(keyspace, key);
        }
        self.snapshot.get(keyspace, key)
    }

    /// Notes a key, whatever the isolation: the commit fails if another transaction changes it before.
    pub(crate) fn note_key(&mut self, keyspace: Keyspace, key: &[u8]) {
        self.reads.key(keyspace, key);
    }

    /// Checks that keys have an order, for a caller that needs one.
    ///
    /// # Errors
    /// [`Error::Unordered`].
    pub(crate) fn check_order(&self) -> Result<(), Error> {
        self.handle().shared.check_order()
    }

    /// Notes a range, whatever the isolation: the commit fails if another transaction changes a key of it before.
    ///
    /// # Errors
    /// [`Error::Unordered`].
    pub(crate) fn note_range(
        &mut self,
        keyspace: Keyspace,
        (from, to): (Bound<&[u8]>, Bound<&[u8]>),
    ) -> Result<(), Error> {
        self.check_order()?;
        self.reads.range(keyspace, Range { from, to, direction: Direction::Forward }, None);
        Ok(())
    }

    /// The keys and values of a range, in order, from either end, the transaction's own writes included. Of
    /// everything: `range::<[u8]>(keyspace, ..)`.
    ///
    /// For a serialisable transaction all fetched entries count as read: up to some hundred more than were taken.
    ///
    /// # Errors
    /// [`Error::NoSuchKeyspace`]; [`Error::Unordered`]; damage.
    pub fn range<K: AsRef<[u8]> + ?Sized>(
        &mut self,
        keyspace: Keyspace,
        range: impl RangeBounds<K>,
    ) -> Result<Entries<'_>, Error> {
        self.check_order()?;
        self.snapshot.knows(keyspace)?;
        let fetch =
            move |range: Range<'_>, visit: &mut Visit<'_>| self.visit(keyspace, range, visit);
        Ok(Entries::new(bounds(&range), fetch))
    }

    /// Calls `visit` with each key and value of a range, in the given direction, until it returns false; the
    /// transaction's own writes included. Faster than [`range`](Transaction::range), for nothing is copied.
    ///
    /// # Errors
    /// [`Error::NoSuchKeyspace`]; [`Error::Unordered`]; damage.
    pub fn range_with<K: AsRef<[u8]> + ?Sized>(
        &mut self,
        keyspace: Keyspace,
        range: impl RangeBounds<K>,
        direction: Direction,
        visit: &mut Visit<'_>,
    ) -> Result<(), Error> {
        let (from, to) = bounds(&range);
        self.check_order()?;
        self.visit(keyspace, Range { from, to, direction }, visit)
    }

    fn visit(
        &mut self,
        keyspace: Keyspace,
        range: Range<'_>,
        visit: &mut Visit<'_>,
    ) -> Result<(), Error> {
        if self.isolation == Isolation::Snapshot {
            return merged(&self.snapshot, self.own(), keyspace, range, visit);
        }
        let mut reached = None;
        let visited = merged(&self.snapshot, self.own(), keyspace, range, &mut |key, value| {
            let goes_on = visit(key, value);
            if !goes_on {
                reached = Some(key.to_vec());
            }
            goes_on
        });
        self.reads.range(keyspace, range, reached);
        visited
    }

    /// Puts `value` under `key`.
    ///
    /// # Errors
    /// [`Error::KeyTooLong`], [`Error::ValueTooLong`], [`Error::NoSuchKeyspace`], [`Error::ReadOnly`]. When the transaction
    /// outgrows its memory, also [`Error::Full`] and [`Error::WouldDeadlock`]. It has not changed then. If it has savepoints and
    /// the pool is so full that a move to it can be neither ended nor taken back, it can only be dropped: it does not
    /// commit, and goes back to no savepoint.
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
        self.handle().shared.check_writable()?;
        self.snapshot.knows(keyspace)?;
        let bytes = self.writes.bytes() + WriteSet::bytes_of(key, value);
        if bytes > self.handle().transaction_memory() && !self.writes.is_empty() {
            self.spill()?;
        }
        self.writes.set(keyspace, key, value);
        Ok(())
    }

    /// Removes the keys of a range, in time independent of their number, but for those that it has written itself. The commit
    /// fails if another commits a change of the range before it.
    ///
    /// # Errors
    /// As of [`put`](Transaction::put); [`Error::Unordered`]. After [`Error::Full`] it can only be dropped.
    pub fn remove_range<K: AsRef<[u8]> + ?Sized>(
        &mut self,
        keyspace: Keyspace,
        range: impl RangeBounds<K>,
    ) -> Result<(), Error> {
        self.check_order()?;
        self.snapshot.knows(keyspace)?;
        let Some(range) = KeyRange::checked(bounds(&range))? else { return Ok(()) };
        self.handle().shared.check_writable()?;
        self.spill()?;
        self.has_removed_range = true;
        let is_saved = !self.saved.is_empty();
        match &mut self.spilled {
            Some(spilled) => spilled.remove_range(keyspace, range, is_saved),
            None => Ok(()),
        }
    }

    /// The current point, to which [`rollback_to`](Transaction::rollback_to) can come back.
    pub fn savepoint(&mut self) -> Savepoint {
        let place = match &self.spilled {
            Some(spilled) if self.writes.is_empty() => SavedPlace::Spilled(spilled.point()),
            _ => SavedPlace::Memory(self.writes.save()),
        };
        self.savepoints += 1;
        let number = self.savepoints;
        self.saved.push(Saved { number, place });
        Savepoint { number }
    }

    /// Takes back what was written since a savepoint of this transaction, which stays; later ones are
    /// forgotten. What was read since is still validated.
    ///
    /// # Errors
    /// [`Error::NoSuchSavepoint`]: nothing is taken back. If the transaction has outgrown its memory, also [`Error::Full`] and
    /// [`Error::WouldDeadlock`]: then it can only be dropped.
    pub fn rollback_to(&mut self, savepoint: &Savepoint) -> Result<(), Error> {
        let found = self.saved.iter().rposition(|saved| saved.number == savepoint.number);
        let Some(at) = found else { return Err(Error::NoSuchSavepoint) };
        match &self.saved[at].place {
            SavedPlace::Memory(len) => {
                self.spilled.as_ref().map_or(Ok(()), Spilled::check_whole)?;
                self.writes.truncate(*len);
            }
            SavedPlace::Spilled(point) => {
                if let Some(spilled) = &mut self.spilled {
                    spilled.take_back(*point)?;
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
    /// [`Error::Conflict`], [`Error::Full`], [`Error::WouldDeadlock`]: nothing has changed. [`Error::NotDurable`]: all of it is
    /// visible; sync when the disk has room, and do not commit it again. [`Error::Poisoned`]: then nothing of it may be
    /// shown, though it may be there after the next open.
    pub fn commit(mut self, durability: Durability) -> Result<u64, Error> {
        if self.spilled.is_some() {
            return self.commit_spilled(durability);
        }
        if self.writes.is_empty() {
            let version = self.version();
            // What it has read may be visible and not yet durable.
            self.handle().shared.make_version_durable(durability, version)?;
            return Ok(version);
        }
        let job = self.job(durability);
        commit_job(self.handle(), self.handle().queue(), job)
    }

    /// Prepares it under an id, for two-phase commit: validated and on media, it waits for
    /// [`Store::commit_prepared`](crate::Store::commit_prepared) or [`Store::drop_prepared`](crate::Store::drop_prepared), by any
    /// handle, in this life of the process or a later one. Until then it *holds* the keys that it writes and, if it is
    /// serialisable, the keys and ranges that it has read: other changes of them are refused
    /// ([`Error::Conflict`] with its id), a clear of their keyspace too. Readers see the state before. Returns the version
    /// in which it is prepared: a rollback to an earlier one drops it.
    ///
    /// The id is any 1 to 64 bytes ([`PREPARED_ID_SIZE_MAX`](crate::PREPARED_ID_SIZE_MAX)), of no other prepared transaction
    /// of the store. At most 1024 ([`PREPARED_COUNT_MAX`](crate::PREPARED_COUNT_MAX)) are prepared at a time. Their keys are kept in memory, their values
    /// in the pool; all that this one writes is in memory once while it is prepared, whatever
    /// [`Options::transaction_memory`](crate::Options::transaction_memory) says.
    ///
    /// Backups have what is committed, not what is prepared.
    ///
    /// Durability point: synced when it returns. After a crash before that it is prepared or it never was.
    ///
    /// # Errors
    /// [`Error::PreparedRange`], [`Error::Conflict`], [`Error::PreparedId`], [`Error::PreparedExists`], [`Error::TooManyPrepared`], [`Error::Full`],
    /// [`Error::WouldDeadlock`]: nothing has changed. [`Error::NotDurable`]: it is prepared; sync when the disk has room.
    /// [`Error::Poisoned`]: whether it is prepared the next open says.
    pub fn prepare(mut self, id: &[u8]) -> Result<u64, Error> {
        if self.has_removed_range {
            return Err(Error::PreparedRange);
        }
        let writes = self.take_writes()?;
        let reads = self.take_reads();
        prepare(self.handle(), id, self.version(), (writes, reads))
    }

    /// Takes everything that it has written, in memory.
    fn take_writes(&mut self) -> Result<WriteSet, Error> {
        let writes = std::mem::take(&mut self.writes);
        let Some(spilled) = self.spilled.take() else { return Ok(writes) };
        spilled.check_whole()?;
        let mut all = WriteSet::default();
        spilled.each(|keyspace, key, written| {
            all.set(keyspace, key, written.as_deref());
            Ok(())
        })?;
        writes.each_between((0, writes.len()), |keyspace, op| {
            match op {
                Op::Put { key, value } => all.set(keyspace, key, Some(&value.concat())),
                Op::Remove { key } => all.set(keyspace, key, None),
            }
            Ok(())
        })?;
        Ok(all)
    }

    /// Commits these together, in this order, each all or nothing: two fences and one sync for all of them that
    /// fit into memory. After a crash all of these are there or none.
    ///
    /// One that has outgrown memory cannot share a commit: it is committed by itself, before the others.
    ///
    /// Durability point, errors and results are those of [`commit`](Transaction::commit).
    pub fn commit_all(all: Vec<Self>, durability: Durability) -> Vec<Result<u64, Error>> {
        let Some(handle) = all.first().map(|tx| tx.handle().clone()) else { return Vec::new() };
        let (mut jobs, mut done) = (Vec::new(), Vec::new());
        for mut tx in all {
            if tx.spilled.is_some() || tx.writes.is_empty() || !handle.is_same(tx.handle()) {
                done.push(Some(tx.commit(durability)));
            } else {
                jobs.push(tx.job(durability));
                done.push(None);
            }
        }
        let mut committed = commit_jobs(&handle, jobs).into_iter();
        done.into_iter().filter_map(|done| done.or_else(|| committed.next())).collect()
    }

    /// Takes the reads that have to be validated.
    fn take_reads(&mut self) -> Option<ReadSet> {
        let is_serialisable = self.isolation == Isolation::Serialisable;
        (is_serialisable || !self.reads.is_empty()).then(|| std::mem::take(&mut self.reads))
    }

    fn job(&mut self, durability: Durability) -> Job {
        Job {
            writes: std::mem::take(&mut self.writes),
            reads: self.take_reads(),
            since: self.snapshot.give_pin(),
            durability,
        }
    }

    /// Moves what is in memory to the pool. On an error it stays in memory.
    fn spill(&mut self) -> Result<(), Error> {
        let is_saved = self.saved.iter().any(|saved| matches!(saved.place, SavedPlace::Spilled(_)));
        let spilled = match &mut self.spilled {
            Some(spilled) => spilled,
            none => none.insert(Spilled::begin(self.snapshot.handle())?),
        };
        spilled.check_whole()?;
        let in_memory = self.saved.iter_mut().filter_map(|saved| match saved.place {
            SavedPlace::Memory(end) => Some((end, &mut saved.place)),
            SavedPlace::Spilled(_) => None,
        });
        let (ends, places): (Vec<usize>, Vec<&mut SavedPlace>) = in_memory.unzip();
        let points = spilled.take_in(&self.writes, &ends, is_saved)?;
        for (place, point) in places.into_iter().zip(points) {
            *place = SavedPlace::Spilled(point);
        }
        self.writes.clear();
        Ok(())
    }

    fn commit_spilled(mut self, durability: Durability) -> Result<u64, Error> {
        let since = self.version();
        let Some(spilled) = self.spilled.take() else { return Ok(since) };
        spilled.check_whole()?;
        let all = All { spilled: &spilled, writes: &self.writes };
        let pin = self.snapshot.give_pin();
        let committed = apply::commit(self.snapshot.handle(), pin, &all, &self.reads);
        drop(spilled);
        let handle = self.handle();
        // If this fails the background does it.
        let _ = give_back_private(handle);
        let version = committed?.unwrap_or(since);
        handle.shared.make_version_durable(durability, version)?;
        Ok(version)
    }
}
