//! The store as it was at one version.

use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use tembo_index::{Cdds, DeadIntervals, Direction, VersionedIndex, View, Visit};

use crate::catalogue::open_tree;
use crate::inner::Inner;
use crate::{Error, Keyspace};

/// One version of the store, readable while the handle lives, beside any writer, without a lock.
pub struct Snapshot<'s> {
    inner: &'s Inner,
    version: u64,
    dead: Arc<DeadIntervals>,
    /// Trees by keyspace, found in the catalogue of this version at their first use.
    trees: OnceLock<Vec<Cdds>>,
}

impl<'s> Snapshot<'s> {
    /// The caller has pinned `version`.
    pub(crate) fn new(inner: &'s Inner, version: u64) -> Snapshot<'s> {
        Snapshot { inner, version, dead: inner.forest.dead(), trees: OnceLock::new() }
    }

    /// The version.
    pub fn version(&self) -> u64 {
        self.version
    }

    fn view(&self) -> View<'_> {
        View { version: self.version, dead: &self.dead }
    }

    fn tree(&self, keyspace: Keyspace) -> Result<&Cdds, Error> {
        let trees = match self.trees.get() {
            Some(trees) => trees,
            None => {
                let mut entries = self.inner.catalogue.keyspaces(self.view())?;
                entries.sort_by_key(|(_, entry)| entry.id.get());
                let open = |(_, entry): &(String, _)| open_tree(&self.inner.forest, entry);
                let trees = entries.iter().map(open).collect::<Result<Vec<_>, _>>()?;
                self.trees.get_or_init(|| trees)
            }
        };
        trees.get(keyspace.0 as usize).ok_or(Error::NoSuchKeyspace { version: self.version })
    }

    /// The value under `key`.
    pub fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<&[u8]>, Error> {
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
            (name, Keyspace(entry.id.get() as u32))
        };
        Ok(entries.into_iter().map(keyspace).collect())
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        self.inner.pins.unpin(self.version);
    }
}
