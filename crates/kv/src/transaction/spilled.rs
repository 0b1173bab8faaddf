//! A transaction that has outgrown memory: its writes are made where they belong, under the writer's lock.
//!
//! It has the lock between its calls too, whichever threads they come from. Its changes
//! are stamped with a version of their own and fenced, batch by batch, by the thread that has made them;
//! one store of the commit word makes them happen, and a dead interval, if it is dropped, makes that they
//! have not. Snapshots are older and see nothing of them. After a savepoint its changes have another
//! version, so that going back is a dead interval too; all of them become visible with the last.

use tembo_index::{Index, Op, Place, VersionedIndex, View};

use crate::commit::{
    Meanwhile, Point, Uncommitted, WriteSet, validate_range, validate_reads, validate_writes,
};
use crate::ledger::publish;
use crate::opened::Handle;
use crate::read_set::ReadSet;
use crate::tombstones::KeyRange;
use crate::write::{Engine, Owned};
use crate::{Access, Error, Keyspace};

/// What a transaction has made in place.
pub(super) struct Spilled {
    writing: Owned<Handle>,
    changes: Uncommitted,
    /// The last version of others.
    before: u64,
    /// Keys that it has removed and that were absent before it, so that no index knows of it. Some of it may have been taken back.
    absent: Vec<(Keyspace, Vec<u8>)>,
}

impl Spilled {
    /// Takes the writer's lock, for a transaction that began at `since`.
    ///
    /// # Errors
    /// [`Error::Conflict`]: no other transaction commits before this one does, so better to learn at once that it
    /// cannot. [`Error::WouldDeadlock`].
    pub(super) fn begin(
        handle: &Handle,
        since: u64,
        writes: &WriteSet,
        reads: &ReadSet,
    ) -> Result<Spilled, Error> {
        let mut writing = Engine::own_to_write(handle)?;
        writing.writable()?;
        let (shared, ledger) = writing.parts();
        let (before, dead) = (shared.versions.clock.last(), ledger.dead.clone());
        let meanwhile = Meanwhile { since, now: View { version: before, dead: &dead } };
        validate_writes(shared, ledger, writes, meanwhile)?;
        validate_reads(shared, ledger, reads, meanwhile)?;
        let changes = Uncommitted::begin(shared);
        Ok(Spilled { writing, changes, before, absent: Vec::new() })
    }

    /// Whether more writes are as valid as the first ones.
    ///
    /// # Errors
    /// [`Error::Conflict`].
    pub(super) fn validate(&mut self, since: u64, writes: &WriteSet) -> Result<(), Error> {
        self.writing.note_thread();
        self.writing.sound()?;
        let (shared, ledger) = self.writing.parts();
        let dead = ledger.dead.clone();
        let now = View { version: self.before, dead: &dead };
        validate_writes(shared, ledger, writes, Meanwhile { since, now })
    }

    /// Makes these writes in place; the points behind the writes that end at each of `ends`.
    pub(super) fn make(&mut self, writes: &WriteSet, ends: &[usize]) -> Result<Vec<Point>, Error> {
        let Spilled { writing, changes, absent, before } = self;
        let before = *before;
        let (shared, ledger) = writing.parts();
        let mut apply = |changes: &mut Uncommitted, from_to| {
            writes.each_between(from_to, |keyspace, op| {
                changes.apply(shared, ledger, (keyspace, Place::default()), op)?;
                let Op::Remove { key } = op else { return Ok(()) };
                let view = changes.view(shared);
                let index = ledger.trees.tree(keyspace, view.version)?.index();
                if index.changed(key, before, view)?.is_none() {
                    absent.push((keyspace, key.to_vec()));
                }
                Ok(())
            })
        };
        let (mut points, mut done, mut from) = (Vec::new(), Ok(()), 0);
        for &to in ends {
            done = done.and_then(|()| apply(changes, (from, to)));
            points.push(changes.point(shared));
            from = to;
        }
        done = done.and_then(|()| apply(changes, (from, writes.len())));
        // ORDER: what this thread has flushed is durable before the commit, which another may make.
        shared.region().fence_flushed("kv.spill.entries");
        done.map(|()| points)
    }

