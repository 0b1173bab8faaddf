//! The one writer: any number of changes in place, one grouped commit.

use std::ops::Bound;
use std::sync::{Arc, MutexGuard};

use tembo_index::{
    DeadIntervals, Direction, Op, Retained, Stamp, VersionedIndex, View, Visit, Writer,
};

use crate::ahead::Ahead;
use crate::inner::{Inner, create_tree};
use crate::ledger::Ledger;
use crate::writer::{Tree, WriterState};
use crate::{Durability, Error, KEY_SIZE_MAX, Keyspace, VALUE_SIZE_MAX};

/// The one writer: while it lives nobody else commits. Its changes are made in place, and become
/// visible together or not at all. Reads see its own changes.
///
/// A failed write changes nothing, and the writer goes on. Dropping one that has written makes its
/// version void.
pub struct Exclusive<'s> {
    inner: &'s Inner,
    state: MutexGuard<'s, WriterState>,
    /// Drawn at the first write.
    version: Option<u64>,
    /// Whether anything carries its stamp.
    written: bool,
    retained: Arc<Retained>,
    dead: Arc<DeadIntervals>,
    /// What the changes add to each keyspace's count.
    deltas: Vec<(usize, i64)>,
    /// Keys that they remove from each keyspace.
    removed: Vec<(usize, u64)>,
    /// Trees that were cleared, to be put back by an abort.
    cleared: Vec<(usize, Tree)>,
    ahead: Ahead,
}

impl<'s> Exclusive<'s> {
    pub(crate) fn begin(inner: &'s Inner) -> Result<Self, Error> {
        let state = inner.lock();
        state.sound()?;
        Ok(Exclusive::of(inner, state))
    }

    /// Of a sound state.
    pub(crate) fn of(inner: &'s Inner, state: MutexGuard<'s, WriterState>) -> Self {
        Exclusive {
            retained: inner.pins.retained(),
            dead: inner.forest.dead(),
            inner,
            state,
            version: None,
            written: false,
            deltas: Vec::new(),
            removed: Vec::new(),
            cleared: Vec::new(),
            ahead: Ahead::default(),
        }
    }

    /// Its own version, or the last one before it.
    fn newest(&self) -> u64 {
        self.version.unwrap_or_else(|| self.inner.clock.last())
    }

