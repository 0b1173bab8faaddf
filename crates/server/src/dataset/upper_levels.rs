//! Copies of the short levels of sorted sets, in which each change of a member changes a count: these are written once in
//! a turn.
//!
//! A level that is held here is read here only. Its keys are those of the store; a count may wait to be written.

use tembo_kv::{Error, Exclusive, Keyspace};

use crate::dataset::level_entry::{LevelEntry, count_before, place_of};
use crate::dataset::level_one::LevelOne;
use crate::format::{Part, element_prefix};

/// Levels that are held.
const LEVELS_MAX: usize = 32;
/// Entries of a level that is held.
const ENTRIES_MAX: usize = 256;

/// A level of a sorted set: its database, its id, and the level.
pub(crate) type LevelOf = (usize, u64, u8);

struct Level {
    of: LevelOf,
    /// In the order of their keys; `None`: they are too many.
    entries: Option<Vec<LevelEntry>>,
}

/// The levels that are held.
#[derive(Default)]
pub(super) struct UpperLevels {
    levels: Vec<Level>,
    is_changed: bool,
    /// The counts of level 1 that are not stored.
    pub(super) level_one: LevelOne,
}

impl UpperLevels {
    /// Whether a count waits to be written.
    #[inline]
    pub(super) fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// Whether it is known what the level has, or that it has too much.
    pub(super) fn is_known(&self, of: LevelOf) -> bool {
        self.levels.iter().any(|level| level.of == of)
    }

    /// The entries of a level, in order, if it is held.
    pub(super) fn entries(&self, of: LevelOf) -> Option<&[LevelEntry]> {
        self.levels.iter().find(|level| level.of == of)?.entries.as_deref()
    }

    fn entries_mut(&mut self, of: LevelOf) -> Option<&mut Vec<LevelEntry>> {
        self.levels.iter_mut().find(|level| level.of == of)?.entries.as_mut()
    }

    /// How many entries a level may have to be held.
    pub(super) fn entries_max() -> usize {
        ENTRIES_MAX
    }

    /// Whether another level can only be held in the place of one that is.
    pub(super) fn is_full(&self) -> bool {
        self.levels.len() == LEVELS_MAX
    }

    /// Holds a level with these entries; `None`: they are too many. Nothing waits to be written if a level has to go.
    pub(super) fn hold(&mut self, of: LevelOf, entries: Option<Vec<LevelEntry>>) {
        if self.is_full() {
            self.levels.remove(0);
        }
        self.levels.push(Level { of, entries });
    }

    /// The count of an entry of a level that is held. Whether it is written later: `may_wait`, and the store has the key.
    pub(super) fn set(&mut self, of: LevelOf, key: &[u8], members: u64, may_wait: bool) -> bool {
        let Some(entries) = self.entries_mut(of) else { return false };
        match place_of(entries, key) {
            Ok(at) => {
                (entries[at].members, entries[at].is_changed) = (members, may_wait);
                self.is_changed |= may_wait;
                may_wait
            }
            Err(at) => {
                entries.insert(at, LevelEntry::new(key.to_vec(), members));
                false
            }
        }
    }

    /// Counts a member more or less in the entry before a key, in a level that is held, to be written later; false: there is
    /// none.
    pub(super) fn count(&mut self, of: LevelOf, key: &[u8], is_added: bool) -> Option<bool> {
        let entries = self.entries_mut(of)?;
        let Some(at) = count_before(entries, key).checked_sub(1) else { return Some(false) };
        let members = entries[at].members;
        entries[at].members = if is_added { members + 1 } else { members.saturating_sub(1) };
        entries[at].is_changed = true;
        self.is_changed = true;
        Some(true)
    }

    /// An entry is removed from the store.
    pub(super) fn remove(&mut self, of: LevelOf, key: &[u8]) {
        if let Some(entries) = self.entries_mut(of)
            && let Ok(at) = place_of(entries, key)
        {
            entries.remove(at);
        }
    }

    /// The elements of a sorted set are removed.
    pub(super) fn forget(&mut self, (db, id): (usize, u64)) {
        self.levels.retain(|level| (level.of.0, level.of.1) != (db, id));
        self.level_one.forget((db, id));
    }

    /// Nothing is held any more, nor written.
    pub(super) fn forget_all(&mut self) {
        self.levels.clear();
        self.level_one.forget_all();
        self.is_changed = false;
    }

    /// Writes what waits into the keyspaces of elements. On an error that waits which has not been written.
    #[cold]
    pub(super) fn write(
        &mut self,
        transaction: &mut Exclusive,
        spaces: &[Keyspace],
    ) -> Result<(), Error> {
        for Level { of: (db, id, level), entries } in &mut self.levels {
            let prefix = element_prefix(*id, Part::Level(*level));
            for entry in entries.iter_mut().flatten().filter(|entry| entry.is_changed) {
                let key = [&prefix[..], entry.key()].concat();
                transaction.put(spaces[*db], &key, &entry.members.to_be_bytes())?;
                entry.is_changed = false;
            }
            // One that has grown too long is read from the store again.
            if entries.as_ref().is_some_and(|entries| entries.len() > 2 * ENTRIES_MAX) {
                *entries = None;
            }
        }
        self.is_changed = false;
        Ok(())
    }
}
