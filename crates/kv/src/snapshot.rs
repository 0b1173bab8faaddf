//! The store as it was at one version.

use std::collections::BTreeSet;
use std::ops::RangeBounds;
use std::sync::{Arc, OnceLock};

use tembo_index::{DeadIntervals, Direction, Index, Range, Value, View, Visit};

use crate::entries::{Entries, bounds};
use crate::error::InKeyspace;
use crate::media::KeyspaceEntry;
use crate::opened::Handle;
use crate::prepared::list;
use crate::tombstones::{
    Tombstone, TombstoneList, masked_difference, masked_get, masked_get_many, masked_range,
};
use crate::trees::Current;
use crate::version::PinKind;
use crate::{Error, Keyspace, Prepared};

/// One version of the store, readable while the handle lives, beside any writer, without a lock.
///
/// It owns what it needs: it can be sent to another thread, and may outlive the
/// [`Store`](crate::Store) that it came from, which stays open until then. A clone holds the same version.
pub struct Snapshot {
    handle: Handle,
    version: u64,
    kind: PinKind,
    /// Whether the pin was given away.
    is_given: bool,
    dead: Arc<DeadIntervals>,
    tombstones: TombstoneList,
    /// The keyspaces as they are published, and the version since which they are.
    current: Current,
    /// The keyspaces of this version, if they are others. They are read from the catalogue at their first use.
    older: OnceLock<Vec<(String, Arc<Index>)>>,
}

impl Snapshot {
    /// A snapshot of the visible version.
    pub(crate) fn of_visible(handle: &Handle, kind: PinKind) -> Snapshot {
        let versions = &handle.shared.versions;
        let _gate = versions.begin_snapshot();
        Snapshot::pinned(handle, versions.pins.pin_visible(kind), kind)
    }

    /// A snapshot of a retained version. If a rollback has taken it away, it shows what that went back to.
    ///
    /// # Errors
    /// [`Error::NotRetained`].
    pub(crate) fn of(handle: &Handle, version: u64) -> Result<Snapshot, Error> {
        let versions = &handle.shared.versions;
        let _gate = versions.begin_snapshot();
        if versions.pins.pin_retained(version, PinKind::Snapshot) {
            Ok(Snapshot::pinned(handle, version, PinKind::Snapshot))
        } else {
            Err(Error::NotRetained { version })
        }
    }

    fn pinned(handle: &Handle, version: u64, kind: PinKind) -> Snapshot {
        let (current, dead) = (handle.shared.published.load(), handle.shared.forest.dead());
        let tombstones = handle.shared.tombstones.load();
        let (handle, older) = (handle.clone(), OnceLock::new());
        Snapshot { handle, version, kind, is_given: false, dead, tombstones, current, older }
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Gives the pin to the caller, and returns its version. The snapshot must not be read any more.
    pub(crate) fn give_pin(&mut self) -> u64 {
        self.is_given = true;
        self.version
    }

    /// # Errors
    /// [`Error::NoSuchKeyspace`] if the keyspace was not there when the snapshot began.
    pub(crate) fn knows(&self, keyspace: Keyspace) -> Result<(), Error> {
        self.current.tree(keyspace, self.version).map(drop)
    }

    /// The version.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The ranges that were removed and are not erased.
    pub(crate) fn tombstones(&self) -> &[Tombstone] {
        &self.tombstones
    }

    pub(crate) fn dead(&self) -> &DeadIntervals {
        &self.dead
    }

    /// The trees of the keyspaces of this version, by name.
    pub(crate) fn trees(&self) -> Result<Vec<(String, KeyspaceEntry)>, Error> {
        self.handle.shared.catalogue.keyspaces(self.view())
    }

    pub(crate) fn view(&self) -> View<'_> {
        View { version: self.version, dead: &self.dead }
    }

    /// The index of a keyspace, and its name.
    fn tree(&self, keyspace: Keyspace) -> Result<(&Index, &str), Error> {
        let known = self.current.tree(keyspace, self.version)?;
        if self.current.since <= self.version {
            return Ok((&known.index, &known.name));
        }
        let older = match self.older.get() {
            Some(older) => older,
            None => {
                let indexes = &self.handle.shared.indexes;
                let open = |(name, entry)| Ok((name, indexes.open(&entry)?));
                let older = self.trees()?.into_iter().map(open).collect::<Result<_, Error>>()?;
                self.older.get_or_init(|| older)
            }
        };
        let found = older
            .iter()
            .find(|(name, _)| **name == *known.name)
            .map(|(name, tree)| (&**tree, &**name));
        found.ok_or(Error::NoSuchKeyspace { version: self.version })
    }

