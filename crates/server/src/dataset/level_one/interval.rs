//! What is counted between two entries of level 2.

use crate::dataset::level_entry::{LevelEntry, count_before, place_of};
use crate::dataset::level_one::later::Later;
use crate::dataset::level_one::packed_keys::PackedKeys;

/// An entry with more members is divided, if their keys are held.
pub(super) const MEMBERS_MAX: u64 = 48;

/// What is counted between two entries of level 2.
#[derive(Default)]
pub(crate) struct Interval {
    /// The entry of level 2 behind it, if there is one.
    end: Option<Vec<u8>>,
    /// In the order of their keys. The first one has the key of the interval.
    entries: Vec<LevelEntry>,
    /// For each entry the keys of its members, or nothing.
    keys: Vec<PackedKeys>,
    /// Changes that the others have not followed yet.
    later: Later,
    /// For how many bytes its holder has counted it: without the keys of members, and those.
    pub(super) charge: (usize, usize),
}

/// How many members of an interval stand before a key.
pub(crate) struct Counted<'o> {
    /// With which key of level 2 the interval begins, or an empty key.
    pub(crate) start: &'o [u8],
    /// Those before `from`.
    pub(crate) before: u64,
    /// The others are those from here on; `None`: there are none.
    pub(crate) from: Option<&'o [u8]>,
}

impl Interval {
    /// One that begins with a key of level 2, or an empty key.
    pub(crate) fn new(start: &[u8]) -> Interval {
        Interval {
            end: None,
            entries: vec![LevelEntry::new(start.to_vec(), 0)],
            keys: vec![PackedKeys::default()],
            ..Interval::default()
        }
    }

    /// Counts a member behind the others.
    pub(crate) fn push(&mut self, key: &[u8], spacing: u64) {
        match self.entries.last_mut() {
            Some(last) if last.members < spacing => last.members += 1,
            _ => {
                self.entries.push(LevelEntry::new(key.to_vec(), 1));
                if self.has_keys() {
                    self.keys.push(PackedKeys::default());
                }
            }
        }
        if self.keys.last_mut().is_some_and(|keys| !keys.push(key)) {
            self.keys.clear();
        }
    }

    /// The key of level 2 behind it.
    pub(crate) fn ends(&mut self, end: &[u8]) {
        self.end = Some(end.to_vec());
    }

    /// The key of level 2 that it begins with, or an empty key.
    pub(super) fn start(&self) -> &[u8] {
        self.entries.first().map_or(&[], LevelEntry::key)
    }

    /// Whether it starts before a key, which begins with the prefix.
    #[inline]
    pub(super) fn is_before(&self, key: &[u8], prefix: u64) -> bool {
        self.entries.first().is_some_and(|first| first.is_before(key, prefix))
    }

    /// Whether it ends before a key.
    #[inline]
    pub(super) fn ends_before(&self, key: &[u8]) -> bool {
        self.end.as_deref().is_some_and(|end| end < key)
    }

    /// What is counted from each key on.
    pub(super) fn entries(&self) -> &[LevelEntry] {
        &self.entries
    }

    /// Whether the keys of members are held.
    pub(super) fn has_keys(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Forgets the keys of members.
    pub(super) fn forget_keys(&mut self) {
        self.keys.clear();
    }

    /// Bytes without the keys of members.
    pub(super) fn size(&self) -> usize {
        self.entries.iter().map(|entry| size_of::<LevelEntry>() + entry.key().len()).sum()
    }

    /// Bytes of the keys of members.
    pub(super) fn keys_size(&self) -> usize {
        self.keys.iter().map(PackedKeys::size).sum()
    }

    /// How many of its members stand before a key. It has followed all changes.
    pub(super) fn count(&self, key: &[u8]) -> Option<Counted<'_>> {
        debug_assert!(self.later.is_empty());
        let last = count_before(&self.entries, key).checked_sub(1)?;
        let (others, last) = (&self.entries[..last], last);
        let mut before = others.iter().map(|entry| entry.members).sum::<u64>();
        let from = match self.keys.get(last) {
            Some(keys) => {
                before += keys.count_before(key);
                None
            }
            None => Some(self.entries[last].key()),
        };
        Some(Counted { start: self.start(), before, from })
    }

    /// A member that is no key of an interval is added or removed: that is kept for later; false: there is no room for it.
    #[inline]
    pub(super) fn change_later(&mut self, key: &[u8], is_added: bool) -> bool {
        self.later.push(key, is_added)
    }

    /// Follows the changes that were kept; false: it is not as it should be.
    #[inline]
    pub(super) fn follow(&mut self) -> bool {
        self.later.is_empty() || self.follow_all()
    }

    fn follow_all(&mut self) -> bool {
        let later = std::mem::take(&mut self.later);
        later.iter().all(|(key, is_added)| self.change(key, is_added))
    }

    fn change(&mut self, key: &[u8], is_added: bool) -> bool {
        let behind = match place_of(&self.entries, key) {
            Ok(at) => at + 1,
            Err(at) => at,
        };
        let Some(at) = behind.checked_sub(1) else { return true };
        let members = &mut self.entries[at].members;
        *members = if is_added { *members + 1 } else { members.saturating_sub(1) };
        let many = *members > MEMBERS_MAX;
        let Some(keys) = self.keys.get_mut(at) else { return true };
        if is_added && !keys.insert(key) || !is_added && !keys.remove(key) {
            return false;
        }
        if many {
            let second = keys.split_off(keys.count() / 2);
            if let Some(first) = second.first() {
                let entry = LevelEntry::new(first.to_vec(), second.count());
                self.entries[at].members = keys.count();
                self.entries.insert(at + 1, entry);
                self.keys.insert(at + 1, second);
            }
        }
        true
    }

    /// Takes off what is from a key on, which is added there, and ends with it. It has followed all changes, and has keys.
    pub(super) fn divide(&mut self, key: &[u8]) -> Option<Interval> {
        let at = count_before(&self.entries, key);
        let last = at.checked_sub(1)?;
        let mut second = Interval {
            end: self.end.replace(key.to_vec()),
            entries: self.entries.split_off(at),
            keys: self.keys.split_off(at),
            ..Interval::default()
        };
        let keys = &mut self.keys[last];
        let mut first = keys.split_off(keys.count_before(key));
        self.entries[last].members = keys.count();
        if !first.insert(key) {
            return None;
        }
        second.entries.insert(0, LevelEntry::new(key.to_vec(), first.count()));
        second.keys.insert(0, first);
        Some(second)
    }

    /// Adds one that begins with its end, where a member is removed; false: it is not as it should be. Both have followed all
    /// changes, and have keys.
    pub(super) fn join(&mut self, mut second: Interval) -> bool {
        let (Some(first), Some(keys)) = (second.entries.first_mut(), second.keys.first_mut())
        else {
            return false;
        };
        if !keys.remove(first.key()) {
            return false;
        }
        first.members = keys.count();
        self.entries.append(&mut second.entries);
        self.keys.append(&mut second.keys);
        self.end = second.end;
        true
    }
}
