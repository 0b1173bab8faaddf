//! The indexes of the trees that are open: one for each tree.
//!
//! An index has volatile state of its tree: which leaves there are. Its writer keeps that up to date in its own instance
//! only. So each reader of a tree, of whichever version, asks here for the instance that is in use.
//!
//! A root cell may be used again after its tree was given back. So a tree is known by its cell and by the version that made
//! it, which is committed once. Nothing uses a tree that was made and not committed: the next one takes its place here.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use tembo_index::{Forest, Index};
use tembo_pmem::thread::lock;

use super::catalogue::open_tree;
use crate::Error;
use crate::media::KeyspaceEntry;

/// Fewer entries than so many are never looked through for those that nothing uses.
const PRUNED_MIN: usize = 64;

/// The indexes of a store's keyspaces that something uses.
pub(crate) struct Indexes {
    forest: Arc<Forest>,
    in_use: Mutex<InUse>,
}

struct InUse {
    /// By cell and birth.
    known: BTreeMap<(u64, u64), Weak<Index>>,
    /// With more entries, those that nothing uses any more are forgotten.
    most: usize,
}

impl InUse {
    fn note(&mut self, entry: &KeyspaceEntry, index: &Arc<Index>) {
        if self.known.len() >= self.most {
            self.known.retain(|_, index| index.strong_count() > 0);
            self.most = (2 * self.known.len()).max(PRUNED_MIN);
        }
        self.known.insert(key(entry), Arc::downgrade(index));
    }
}

impl Indexes {
    /// None is in use.
    pub(crate) fn new(forest: Arc<Forest>) -> Indexes {
        let in_use = InUse { known: BTreeMap::new(), most: PRUNED_MIN };
        Indexes { forest, in_use: Mutex::new(in_use) }
    }

    pub(crate) fn forest(&self) -> &Arc<Forest> {
        &self.forest
    }

    /// The index of a tree: the one that is in use, or it is opened.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn open(&self, entry: &KeyspaceEntry) -> Result<Arc<Index>, Error> {
        // Two that open the same tree at the same time must get the same one.
        let mut in_use = lock(&self.in_use);
        if let Some(index) = in_use.known.get(&key(entry)).and_then(Weak::upgrade) {
            return Ok(index);
        }
        let index = Arc::new(open_tree(&self.forest, entry)?);
        in_use.note(entry, &index);
        Ok(index)
    }

    /// Notes the index of a tree that was made.
    pub(super) fn made(&self, entry: &KeyspaceEntry, index: Index) -> Arc<Index> {
        let index = Arc::new(index);
        lock(&self.in_use).note(entry, &index);
        index
    }
}

fn key(entry: &KeyspaceEntry) -> (u64, u64) {
    (entry.cell.get(), entry.birth.get())
}
