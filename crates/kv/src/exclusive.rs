//! The one writer: any number of changes in place, one grouped commit.

use std::ops::Bound;

use tembo_index::{Direction, Op, VersionedIndex, Visit};

use crate::ahead::Ahead;
use crate::inner::Inner;
use crate::uncommitted::{Point, Uncommitted, check_sizes};
use crate::writer::{Tree, Writing};
use crate::{Durability, Error, Keyspace};

/// The one writer: while it lives nobody else commits. Its changes are made in place, and become
/// visible together or not at all. Reads see its own changes.
///
/// A failed write changes nothing, and the writer goes on. Dropping one that has written makes its
/// version void.
pub struct Exclusive<'s> {
    inner: &'s Inner,
    state: Writing<'s>,
    changes: Uncommitted,
    ahead: Ahead,
    saved: Option<Point>,
}

impl<'s> Exclusive<'s> {
    pub(crate) fn begin(inner: &'s Inner) -> Result<Self, Error> {
        let state = inner.lock_to_write();
        state.sound()?;
        Ok(Exclusive::of(inner, state))
    }

    /// Of a sound state.
    pub(crate) fn of(inner: &'s Inner, state: Writing<'s>) -> Self {
        let (changes, ahead) = (Uncommitted::begin(inner), Ahead::default());
        Exclusive { changes, inner, state, ahead, saved: None }
    }

    fn tree(&self, keyspace: Keyspace) -> Result<&Tree, Error> {
        self.state.tree(keyspace, self.inner)
    }

    /// The value under `key`, its own writes included.
    pub fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<&[u8]>, Error> {
        let place = self.ahead.place(keyspace, key);
        Ok(self.tree(keyspace)?.index.get_at(place, key, self.changes.view(self.inner))?)
    }

    /// Says that these keys will soon be read or changed, in this order: for many keys at once that is
    /// faster. Uncommitted nothing. What was said before is forgotten.
    pub fn look_ahead(&mut self, keyspace: Keyspace, keys: &[&[u8]]) {
        let Ok(tree) = self.state.tree(keyspace, self.inner) else { return };
        let view = self.changes.view(self.inner);
        tree.index.look_ahead(keys, view, self.ahead.begin(keyspace, keys));
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
        let view = self.changes.view(self.inner);
        Ok(self.tree(keyspace)?.index.range(from, to, direction, view, visit)?)
    }

    /// Keys in the keyspace; `None` while a background recount after open is still under way.
    pub fn count(&self, keyspace: Keyspace) -> Option<u64> {
        let tree = self.tree(keyspace).ok()?;
        tree.count().map(|count| count.saturating_add_signed(self.changes.delta(keyspace)))
    }

    /// Puts the concatenation of `parts` under `key`; true if the key was there before.
    ///
    /// # Errors
    /// [`Error::KeyTooLong`], [`Error::ValueTooLong`], [`Error::Full`], [`Error::Poisoned`]: nothing
    /// has changed.
    pub fn put(&mut self, keyspace: Keyspace, key: &[u8], parts: &[&[u8]]) -> Result<bool, Error> {
        check_sizes(key, parts)?;
        self.apply(keyspace, Op::Put { key, value: parts })
    }

    /// Removes `key`; false if it was not there.
    pub fn remove(&mut self, keyspace: Keyspace, key: &[u8]) -> Result<bool, Error> {
        if self.changes.is_empty() && self.get(keyspace, key)?.is_none() {
            return Ok(false);
        }
        self.apply(keyspace, Op::Remove { key })
    }

    /// Removes every key of the keyspace, in O(1). Its space is given back in the background.
    pub fn clear(&mut self, keyspace: Keyspace) -> Result<(), Error> {
        self.changes.clear(self.inner, &mut self.state, keyspace)?;
        self.ahead.forget();
        Ok(())
    }

    /// Remembers the changes made so far, so that [`Exclusive::rollback_to_savepoint`] comes back to them.
    /// There is one savepoint: a later one replaces it. The changes that follow have a version of their
    /// own; all become visible with the last. Costs no flush and no fence.
    pub fn savepoint(&mut self) {
        self.saved = Some(self.changes.point(self.inner));
    }

    /// Takes back what was changed after the savepoint, which stays.
    ///
    /// Durability point: what it takes back is durably void when it returns. One fence.
    ///
    /// # Errors
    /// [`Error::NoSuchSavepoint`]. [`Error::TooManyAborts`], [`Error::Full`], [`Error::Poisoned`]: nothing
    /// is taken back; drop the writer.
    pub fn rollback_to_savepoint(&mut self) -> Result<(), Error> {
        let Some(point) = &self.saved else { return Err(Error::NoSuchSavepoint) };
        self.ahead.forget();
        self.changes.take_back(self.inner, &mut self.state, point)
    }

    /// True while nothing has been written.
    pub fn is_clean(&self) -> bool {
        self.changes.is_empty()
    }

    /// Commits all or nothing and returns the version: two fences, whatever the number of changes.
    /// What wrote nothing fences nothing.
    ///
    /// Durability point: as `durability` says, capped by the region's sync policy; with it, what it has
    /// read is as durable.
    ///
    /// # Errors
    /// [`Error::Poisoned`]; then nothing of it may be shown, though it may be there after the next
    /// open.
    pub fn commit(mut self, durability: Durability) -> Result<u64, Error> {
        let (inner, changed) = (self.inner, self.changes.last());
        if let Some(version) = changed {
            inner.commit_word(&mut self.state, version)?;
            inner.publish(&mut self.state, version, std::slice::from_mut(&mut self.changes));
        }
        let version = changed.unwrap_or_else(|| inner.clock.last());
        drop(self);
        // What it has only read may be visible and not yet durable.
        inner.make_version_durable(durability, version)?;
        Ok(version)
    }

    /// Applies one change; true if the key was there before.
    pub(crate) fn change(&mut self, keyspace: Keyspace, op: Op<'_>) -> Result<bool, Error> {
        match op {
            Op::Put { key, value } => self.put(keyspace, key, value),
            Op::Remove { key } => self.remove(keyspace, key),
        }
    }

    fn apply(&mut self, keyspace: Keyspace, op: Op<'_>) -> Result<bool, Error> {
        let (Op::Put { key, .. } | Op::Remove { key }) = op;
        let place = self.ahead.place(keyspace, key);
        self.changes.apply(self.inner, &mut self.state, (keyspace, place), op)
    }
}

impl Drop for Exclusive<'_> {
    fn drop(&mut self) {
        self.changes.abort(self.inner, &mut self.state);
    }
}
