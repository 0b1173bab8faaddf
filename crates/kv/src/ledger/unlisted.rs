//! What stands in no list of retired objects: trees that were cleared, and what earlier lives have unlinked.

use std::sync::Arc;

use tembo_index::{Index, Retained};

/// A tree that was cleared.
pub(crate) struct Cleared {
    pub(crate) index: Arc<Index>,
    /// The version that made it.
    pub(crate) birth: u64,
    /// The version in which its keyspace got another one.
    pub(crate) end: u64,
}

/// Versions that keep it.
#[derive(Default)]
pub(super) struct Unlisted {
    cleared: Vec<Cleared>,
    /// Versions that were pinned when the store was opened, by a name or a tombstone: what only they see was retired
    /// in an earlier life.
    inherited: Vec<u64>,
    /// Something was given up that only a sweep finds.
    is_lost: bool,
}

impl Unlisted {
    /// As an open finds it, with these versions pinned.
    pub(super) fn new(inherited: Vec<u64>) -> Unlisted {
        Unlisted { inherited, ..Unlisted::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.cleared.is_empty() && self.inherited.is_empty() && !self.is_lost
    }

    /// A tree was cleared.
    pub(super) fn push(&mut self, cleared: Cleared) {
        self.cleared.push(cleared);
    }

    /// Something was given up that only a sweep finds.
    pub(super) fn lose(&mut self) {
        self.is_lost = true;
    }

    /// Trees that no retained version sees, for the caller to give them back.
    pub(super) fn take_released(&mut self, retained: &Retained) -> Vec<Arc<Index>> {
        let is_released = |tree: &mut Cleared| !retained.needs(tree.birth, tree.end);
        self.cleared.extract_if(.., is_released).map(|tree| tree.index).collect()
    }

    /// Forgets what only a sweep gives back; true if there was something: then a sweep is due.
    pub(super) fn release(&mut self, retained: &Retained) -> bool {
        let before = self.inherited.len();
        self.inherited.retain(|pin| retained.pins().contains(pin));
        std::mem::take(&mut self.is_lost) || self.inherited.len() < before
    }

    /// Forgets trees that were cleared after `version`: they are linked again, or garbage for a sweep.
    pub(super) fn forget_after(&mut self, version: u64) {
        self.cleared.retain(|tree| tree.end <= version);
    }
}
