//! Writes of a transaction that has outgrown its memory: they are in the pool, where no other transaction sees them.
//!
//! # How
//! The writes go to *private trees* (`trees/private.rs`), one for each keyspace, by key: the last write of each. Nothing on
//! media names them, so a crash leaves nothing, and their space comes back with the sweep. They are changed under the writer's
//! lock, a few keys at a time, so that others go on meanwhile; the transaction reads them without a lock.
//!
//! ```text
//!   put, remove ──► WriteSet (memory) ──► full ──► private trees (pool)      others commit all along
//!   own reads: memory, then private trees, then ranges that it has removed, then its snapshot
//!   commit: writer's lock ──► validate ranges, keys, reads ──► changes in place ──► publish ──► give back
//! ```
//! A range that it removes is kept in memory. What of it was written before is forgotten, so that what the private trees have
//! was written after the last removal of a range that covers it.
//!
//! # Savepoints
//! While there is one, a change first notes what was there before, in one more private tree, by number. To go back is to
//! restore these from the last one on.
//!
//! # What it costs
//! A write that is spilled is written twice, and the pool needs space for both until the commit. The commit keeps the
//! writer's lock while it validates and makes the changes: others wait in proportion to the number of its writes, not to its
//! life: about 2 µs a key over the NV-Tree and 3 µs over the CDDS B-Tree, as for a commit of as much from memory.
//! Entries cannot be put in place earlier under a stamp that counts later: their version would be older than snapshots
//! that were taken meanwhile, which would change.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use tembo_index::{Direction, Index, Op, Range, Value, VersionedIndex};

use super::before::Before;
use super::private::{VIEW, create, set};
use crate::commit::WriteSet;
use crate::entries::Entries;
use crate::ledger::reclaim;
use crate::maintain::give_back_private;
use crate::opened::Handle;
use crate::tombstones::KeyRange;
use crate::write::Locked;
use crate::{Error, Keyspace};

/// Writes that are made while the writer's lock is held.
const BATCH: usize = 64;

/// Values of private trees begin with one of these.
const REMOVED: u8 = 0;
const PUT: u8 = 1;

/// The range of all keys.
const ALL: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Unbounded, Bound::Unbounded);

/// The last write of a key: a value, or `None` for a removal.
pub(super) type Written = Option<Vec<u8>>;

/// A point to which the writes can be taken back.
#[derive(Clone, Copy)]
pub(super) struct SpilledPoint {
    /// Number of notes of earlier entries.
    notes: u64,
    /// Number of ranges that were removed.
    removed: usize,
}

/// Writes in the pool.
pub(super) struct Spilled {
    handle: Handle,
    trees: BTreeMap<Keyspace, Arc<Index>>,
    /// Ranges that were removed, in order.
    removed: Vec<(Keyspace, KeyRange)>,
    /// The entries before each change since the first savepoint.
    before: Before,
    /// Whether it was taken back in part, so that it can only be dropped.
    is_broken: bool,
}

impl Spilled {
    /// No writes yet.
    pub(super) fn begin(handle: &Handle) -> Result<Spilled, Error> {
        // The space of earlier private trees may be needed.
        give_back_private(handle)?;
        let (handle, before) = (handle.clone(), Before::default());
        let (trees, removed) = (BTreeMap::new(), Vec::new());
        Ok(Spilled { handle, trees, removed, before, is_broken: false })
    }

    /// Takes these writes in. Returns the points behind the writes that end at each of `ends`. `is_saved`: there is an earlier
    /// point. After an error the same writes can be taken in again.
    ///
    /// # Errors
    /// Those of a change. If there are `ends`, what was taken in is taken back: a point in memory means that nothing of what
    /// follows it is here. If that fails too, it can only be dropped.
    pub(super) fn take_in(
        &mut self,
        writes: &WriteSet,
        ends: &[usize],
        is_saved: bool,
    ) -> Result<Vec<SpilledPoint>, Error> {
        if ends.is_empty() {
            return self.take_parts(writes, ends, is_saved);
        }
        let before = self.point();
        let taken = self.take_parts(writes, ends, true);
        if taken.is_err() {
            // If this fails, it is noted, and the first error says why.
            let _ = self.take_back(before);
        }
        taken
    }

    fn take_parts(
        &mut self,
        writes: &WriteSet,
        ends: &[usize],
        is_saved: bool,
    ) -> Result<Vec<SpilledPoint>, Error> {
        let (mut points, mut from) = (Vec::new(), 0);
        for &end in ends {
            self.take_between(writes, (from, end), is_saved)?;
            points.push(self.point());
            from = end;
        }
        self.take_between(writes, (from, writes.len()), is_saved)?;
        Ok(points)
    }

    fn take_between(
        &mut self,
        writes: &WriteSet,
        (mut from, end): (usize, usize),
        is_saved: bool,
    ) -> Result<(), Error> {
        while from < end {
            let to = end.min(from + BATCH);
            let handle = self.handle.clone();
            let mut writing = handle.lock_to_write()?;
            writing.writable()?;
            writes.each_between((from, to), |keyspace, op| {
                let (key, entry) = match op {
                    Op::Put { key, value } => (key, [&[&[PUT][..]], value].concat()),
                    Op::Remove { key } => (key, vec![&[REMOVED][..]]),
                };
                self.change(&mut writing, (keyspace, key), Some(&entry), is_saved)
            })?;
            from = to;
        }
        Ok(())
    }

