//! A keyspace's tree: what readers know of it, and what the writer does.

use std::sync::Arc;

use tembo_index::{Index, IndexKind, Retained, VersionedIndex};

use crate::media::KeyspaceEntry;
use crate::{KeyCount, Keyspace};

/// A keyspace as readers know it.
///
/// It has lines of its own, away from the counts of an `Arc`, which each snapshot changes: each read looks here.
#[derive(Clone)]
#[repr(align(128))]
pub(crate) struct Known {
    pub(crate) name: Arc<str>,
    pub(crate) index: Arc<Index>,
    /// The object of the tree's root cell.
    pub(crate) cell: u64,
    /// The incarnation of the keyspace's number since this open.
    pub(crate) incarnation: u32,
}

/// The entry of a keyspace in a list by number, unless its number is another keyspace's by now.
#[inline]
pub(crate) fn find<T: AsRef<Known>>(list: &[T], keyspace: Keyspace) -> Option<&T> {
    let tree = list.get(keyspace.id as usize)?;
    (tree.as_ref().incarnation == keyspace.incarnation).then_some(tree)
}

impl AsRef<Known> for Known {
    #[inline]
    fn as_ref(&self) -> &Known {
        self
    }
}

/// A keyspace as the writer has it.
pub(crate) struct Tree {
    pub(crate) known: Known,
    /// The version that made the tree.
    birth: u64,
    /// Number of keys when the last marking began. `None`: not yet known.
    marked: Option<u64>,
    /// An estimate of that number, until it is known.
    estimate: u64,
    /// Keys added less keys removed since then.
    delta: i64,
    /// Number of keys in the catalogue.
    noted: u64,
    /// Keys removed since the last collection began.
    removed: u64,
    /// The version that the horizon has to reach before entries that are kept for old versions can be collected.
    kept_until: Option<u64>,
}

impl AsRef<Known> for Tree {
    #[inline]
    fn as_ref(&self) -> &Known {
        &self.known
    }
}

/// A collection is due when one in so many keys was removed.
const SHARE: u64 = 8;

/// A smaller difference from the count in the catalogue is not worth a commit.
const DRIFT_MIN: u64 = 1 << 14;

/// A collection is worth it from one removal for each so many bytes of a node on.
const REMOVED_BYTES: u64 = 32;

impl Tree {
    /// A tree that was found on media. `keys` is the number of its keys, if that is known.
    pub(crate) fn new(
        name: &str,
        index: Arc<Index>,
        entry: KeyspaceEntry,
        keys: Option<u64>,
    ) -> Tree {
        let known = Known { name: name.into(), index, cell: entry.cell.get(), incarnation: 0 };
        Tree {
            known,
            birth: entry.birth.get(),
            marked: keys,
            estimate: 0,
            delta: 0,
            noted: 0,
            removed: 0,
            kept_until: None,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.known.name
    }

    pub(crate) fn index(&self) -> &Arc<Index> {
        &self.known.index
    }

    /// The version that made the tree.
    pub(crate) fn birth(&self) -> u64 {
        self.birth
    }

    /// The number of keys, if it is known.
    pub(crate) fn count(&self) -> Option<u64> {
        self.marked.map(|count| count.saturating_add_signed(self.delta))
    }

    /// The number of keys, or an estimate.
    pub(crate) fn key_count(&self) -> KeyCount {
        let is_exact = self.marked.is_some();
        let keys = self.marked.unwrap_or(self.estimate).saturating_add_signed(self.delta);
        KeyCount { keys, is_exact }
    }

    /// Takes over the number of keys in the catalogue.
    pub(super) fn recall(&mut self, keys: u64, is_exact: bool) {
        self.noted = keys;
        match is_exact {
            true => self.marked = Some(keys),
            false => self.estimate = keys,
        }
    }

    /// Notes that the catalogue has the number of keys.
    pub(super) fn noted(&mut self) {
        self.noted = self.key_count().keys;
    }

    /// Whether the number of keys has moved far away from what the catalogue says.
    pub(super) fn has_drifted(&self) -> bool {
        self.key_count().keys.abs_diff(self.noted) > (self.noted / SHARE).max(DRIFT_MIN)
    }

    /// Counts changes that have been committed.
    #[inline]
    pub(super) fn add(&mut self, delta: i64, removed: u64) {
        self.delta += delta;
        self.removed += removed;
    }

    /// Notes that a marking begins, which counts the keys unless their number is known.
    pub(crate) fn begin_count(&mut self) {
        if self.marked.is_none() {
            self.estimate = self.key_count().keys;
            self.delta = 0;
        }
    }

    /// Notes how many keys a marking has found.
    pub(crate) fn end_count(&mut self, keys: Option<u64>) {
        if self.marked.is_none() {
            self.marked = keys;
        }
    }

    /// Whether enough was removed for a collection.
    pub(crate) fn is_due(&self, node_size: u64) -> bool {
        let removed_min = (node_size / REMOVED_BYTES).max(1);
        let enough = |count: u64| self.removed >= removed_min.max(count / SHARE);
        // Writers of the CDDS B-Tree make its nodes anew without entries that no version needs.
        self.index().kind() != IndexKind::Cdds && self.count().is_some_and(enough)
    }

    /// Whether enough was kept for old versions for a collection, and these were given up since.
    pub(crate) fn is_released(&mut self, node_size: u64, retained: &Retained) -> bool {
        let kept_min = (node_size / REMOVED_BYTES).max(1);
        let enough = |count: u64| self.index().kept() >= kept_min.max(count / SHARE);
        if !self.count().is_some_and(enough) {
            return false;
        }
        retained.horizon() >= *self.kept_until.get_or_insert(retained.visible())
    }

    /// Notes that a collection begins.
    pub(crate) fn begin_collection(&mut self) {
        self.removed = 0;
        self.kept_until = None;
        self.index().forget_kept();
    }

    /// Whether the tree wants its hint to be written.
    pub(crate) fn wants_hint(&self) -> bool {
        self.index().wants_hint()
    }
}
