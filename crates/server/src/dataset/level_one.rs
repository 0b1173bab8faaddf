//! Level 1 of large sorted sets that do not store it: how many members there are from one key to the next. The keys were those
//! of members when they were counted.
//!
//! They are counted when a rank is asked for, an interval at a time: from one entry of level 2 to the next, about a thousand
//! members. Changes of members change the intervals that are held. A copy only: it may be forgotten at any time.
//!
//! While there is room the keys of the members are held too. Then a rank is counted without the store, and an interval that a
//! member of level 2 divides, or joins to another one, need not be counted again.

mod packed_keys;

use std::collections::BTreeMap;

use crate::dataset::level_entry::{LevelEntry, count_before, place_of, prefix_of};
use crate::dataset::level_one::packed_keys::PackedKeys;

/// Intervals that are held; when more have come, all are forgotten.
const INTERVALS_MAX: usize = 4096;

/// Bytes that intervals take when all are forgotten: without the keys of members, and those.
const BYTES_MAX: usize = 16 << 20;
const KEYS_BYTES_MAX: usize = 32 << 20;

/// An entry with more members is divided, if their keys are held.
const MEMBERS_MAX: u64 = 48;

/// A sorted set: its database and its id.
type SetId = (usize, u64);

/// What is counted between two entries of level 2.
#[derive(Default)]
pub(crate) struct Interval {
    /// The entry of level 2 behind it, if there is one.
    end: Option<Vec<u8>>,
    /// In the order of their keys. The first one has the key of the interval.
    entries: Vec<LevelEntry>,
    /// For each entry the keys of its members, or nothing.
    keys: Vec<PackedKeys>,
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

    fn start(&self) -> &[u8] {
        self.entries.first().map_or(&[], LevelEntry::key)
    }