    fn view(&self) -> View<'_> {
        View { version: self.newest(), dead: &self.dead }
    }

    fn tree(&self, keyspace: Keyspace) -> Result<&Tree, Error> {
        let version = self.inner.clock.last();
        let tree = self.state.trees.get(keyspace.id as usize);
        tree.filter(|tree| tree.incarnation == keyspace.incarnation)
            .ok_or(Error::NoSuchKeyspace { version })
    }

    /// The value under `key`, this transaction's own writes included.
    pub fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<&[u8]>, Error> {
        let place = self.ahead.place(keyspace, key);
        Ok(self.tree(keyspace)?.index.get_at(place, key, self.view())?)
    }

    /// Says that these keys will soon be read or changed, in this order: for many keys at once that is
    /// faster. Changes nothing. What was said before is forgotten.
    pub fn look_ahead(&mut self, keyspace: Keyspace, keys: &[&[u8]]) {
        let view = View { version: self.newest(), dead: &self.dead };
        let Some(tree) = self.state.trees.get(keyspace.id as usize) else { return };
        if tree.incarnation == keyspace.incarnation {
            tree.index.look_ahead(keys, view, self.ahead.begin(keyspace, keys));
        }
    }

    /// Calls `visit` with each key and value in the range, in order, until it returns false.
    pub fn range(
        &self,
        keyspace: Keyspace,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        direction: Direction,
        visit: &mut Visit<'_>,
    ) -> Result<(), Error> {
        Ok(self.tree(keyspace)?.index.range(from, to, direction, self.view(), visit)?)
    }

    /// Keys in the keyspace; `None` while a background recount after open is still under way.
    pub fn count(&self, keyspace: Keyspace) -> Option<u64> {
        let delta: i64 =
            self.deltas.iter().filter(|(id, _)| *id == keyspace.id as usize).map(|(_, d)| d).sum();
        let tree = self.tree(keyspace).ok()?;
        tree.count().map(|count| count.saturating_add_signed(delta))
    }

    /// Puts the concatenation of `parts` under `key`; true if the key was there before.
    ///
    /// # Errors
    /// [`Error::KeyTooLong`], [`Error::ValueTooLong`], [`Error::Full`], [`Error::Poisoned`]: nothing
    /// has changed.
    pub fn put(&mut self, keyspace: Keyspace, key: &[u8], parts: &[&[u8]]) -> Result<bool, Error> {
        check_sizes(key, parts)?;
        let existed = self.apply(keyspace, Op::Put { key, value: parts })?;
        self.add(keyspace, i64::from(!existed));
        Ok(existed)
    }

    /// Removes `key`; false if it was not there.
    pub fn remove(&mut self, keyspace: Keyspace, key: &[u8]) -> Result<bool, Error> {
        if self.version.is_none() && self.get(keyspace, key)?.is_none() {
            return Ok(false);
        }
        let existed = self.apply(keyspace, Op::Remove { key })?;
        self.add(keyspace, -i64::from(existed));
        Ok(existed)
    }

    /// Removes every key of the keyspace, in O(1). Its space is given back in the background.
    pub fn clear(&mut self, keyspace: Keyspace) -> Result<(), Error> {
        let id = keyspace.id as usize;
        let name = self.tree(keyspace)?.name.clone();
        let (inner, stamp) = (self.inner, self.stamp()?);
        let mut writer = Writer {
            stamp,
            dead: &self.dead,
            retained: &self.retained,
            retired: &mut self.state.unlinked,
        };
        let mut tree = create_tree(inner, &name, id as u64, &mut writer)?;
        tree.incarnation = keyspace.incarnation;
        self.written = true;
        self.ahead.forget();
        let before = std::mem::replace(&mut self.state.trees[id], tree);
        self.cleared.push((id, before));
        self.deltas.retain(|(other, _)| *other != id);
        Ok(())
    }

    /// True while nothing has been written.
    pub fn is_clean(&self) -> bool {
        self.version.is_none()
    }

    /// Commits all or nothing and returns the version: two fences, whatever the number of changes.
    /// A transaction that wrote nothing costs nothing.
    ///
    /// Durability point: as `durability` says, capped by the region's sync policy.
    ///
    /// # Errors
    /// [`Error::Poisoned`]; then nothing of it may be shown, though it may be there after the next
    /// open.
    pub fn commit(mut self, durability: Durability) -> Result<u64, Error> {
        let Some(version) = self.version else { return Ok(self.inner.clock.last()) };
        let inner = self.inner;
        inner.commit_word(&mut self.state, version)?;
        self.version = None;
        self.publish(version);
        drop(self);
        inner.make_durable(durability)?;
        Ok(version)
    }

    /// Applies one change; true if the key was there before.
    pub(crate) fn change(&mut self, keyspace: Keyspace, op: Op<'_>) -> Result<bool, Error> {
        match op {
            Op::Put { key, value } => self.put(keyspace, key, value),
            Op::Remove { key } => self.remove(keyspace, key),
        }
    }

    fn publish(&mut self, version: u64) {
        let state = &mut *self.state;
        for (id, delta) in self.deltas.drain(..) {
            state.trees[id].delta += delta;
        }
        if !self.cleared.is_empty() {
            self.inner.tell_trees(state, version);
        }
        for (_, tree) in self.cleared.drain(..) {
            state.cleared.push((tree.entry.birth.get(), version));
        }
        self.inner.pins.publish(version);
        self.inner.settle(state);
        for (id, count) in self.removed.drain(..) {
            self.inner.note_removed(state, id, count);
        }
    }

    fn apply(&mut self, keyspace: Keyspace, op: Op<'_>) -> Result<bool, Error> {
        self.tree(keyspace)?;
        let stamp = self.stamp()?;
        let state = &mut *self.state;
        let mut writer = Writer {
            stamp,
            dead: &self.dead,
            retained: &self.retained,
            retired: &mut state.unlinked,
        };
        let (Op::Put { key, .. } | Op::Remove { key }) = op;
        let place = self.ahead.place(keyspace, key);
        let applied = state.trees[keyspace.id as usize].index.apply_at(place, op, &mut writer);
        // A refusal has changed nothing; damage may have.
        self.written |= !matches!(applied, Err(tembo_index::Error::Pool(_)));
        Ok(applied?)
    }

    fn stamp(&mut self) -> Result<Stamp, Error> {
        let version = match self.version {
            Some(version) => version,
            None => self.inner.next_version(&mut self.state)?,
        };
        self.version = Some(version);
        Ok(Ledger::grouped(version))
    }

    fn add(&mut self, keyspace: Keyspace, delta: i64) {
        let id = keyspace.id as usize;
        if delta < 0 {
            match self.removed.iter_mut().find(|(other, _)| *other == id) {
                Some((_, count)) => *count += 1,
                None => self.removed.push((id, 1)),
            }
        }
        match self.deltas.iter_mut().find(|(other, _)| *other == id) {
            _ if delta == 0 => {}
            Some((_, sum)) => *sum += delta,
            None => self.deltas.push((id, delta)),
        }
    }
}

/// # Errors
/// [`Error::KeyTooLong`], [`Error::ValueTooLong`].
pub(crate) fn check_sizes(key: &[u8], parts: &[&[u8]]) -> Result<(), Error> {
    let size = parts.iter().map(|part| part.len()).sum();
    if size > VALUE_SIZE_MAX {
        return Err(Error::ValueTooLong { size });
    }
    if key.len() > KEY_SIZE_MAX {
        return Err(Error::KeyTooLong { size: key.len() });
    }
    Ok(())
}

impl Drop for Exclusive<'_> {
    fn drop(&mut self) {
        let Some(version) = self.version else { return };
        let state = &mut *self.state;
        for (id, tree) in self.cleared.drain(..).rev() {
            state.trees[id] = tree;
        }
        if self.written {
            self.inner.abort(state, version);
        }
    }
}