    /// Changes the private entry of a key. `None`: removes it.
    fn change(
        &mut self,
        writing: &mut Locked<'_>,
        (keyspace, key): (Keyspace, &[u8]),
        entry: Option<&[&[u8]]>,
        is_saved: bool,
    ) -> Result<(), Error> {
        let tree = match self.trees.get(&keyspace) {
            Some(tree) => tree.clone(),
            None if entry.is_none() => return Ok(()),
            None => self.trees.entry(keyspace).or_insert(create(writing)?).clone(),
        };
        if is_saved {
            let before = tree.get(key, VIEW)?;
            self.before.note(writing, (keyspace, key), before)?;
        }
        set(writing, &tree, key, entry)
    }

    /// Removes a range. Writes that are taken in afterwards count as later.
    pub(super) fn remove_range(
        &mut self,
        keyspace: Keyspace,
        range: KeyRange,
        is_saved: bool,
    ) -> Result<(), Error> {
        self.removed.push((keyspace, range.clone()));
        // If this fails half-way, some of the transaction's own writes in the range are removed.
        self.is_broken = true;
        let (from, to) = range.bounds();
        loop {
            let inside = Range { from, to, direction: Direction::Forward };
            let keys = self.keys(keyspace, inside, BATCH)?;
            if keys.is_empty() {
                self.is_broken = false;
                return Ok(());
            }
            let handle = self.handle.clone();
            let mut writing = handle.lock_to_write()?;
            for key in keys {
                self.change(&mut writing, (keyspace, &key), None, is_saved)?;
            }
        }
    }

    /// The current point.
    pub(super) fn point(&self) -> SpilledPoint {
        SpilledPoint { notes: self.before.len(), removed: self.removed.len() }
    }

    /// Takes back the writes after a point.
    ///
    /// # Errors
    /// Those of a change: it was taken back in part, and can only be dropped.
    pub(super) fn take_back(&mut self, point: SpilledPoint) -> Result<(), Error> {
        self.is_broken = true;
        while self.before.len() > point.notes {
            let handle = self.handle.clone();
            let mut writing = handle.lock_to_write()?;
            // What is taken back makes room: its own, and that of the notes which are not needed any more.
            let (shared, ledger) = writing.parts();
            reclaim(shared, ledger);
            let _relief = shared.pool().relief();
            for _ in 0..BATCH {
                if self.before.len() == point.notes {
                    break;
                }
                let (keyspace, key, entry) = self.before.last()?;
                if let Some(tree) = self.trees.get(&keyspace) {
                    let entry = entry.as_ref().map(|entry| [&entry[..]]);
                    set(&mut writing, tree, &key, entry.as_ref().map(|entry| &entry[..]))?;
                }
                self.before.forget_last(&mut writing)?;
            }
        }
        self.removed.truncate(point.removed);
        self.is_broken = false;
        Ok(())
    }

    /// # Errors
    /// [`Error::Damaged`] if it was taken back in part.
    pub(super) fn check_whole(&self) -> Result<(), Error> {
        match self.is_broken {
            true => Err(Error::Damaged { what: "a transaction that was taken back in part" }),
            false => Ok(()),
        }
    }

    /// The last write of the key: a value, or a removal.
    pub(super) fn own(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Written>, Error> {
        if let Some(tree) = self.trees.get(&keyspace)
            && let Some(entry) = tree.get(key, VIEW)?
        {
            return decode(&entry).map(Some);
        }
        let mut removed = self.removed.iter();
        let is_removed = removed.any(|(other, range)| *other == keyspace && range.contains(key));
        Ok(is_removed.then_some(None))
    }

    /// The first `most` keys of a range that are in private trees, in the order of its direction.
    pub(super) fn keys(
        &self,
        keyspace: Keyspace,
        range: Range<'_>,
        most: usize,
    ) -> Result<Vec<Arc<[u8]>>, Error> {
        let mut keys: Vec<Arc<[u8]>> = Vec::new();
        if let Some(tree) = self.trees.get(&keyspace) {
            tree.range(range.from, range.to, range.direction, VIEW, &mut |key, _| {
                keys.push(key.into());
                keys.len() < most
            })?;
        }
        Ok(keys)
    }

    /// Ranges that were removed, in order. They count as earlier than all writes that [`each`](Spilled::each) gives.
    pub(super) fn removed(&self) -> &[(Keyspace, KeyRange)] {
        &self.removed
    }

    /// Calls the function with each key that was written and its last write, by keyspace and key.
    pub(super) fn each(
        &self,
        mut each: impl FnMut(Keyspace, &[u8], Written) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for (&keyspace, tree) in &self.trees {
            let entries = Entries::new(ALL, |range, visit| {
                Ok(tree.range(range.from, range.to, range.direction, VIEW, visit)?)
            });
            for entry in entries {
                let (key, entry) = entry?;
                each(keyspace, &key, decode(&Value::from(&entry[..]))?)?;
            }
        }
        Ok(())
    }
}

impl Drop for Spilled {
    fn drop(&mut self) {
        let shared = &self.handle.shared;
        let trees = self.trees.values().chain(self.before.tree());
        let mut has_any = false;
        for tree in trees {
            shared.private.give_up(tree);
            has_any = true;
        }
        if has_any {
            shared.wake.want();
        }
    }
}

fn decode(entry: &Value<'_>) -> Result<Written, Error> {
    match entry.array::<1>(0) {
        Some([PUT]) => Ok(entry.slice(1..entry.len()).map(|value| value.to_vec())),
        Some([REMOVED]) => Ok(None),
        _ => Err(Error::Damaged { what: "an entry of a private tree" }),
    }
}
