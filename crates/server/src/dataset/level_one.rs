//! The counts of level 1 of large sorted sets that do not store them: how many members there are from one key to the next. The
//! keys were those of members when they were counted.
//!
//! They are counted when a rank is asked for, an interval at a time: from one entry of level 2 to the next, about a thousand
//! members. Changes of members adjust the counts of the intervals that are held. A copy only: it may be forgotten at any time.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::dataset::level_entry::LevelEntry;

/// Intervals that are held; when more have come, all are forgotten.
const INTERVALS_MAX: usize = 4096;

/// Bytes that intervals take when all are forgotten.
const BYTES_MAX: usize = 16 << 20;

/// A sorted set: its database and its id.
type SetId = (usize, u64);

struct Interval {
    /// The entry of level 2 behind it, if there is one.
    end: Option<Vec<u8>>,
    /// In the order of their keys. The first one has the key of the interval.
    entries: Vec<LevelEntry>,
}

/// The intervals of a set by the key of the entry of level 2 at their start, or an empty key.
type Intervals = BTreeMap<Vec<u8>, Interval>;

/// The intervals that are held.
#[derive(Default)]
pub(crate) struct LevelOne {
    /// By set, as a search by a key that is borrowed makes no copy of it. None of them is empty.
    sets: BTreeMap<SetId, Intervals>,
    /// Intervals and their bytes that came since nothing was held.
    count: usize,
    bytes: usize,
}

/// The keys before one.
fn below(key: &[u8]) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (Bound::Unbounded, Bound::Excluded(key))
}

impl LevelOne {
    /// The entries of the interval that starts before a key and does not end before it.
    pub(crate) fn before(&self, set: SetId, key: &[u8]) -> Option<&[LevelEntry]> {
        let (_, interval) = self.sets.get(&set)?.range::<[u8], _>(below(key)).next_back()?;
        let ends_before = interval.end.as_deref().is_some_and(|end| end < key);
        (!ends_before).then_some(&interval.entries)
    }

    /// The entries of the interval that starts with a key.
    pub(crate) fn from(&self, set: SetId, key: &[u8]) -> Option<&[LevelEntry]> {
        self.sets.get(&set)?.get(key).map(|interval| &interval.entries[..])
    }

    /// Holds an interval: its entries, of which the first one has its key, and its end.
    pub(crate) fn hold(&mut self, set: SetId, entries: Vec<LevelEntry>, end: Option<Vec<u8>>) {
        let size = |entry: &LevelEntry| size_of::<LevelEntry>() + entry.key.len();
        let bytes = entries.iter().map(size).sum::<usize>();
        if self.count == INTERVALS_MAX || self.bytes + bytes > BYTES_MAX {
            self.forget_all();
        }
        self.count += 1;
        self.bytes += bytes;
        let start = entries.first().map(|entry| entry.key.clone()).unwrap_or_default();
        self.sets.entry(set).or_default().insert(start, Interval { end, entries });
    }

    /// A member below level 2 is added or removed.
    pub(crate) fn changed(&mut self, set: SetId, key: &[u8], is_added: bool) {
        let Some(intervals) = self.sets.get_mut(&set) else { return };
        let Some((_, interval)) = intervals.range_mut::<[u8], _>(below(key)).next_back() else {
            return;
        };
        if interval.end.as_deref().is_some_and(|end| end < key) {
            return;
        }
        let behind = interval.entries.partition_point(|entry| entry.key[..] <= *key);
        if let Some(entry) = behind.checked_sub(1).and_then(|at| interval.entries.get_mut(at)) {
            let members =
                if is_added { entry.members + 1 } else { entry.members.saturating_sub(1) };
            entry.members = members;
        }
    }

    /// A member of level 2 or higher is added or removed: the intervals beside it are other ones.
    pub(crate) fn divided(&mut self, set: SetId, key: &[u8]) {
        let Some(intervals) = self.sets.get_mut(&set) else { return };
        intervals.remove(key);
        if let Some((start, _)) = intervals.range::<[u8], _>(below(key)).next_back() {
            let start = start.clone();
            intervals.remove(&start);
        }
        if intervals.is_empty() {
            self.sets.remove(&set);
        }
    }

    /// The elements of a sorted set are removed.
    pub(super) fn forget(&mut self, set: SetId) {
        self.sets.remove(&set);
    }

    /// Nothing is held any more.
    pub(super) fn forget_all(&mut self) {
        self.sets.clear();
        (self.count, self.bytes) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: &[u8], members: u64) -> LevelEntry {
        LevelEntry::new(key.to_vec(), members)
    }

    fn counts(entries: Option<&[LevelEntry]>) -> Vec<u64> {
        entries.unwrap().iter().map(|entry| entry.members).collect()
    }

    #[test]
    fn an_interval_is_found_by_the_keys_in_it_and_follows_their_number() {
        let (mut held, set) = (LevelOne::default(), (0, 7));
        held.hold(set, vec![entry(b"", 2), entry(b"f", 5)], Some(b"m".to_vec()));
        assert!(held.before(set, b"").is_none() && held.before(set, b"n").is_none());
        assert!(held.before((0, 8), b"c").is_none() && held.from(set, b"m").is_none());
        assert_eq!(counts(held.before(set, b"m")), [2, 5]);
        held.changed(set, b"a", true);
        held.changed(set, b"g", false);
        held.changed(set, b"n", true);
        held.changed((1, 7), b"a", true);
        assert_eq!(counts(held.from(set, b"")), [3, 4]);
        held.hold(set, vec![entry(b"m", 9)], None);
        held.changed(set, b"zzz", true);
        assert_eq!(counts(held.before(set, b"z")), [10]);
        held.divided(set, b"m");
        assert!(held.from(set, b"").is_none() && held.from(set, b"m").is_none());
    }
}