    fn has_keys(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Bytes without the keys of members.
    fn size(&self) -> usize {
        self.entries.iter().map(|entry| size_of::<LevelEntry>() + entry.key().len()).sum()
    }

    fn keys_size(&self) -> usize {
        self.keys.iter().map(PackedKeys::size).sum()
    }

    fn count(&self, key: &[u8]) -> Option<Counted<'_>> {
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

    /// A member that is no key of an interval is added or removed; false: it is not as it should be.
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

    /// Takes off what is from a key on, which is added there, and ends with it.
    fn divide(&mut self, key: &[u8]) -> Option<Interval> {
        let at = count_before(&self.entries, key);
        let last = at.checked_sub(1)?;
        let mut second = Interval {
            end: self.end.replace(key.to_vec()),
            entries: self.entries.split_off(at),
            keys: self.keys.split_off(at),
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

    /// Adds one that begins with its end, where a member is removed; false: it is not as it should be.
    fn join(&mut self, mut second: Interval) -> bool {
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

/// The intervals that are held.
#[derive(Default)]
pub(crate) struct LevelOne {
    /// By set, in the order of their keys. None of them is empty.
    sets: BTreeMap<SetId, Vec<Interval>>,
    /// Intervals and their bytes that came since nothing was held.
    count: usize,
    bytes: usize,
    keys_bytes: usize,
}

impl LevelOne {
    /// Where the interval is that starts before a key and does not end before it.
    #[inline]
    fn place(intervals: &[Interval], key: &[u8]) -> Option<usize> {
        let prefix = prefix_of(key);
        let at = intervals.partition_point(|one| {
            one.entries.first().is_some_and(|first| first.is_before(key, prefix))
        });
        let at = at.checked_sub(1)?;
        let ends_before = intervals[at].end.as_deref().is_some_and(|end| end < key);
        (!ends_before).then_some(at)
    }

    /// How many members stand before a key in its interval.
    pub(crate) fn before(&self, set: SetId, key: &[u8]) -> Option<Counted<'_>> {
        let intervals = self.sets.get(&set)?;
        intervals[Self::place(intervals, key)?].count(key)
    }

    /// The entries of the interval that starts with a key.
    pub(crate) fn from(&self, set: SetId, key: &[u8]) -> Option<&[LevelEntry]> {
        let intervals = self.sets.get(&set)?;
        let at = intervals.binary_search_by(|one| one.start().cmp(key)).ok()?;
        Some(&intervals[at].entries)
    }

    /// Holds an interval.
    pub(crate) fn hold(&mut self, set: SetId, mut interval: Interval) {
        let bytes = interval.size();
        if self.count == INTERVALS_MAX || self.bytes + bytes > BYTES_MAX {
            self.forget_all();
        }
        let keys_bytes = interval.keys_size();
        if self.keys_bytes + keys_bytes > KEYS_BYTES_MAX {
            interval.keys.clear();
        } else {
            self.keys_bytes += keys_bytes;
        }
        self.count += 1;
        self.bytes += bytes;
        let intervals = self.sets.entry(set).or_default();
        match intervals.binary_search_by(|one| one.start().cmp(interval.start())) {
            Ok(at) => intervals[at] = interval,
            Err(at) => intervals.insert(at, interval),
        }
    }

    /// A member below level 2 is added or removed.
    pub(crate) fn changed(&mut self, set: SetId, key: &[u8], is_added: bool) {
        let Some(intervals) = self.sets.get_mut(&set) else { return };
        let Some(at) = Self::place(intervals, key) else { return };
        if !intervals[at].change(key, is_added) {
            self.forget_at(set, at);
            return;
        }
        if is_added {
            self.keys_bytes += key.len();
            if self.keys_bytes > KEYS_BYTES_MAX {
                intervals[at].keys.clear();
            }
        }
    }

    /// A member of level 2 or higher is added or removed: the intervals beside it are other ones.
    pub(crate) fn divided(&mut self, set: SetId, key: &[u8], is_added: bool) {
        let Some(intervals) = self.sets.get_mut(&set) else { return };
        let own = intervals.binary_search_by(|one| one.start().cmp(key)).ok();
        let own = own.map(|at| intervals.remove(at));
        let before = Self::place(intervals, key);
        let Some(at) = before else {
            if intervals.is_empty() {
                self.sets.remove(&set);
            }
            return;
        };
        let has_keys = intervals[at].has_keys();
        let is_sound = match own {
            None if is_added && has_keys => {
                let second = intervals[at].divide(key);
                let is_sound = second.is_some();
                second.into_iter().for_each(|second| intervals.insert(at + 1, second));
                self.count += 1;
                is_sound
            }
            Some(own) if !is_added && has_keys && own.has_keys() => intervals[at].join(own),
            _ => false,
        };
        if !is_sound {
            self.forget_at(set, at);
        }
    }

    fn forget_at(&mut self, set: SetId, at: usize) {
        if let Some(intervals) = self.sets.get_mut(&set) {
            intervals.remove(at);
            if intervals.is_empty() {
                self.sets.remove(&set);
            }
        }
    }

    /// The elements of a sorted set are removed.
    pub(super) fn forget(&mut self, set: SetId) {
        self.sets.remove(&set);
    }

    /// Nothing is held any more.
    pub(super) fn forget_all(&mut self) {
        self.sets.clear();
        (self.count, self.bytes, self.keys_bytes) = (0, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: SetId = (0, 7);

    /// An interval of these keys, of which some are on level 2: the first one of it, and its end.
    fn interval(start: &[u8], keys: &[&[u8]], end: Option<&[u8]>) -> Interval {
        let mut interval = Interval::new(start);
        keys.iter().for_each(|key| interval.push(key, 2));
        end.into_iter().for_each(|end| interval.ends(end));
        interval
    }

    fn counts(entries: Option<&[LevelEntry]>) -> Vec<u64> {
        entries.unwrap().iter().map(|entry| entry.members).collect()
    }

    fn rank(held: &LevelOne, key: &[u8]) -> Option<(Vec<u8>, u64, bool)> {
        let counted = held.before(SET, key)?;
        Some((counted.start.to_vec(), counted.before, counted.from.is_none()))
    }

    #[test]
    fn an_interval_is_found_by_the_keys_in_it_and_follows_their_number() {
        let mut held = LevelOne::default();
        held.hold(SET, interval(b"", &[b"b", b"d", b"f", b"h"], Some(b"m")));
        assert!(held.before(SET, b"").is_none() && held.before(SET, b"n").is_none());
        assert!(held.before((0, 8), b"c").is_none() && held.from(SET, b"m").is_none());
        assert_eq!(counts(held.from(SET, b"")), [2, 2]);
        held.changed(SET, b"a", true);
        held.changed(SET, b"f", false);
        held.changed(SET, b"n", true);
        held.changed((1, 7), b"a", true);
        assert_eq!(counts(held.from(SET, b"")), [3, 1]);
        for (key, expected) in [(b"a", 0), (b"c", 2), (b"g", 3), (b"i", 4), (b"m", 4)] {
            assert_eq!(rank(&held, key), Some((vec![], expected, true)));
        }
        held.changed(SET, b"g", false);
        assert_eq!(rank(&held, b"g"), None, "what was not there cannot go");
    }

    #[test]
    fn without_keys_members_are_counted_from_the_entry_before() {
        let mut held = LevelOne::default();
        held.hold(SET, interval(b"", &[b"b", b"d", &[b'e'; 300], b"h"], Some(b"m")));
        assert_eq!(rank(&held, b"i"), Some((vec![], 2, false)));
        assert_eq!(held.before(SET, b"i").unwrap().from, Some(&[b'e'; 300][..]));
        held.changed(SET, b"a", true);
        assert_eq!(rank(&held, b"i"), Some((vec![], 3, false)));
        held.divided(SET, b"c", true);
        assert_eq!(rank(&held, b"i"), None);
    }

    #[test]
    fn intervals_are_divided_and_joined_by_members_of_level_2() {
        let mut held = LevelOne::default();
        held.hold(SET, interval(b"", &[b"b", b"d", b"f", b"h", b"k"], Some(b"m")));
        held.hold(SET, interval(b"m", &[b"m", b"o"], None));
        held.divided(SET, b"e", true);
        assert_eq!(rank(&held, b"e"), Some((vec![], 2, true)));
        for (key, expected) in [(b"f", 1), (b"g", 2), (b"l", 4), (b"m", 4)] {
            assert_eq!(rank(&held, key), Some((b"e".to_vec(), expected, true)));
        }
        held.divided(SET, b"m", false);
        assert_eq!(rank(&held, b"z"), Some((b"e".to_vec(), 5, true)));
        held.changed(SET, b"p", true);
        assert_eq!(rank(&held, b"z"), Some((b"e".to_vec(), 6, true)));
        held.divided(SET, b"e", false);
        assert_eq!(rank(&held, b"z"), Some((vec![], 7, true)));
        held.divided(SET, b"zz", true);
        assert_eq!(rank(&held, b"zz"), Some((vec![], 7, true)));
        assert_eq!(rank(&held, b"zzz"), Some((b"zz".to_vec(), 1, true)));
    }

    #[test]
    fn an_entry_that_grows_is_divided() {
        let mut held = LevelOne::default();
        held.hold(SET, interval(b"", &[b"a"], None));
        for number in 0..2000_u32 {
            held.changed(SET, &number.reverse_bits().to_be_bytes(), true);
        }
        let entries = held.from(SET, b"").unwrap();
        assert!(entries.iter().all(|entry| entry.members <= MEMBERS_MAX));
        assert_eq!(
            entries.iter().map(|entry| entry.members).sum::<u64>(),
            rank(&held, &[0xff; 9]).unwrap().1
        );
    }
}
