//! The store as it was at one version.

use std::ops::Bound;
use std::sync::{Arc, OnceLock, PoisonError};

use tembo_index::{DeadIntervals, Direction, Index, Value, VersionedIndex, View, Visit};

use crate::catalogue::open_tree;
use crate::format::KeyspaceEntry;
use crate::inner::{Current, Inner};
use crate::{Error, Keyspace};

/// One version of the store, readable while the handle lives, beside any writer, without a lock.
pub struct Snapshot<'s> {
    inner: &'s Inner,
    version: u64,
    /// Somebody else unpins the version.
    is_given: bool,
    dead: Arc<DeadIntervals>,
    /// The keyspaces there are now, and whether they are the same in this version.
    current: Current,
    /// Else those of this version, found in the catalogue at their first use.
    older: OnceLock<Vec<(String, Index)>>,
}

impl<'s> Snapshot<'s> {
    /// Of the visible version.
    pub(crate) fn of_visible(inner: &'s Inner) -> Snapshot<'s> {
        let _gate = inner.gate.read().unwrap_or_else(PoisonError::into_inner);
        Snapshot::pinned(inner, inner.pins.pin_visible())
    }

    /// Of a retained version.
    pub(crate) fn of(inner: &'s Inner, version: u64) -> Result<Snapshot<'s>, Error> {
        let _gate = inner.gate.read().unwrap_or_else(PoisonError::into_inner);
        if inner.pins.pin_retained(version) {
            Ok(Snapshot::pinned(inner, version))
        } else {
            Err(Error::NotRetained { version })
        }
    }

    fn pinned(inner: &'s Inner, version: u64) -> Snapshot<'s> {
        let current = inner.current.read().unwrap_or_else(PoisonError::into_inner).clone();
        let (dead, older) = (inner.forest.dead(), OnceLock::new());
        Snapshot { inner, version, is_given: false, dead, current, older }
    }

    /// Leaves the pin of the version, which is returned, to the caller. Not to be read any more.
    pub(crate) fn give_pin(&mut self) -> u64 {
        self.is_given = true;
        self.version
    }

    /// # Errors
    /// [`Error::NoSuchKeyspace`] if the keyspace was not there when the snapshot began.
    pub(crate) fn knows(&self, keyspace: Keyspace) -> Result<(), Error> {
        let known = self.current.trees.get(keyspace.id as usize);
        match known {
            Some(known) if known.incarnation == keyspace.incarnation => Ok(()),
            _ => Err(Error::NoSuchKeyspace { version: self.version }),
        }
    }

    /// The version.
    pub fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn dead(&self) -> &DeadIntervals {
        &self.dead
    }

    /// The trees of the keyspaces of this version, by name.
    pub(crate) fn trees(&self) -> Result<Vec<(String, KeyspaceEntry)>, Error> {
        self.inner.catalogue.keyspaces(self.view())
    }

    pub(crate) fn index_of(&self, entry: KeyspaceEntry) -> Result<Arc<Index>, Error> {
        let mut indexes = self.inner.indexes(&[entry])?;
        indexes.pop().ok_or(Error::Damaged { what: "a tree" })
    }

    pub(crate) fn view(&self) -> View<'_> {
        View { version: self.version, dead: &self.dead }
    }

    fn tree(&self, keyspace: Keyspace) -> Result<&Index, Error> {
        let gone = Error::NoSuchKeyspace { version: self.version };
        let known = self.current.trees.get(keyspace.id as usize);
        let Some(known) = known.filter(|known| known.incarnation == keyspace.incarnation) else {
            return Err(gone);
        };
        if self.current.since <= self.version {
            return Ok(&known.index);
        }
        let older = match self.older.get() {
            Some(older) => older,
            None => {
                let entries = self.inner.catalogue.keyspaces(self.view())?;
                let open = |(name, entry)| Ok((name, open_tree(&self.inner.forest, &entry)?));
                let older = entries.into_iter().map(open).collect::<Result<Vec<_>, Error>>()?;
                self.older.get_or_init(|| older)
            }
        };
        older.iter().find(|(name, _)| *name == known.name).map(|(_, tree)| tree).ok_or(gone)
    }

    /// The value under `key`.
    pub fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Value<'_>>, Error> {
        Ok(self.tree(keyspace)?.get(key, self.view())?)
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
        Ok(self.tree(keyspace)?.range(from, to, direction, self.view(), visit)?)
    }

    /// The keyspaces of this version.
    pub fn keyspaces(&self) -> Result<Vec<(String, Keyspace)>, Error> {
        let entries = self.inner.catalogue.keyspaces(self.view())?;
        let keyspace = |(name, entry): (String, crate::format::KeyspaceEntry)| {
            let id = entry.id.get() as u32;
            let known = self.current.trees.get(id as usize);
            (name, Keyspace { id, incarnation: known.map_or(0, |known| known.incarnation) })
        };
        Ok(entries.into_iter().map(keyspace).collect())
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        if !self.is_given {
            self.inner.pins.unpin(self.version);
            self.inner.let_go(self.version);
        }
    }
}