    /// The value under `key`.
    ///
    /// # Errors
    /// [`Error::NoSuchKeyspace`]; damage.
    pub fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Value<'_>>, Error> {
        let (index, name) = self.tree(keyspace)?;
        masked_get(&self.tombstones, index, key, self.view()).in_keyspace(name)
    }

    /// The values under some keys, in the order of the keys: what [`get`](Snapshot::get) says of each. They are looked for
    /// together, sixteen at a time, so that they are waited for together where they are not in the processor's cache, or
    /// not in memory. Any number of keys, in any order, the same one more than once too.
    ///
    /// # Errors
    /// As of [`get`](Snapshot::get): if one value cannot be read, none is returned.
    pub fn get_many<K: AsRef<[u8]>>(
        &self,
        keyspace: Keyspace,
        keys: &[K],
    ) -> Result<Vec<Option<Value<'_>>>, Error> {
        let (index, name) = self.tree(keyspace)?;
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        let mut values = Vec::new();
        let (list, view) = (&self.tombstones, self.view());
        masked_get_many(list, index, &keys, view, &mut values).in_keyspace(name)?;
        Ok(values)
    }

    /// The keys and values of a range, in order, from either end. Of everything: `range::<[u8]>(keyspace, ..)`.
    ///
    /// The iterator holds the version as this snapshot does, and may outlive it.
    ///
    /// # Errors
    /// [`Error::NoSuchKeyspace`]; [`Error::Unordered`], unless it is the range of all keys; damage.
    pub fn range<K: AsRef<[u8]> + ?Sized>(
        &self,
        keyspace: Keyspace,
        range: impl RangeBounds<K>,
    ) -> Result<Entries<'static>, Error> {
        self.handle.shared.check_range(bounds(&range))?;
        self.tree(keyspace)?;
        Ok(self.clone().into_range(keyspace, &range))
    }

    /// As [`range`](Snapshot::range), for a snapshot that is not used otherwise.
    pub(crate) fn into_range<K: AsRef<[u8]> + ?Sized>(
        self,
        keyspace: Keyspace,
        range: &impl RangeBounds<K>,
    ) -> Entries<'static> {
        Entries::new(bounds(range), move |range, visit| {
            let (index, name) = self.tree(keyspace)?;
            masked_range(&self.tombstones, index, range, self.view(), visit).in_keyspace(name)
        })
    }

    /// Calls `visit` with each key and value of a range, in the given direction, until it returns false: faster than
    /// [`range`](Snapshot::range), for nothing is copied.
    ///
    /// # Errors
    /// [`Error::NoSuchKeyspace`]; [`Error::Unordered`], unless it is the range of all keys; damage.
    pub fn range_with<K: AsRef<[u8]> + ?Sized>(
        &self,
        keyspace: Keyspace,
        range: impl RangeBounds<K>,
        direction: Direction,
        visit: &mut Visit<'_>,
    ) -> Result<(), Error> {
        let (from, to) = bounds(&range);
        self.handle.shared.check_range((from, to))?;
        let range = Range { from, to, direction };
        let (index, name) = self.tree(keyspace)?;
        masked_range(&self.tombstones, index, range, self.view(), visit).in_keyspace(name)
    }

    /// The keys of a range that differ between an earlier snapshot of the same store and this one, in order: put, or removed.
    /// These may include keys that were put with the same value. Only these two versions need be retained.
    ///
    /// In an NV-Tree it passes over leaves in which nothing is that new. It takes memory for the keys.
    ///
    /// # Errors
    /// [`Error::NoSuchKeyspace`]: this one has no such keyspace; [`Error::Unordered`], unless it is the range of all keys;
    /// damage.
    pub fn changed_keys<K: AsRef<[u8]> + ?Sized>(
        &self,
        since: &Snapshot,
        keyspace: Keyspace,
        range: impl RangeBounds<K>,
    ) -> Result<BTreeSet<Vec<u8>>, Error> {
        let (from, to) = bounds(&range);
        self.handle.shared.check_range((from, to))?;
        let range = Range { from, to, direction: Direction::Forward };
        let (index, name) = self.tree(keyspace)?;
        let before = match since.tree(keyspace) {
            Ok((before, _)) if before.object() == index.object() => {
                let versions = (since.version, self.view());
                return masked_difference(&self.tombstones, index, range, versions)
                    .in_keyspace(name);
            }
            Ok(before) => Some(before),
            Err(Error::NoSuchKeyspace { .. }) => None,
            Err(error) => return Err(error),
        };
        // The keyspace was made, or cleared, between the two versions.
        let mut keys = BTreeSet::new();
        let mut visit = |key: &[u8], _: Value<'_>| {
            keys.insert(key.to_vec());
            true
        };
        masked_range(&self.tombstones, index, range, self.view(), &mut visit).in_keyspace(name)?;
        if let Some((before, name)) = before {
            masked_range(&since.tombstones, before, range, since.view(), &mut visit)
                .in_keyspace(name)?;
        }
        Ok(keys)
    }

    /// The transactions that were prepared and not decided in this version, by id: a rollback to it prepares them
    /// again.
    ///
    /// # Errors
    /// Damage.
    pub fn prepared(&self) -> Result<Vec<Prepared>, Error> {
        list(&self.handle.shared.catalogue, self.view())
    }

    /// The keyspaces of this version.
    ///
    /// # Errors
    /// Damage.
    pub fn keyspaces(&self) -> Result<Vec<(String, Keyspace)>, Error> {
        let keyspace = |(name, entry): (String, KeyspaceEntry)| {
            let id = entry.id.get() as u32;
            let known = self.current.trees.get(id as usize);
            (name, Keyspace { id, incarnation: known.map_or(0, |known| known.incarnation) })
        };
        Ok(self.trees()?.into_iter().map(keyspace).collect())
    }
}

impl Clone for Snapshot {
    fn clone(&self) -> Snapshot {
        self.handle.shared.versions.pins.pin(self.version, PinKind::Snapshot);
        Snapshot {
            handle: self.handle.clone(),
            version: self.version,
            kind: PinKind::Snapshot,
            is_given: false,
            dead: self.dead.clone(),
            tombstones: self.tombstones.clone(),
            current: self.current.clone(),
            older: OnceLock::new(),
        }
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        if !self.is_given {
            let shared = &self.handle.shared;
            shared.versions.pins.unpin(self.version, self.kind);
            shared.let_go(self.version);
        }
    }
}
