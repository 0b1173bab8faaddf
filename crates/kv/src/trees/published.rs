//! The trees as readers find them, without the writer's lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use tembo_index::VersionedIndex;
use tembo_pmem::thread::Apart;

use super::tree::{Known, find};
use crate::{Error, Keyspace};

/// The published trees, by keyspace, and the version since which they are the ones to read.
#[derive(Clone, Default)]
pub(crate) struct Current {
    /// Counts publications. 0: nothing was published.
    edition: u64,
    pub(crate) since: u64,
    pub(crate) trees: Arc<[Known]>,
}

/// The trees of the visible version, for its readers.
pub(crate) struct Published {
    /// The published trees. Each snapshot locks this, so it lies apart from the edition, which each read looks at.
    current: Apart<RwLock<Current>>,
    /// The edition of `current`.
    edition: AtomicU64,
}

impl Current {
    /// The tree of a keyspace.
    #[inline]
    pub(crate) fn find(&self, keyspace: Keyspace) -> Option<&Known> {
        find(&self.trees, keyspace)
    }

    /// # Errors
    /// [`Error::NoSuchKeyspace`], which says that `version` was read.
    #[inline]
    pub(crate) fn tree(&self, keyspace: Keyspace, version: u64) -> Result<&Known, Error> {
        let Some(known) = self.find(keyspace) else {
            return Err(Error::NoSuchKeyspace { version });
        };
        Ok(known)
    }

    /// Whether some tree wants its hint to be written.
    pub(crate) fn wants_hint(&self) -> bool {
        self.trees.iter().any(|known| known.index.wants_hint())
    }

    /// Whether no publication was taken over yet.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.edition == 0
    }
}

impl Published {
    /// Publishes these trees, since a version.
    pub(crate) fn new(trees: Arc<[Known]>, since: u64) -> Published {
        let current = Apart(RwLock::new(Current { edition: 1, since, trees }));
        Published { current, edition: AtomicU64::new(1) }
    }

    /// The trees at this time.
    pub(crate) fn load(&self) -> Current {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether these are still the published trees.
    #[inline]
    pub(crate) fn is_current(&self, known: &Current) -> bool {
        known.edition == self.edition.load(Ordering::Acquire)
    }

    /// Brings a reader's copy up to date.
    #[cold]
    pub(crate) fn renew(&self, known: &mut Current) {
        known.clone_from(&self.current.read().unwrap_or_else(PoisonError::into_inner));
    }

    /// Publishes the trees that snapshots of `since` and later versions read.
    pub(crate) fn store(&self, trees: Arc<[Known]>, since: u64) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let edition = current.edition + 1;
        *current = Current { edition, since, trees };
        self.edition.store(edition, Ordering::Release);
    }
}