    /// Where the changes are.
    pub(super) fn point(&mut self) -> Point {
        self.changes.point(self.writing.shared())
    }

    /// Takes back what was made after a point. On an error nothing has changed.
    pub(super) fn take_back(&mut self, point: &Point) -> Result<(), Error> {
        self.writing.note_thread();
        let (shared, ledger) = self.writing.parts();
        self.changes.take_back(shared, ledger, point)
    }

    /// Removes a range that no other transaction has changed.
    ///
    /// # Errors
    /// [`Error::Conflict`]; those of a change.
    pub(super) fn remove_range(
        &mut self,
        since: u64,
        keyspace: Keyspace,
        range: KeyRange,
    ) -> Result<(), Error> {
        self.writing.note_thread();
        let (shared, ledger) = self.writing.parts();
        let dead = ledger.dead.clone();
        let now = View { version: self.before, dead: &dead };
        let meanwhile = Meanwhile { since, now };
        validate_range(shared, ledger, (keyspace, &range, Access::Write), meanwhile)?;
        self.changes.remove_range(shared, ledger, (keyspace, range))
    }

    /// The version of the transaction's own tombstone that covers the key, if there is one.
    fn own_tombstone(&self, index: &Index, key: &[u8]) -> Option<u64> {
        let cell = index.object().to_bits();
        let list = self.writing.shared().tombstones.load();
        let of_key = list.iter().filter(|one| one.cell == cell && one.range.contains(key));
        of_key.map(|one| one.version).filter(|&version| version > self.before).max()
    }

    /// What was written under the key: a value, or that it is removed.
    pub(super) fn own(
        &self,
        keyspace: Keyspace,
        key: &[u8],
    ) -> Result<Option<Option<Vec<u8>>>, Error> {
        let (index, now) = (self.index(keyspace)?, self.view());
        let tombstone = self.own_tombstone(index, key);
        if index.changed(key, tombstone.unwrap_or(self.before), now)?.is_none() {
            return Ok(tombstone.map(|_| None));
        }
        Ok(Some(index.get(key, now)?.map(|value| value.to_vec())))
    }

    pub(super) fn index(&self, keyspace: Keyspace) -> Result<&Index, Error> {
        self.writing.note_thread();
        Ok(self.writing.trees.tree(keyspace, self.before)?.index())
    }

    /// Keys that it has removed and that were absent before it, some of which it may have taken back.
    pub(super) fn absent(&self) -> &[(Keyspace, Vec<u8>)] {
        &self.absent
    }

    /// All keyspaces.
    pub(super) fn keyspaces(&self) -> Vec<Keyspace> {
        (0..self.writing.trees.next_id()).filter_map(|id| self.writing.trees.by_id(id)).collect()
    }

    /// Everything, its own changes included.
    pub(super) fn view(&self) -> View<'_> {
        self.changes.view(self.writing.shared())
    }

    /// The last version of others.
    pub(super) fn before(&self) -> u64 {
        self.before
    }

    /// Commits, of a transaction that began at `since`; the version, if anything was made. Gives the writer's lock
    /// back.
    pub(super) fn commit(mut self, since: u64, reads: &ReadSet) -> Result<Option<u64>, Error> {
        let (shared, ledger) = self.writing.parts();
        let dead = ledger.dead.clone();
        let now = View { version: self.before, dead: &dead };
        validate_reads(shared, ledger, reads, Meanwhile { since, now })?;
        let last = self.changes.last();
        if let Some(last) = last {
            publish(shared, ledger, last, std::slice::from_mut(&mut self.changes))?;
        }
        Ok(last)
    }
}

impl Drop for Spilled {
    fn drop(&mut self) {
        let (shared, ledger) = self.writing.parts();
        self.changes.abort(shared, ledger);
    }
}
