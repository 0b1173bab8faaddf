//! What stands in no list of retired objects, so that only a sweep gives it back.

use tembo_index::Retained;

/// Versions that keep it.
#[derive(Default)]
pub(super) struct Unlisted {
    /// Lifetimes of trees that were cleared.
    cleared: Vec<(u64, u64)>,
    /// Versions that were pinned when the store was opened, by a name or a tombstone: what only they see was retired
    /// in an earlier life.
    inherited: Vec<u64>,
}

impl Unlisted {
    /// As an open finds it, with these versions pinned.
    pub(super) fn new(inherited: Vec<u64>) -> Unlisted {
        Unlisted { cleared: Vec::new(), inherited }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.cleared.is_empty() && self.inherited.is_empty()
    }

    /// A tree was cleared.
    pub(super) fn push(&mut self, lifetime: (u64, u64)) {
        self.cleared.push(lifetime);
    }

    /// Forgets what no retained version keeps; true if there was something: then a sweep is due.
    pub(super) fn release(&mut self, retained: &Retained) -> bool {
        let before = self.cleared.len() + self.inherited.len();
        self.cleared.retain(|&(start, end)| retained.needs(start, end));
        self.inherited.retain(|pin| retained.pins().contains(pin));
        self.cleared.len() + self.inherited.len() < before
    }
}
