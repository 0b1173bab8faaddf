//! Level 1 of large sorted sets that do not store it: how many members there are from one key to the next. The keys were those
//! of members when they were counted.
//!
//! They are counted when a rank is asked for, an interval at a time: from one entry of level 2 to the next, about a thousand
//! members. Changes of members change the intervals that are held: when a rank is asked for again, so that changes without such
//! questions cost little. After many of them an interval is forgotten. A copy only: it may be forgotten at any time.
//!
//! While there is room the keys of the members are held too. Then a rank is counted without the store, and an interval that a
//! member of level 2 divides, or joins to another one, need not be counted again.

mod interval;
mod later;
mod packed_keys;

use std::collections::BTreeMap;

use crate::dataset::level_entry::{LevelEntry, prefix_of};

pub(crate) use interval::{Counted, Interval};

/// Intervals that are held; when more have come, all are forgotten.
const INTERVALS_MAX: usize = 4096;

/// Bytes that intervals take when all are forgotten: without the keys of members, and those.
const BYTES_MAX: usize = 16 << 20;
const KEYS_BYTES_MAX: usize = 32 << 20;

/// A sorted set: its database and its id.
type SetId = (usize, u64);

/// The intervals that are held.
#[derive(Default)]
pub(crate) struct LevelOne {
    /// By set, in the order of their keys. None of them is empty.
    sets: BTreeMap<SetId, Vec<Interval>>,
    /// How many there are, and for how many bytes they count: without the keys of members, and those.
    count: usize,
    charge: (usize, usize),
}

impl LevelOne {
    /// Where the interval is that starts before a key and does not end before it.
    #[inline]
    fn place(intervals: &[Interval], key: &[u8]) -> Option<usize> {
        let prefix = prefix_of(key);
        let at = intervals.partition_point(|one| one.is_before(key, prefix)).checked_sub(1)?;
        (!intervals[at].ends_before(key)).then_some(at)
    }

    /// How many members stand before a key in its interval.
    pub(crate) fn before(&mut self, set: SetId, key: &[u8]) -> Option<Counted<'_>> {
        let at = Self::place(self.sets.get(&set)?, key)?;
        self.followed(set, at)?.count(key)
    }

    /// The entries of the interval that starts with a key.
    pub(crate) fn from(&mut self, set: SetId, key: &[u8]) -> Option<&[LevelEntry]> {
        let intervals = self.sets.get(&set)?;
        let at = intervals.binary_search_by(|one| one.start().cmp(key)).ok()?;
        Some(self.followed(set, at)?.entries())
    }

    /// An interval that has followed all changes; `None`: it was not as it should be, and is forgotten.
    fn followed(&mut self, set: SetId, at: usize) -> Option<&Interval> {
        if !self.sets.get_mut(&set)?[at].follow() {
            self.forget_at(set, at);
            return None;
        }
        Some(&self.sets.get(&set)?[at])
    }

    /// Holds an interval.
    pub(crate) fn hold(&mut self, set: SetId, mut interval: Interval) {
        let bytes = interval.size();
        if self.count >= INTERVALS_MAX || self.charge.0 + bytes > BYTES_MAX {
            self.forget_all();
        }
        let mut keys_bytes = interval.keys_size();
        if self.charge.1 + keys_bytes > KEYS_BYTES_MAX {
            interval.forget_keys();
            keys_bytes = 0;
        }
        interval.charge = (bytes, keys_bytes);
        self.count += 1;
        self.charge = (self.charge.0 + bytes, self.charge.1 + keys_bytes);
        let intervals = self.sets.entry(set).or_default();
        match intervals.binary_search_by(|one| one.start().cmp(interval.start())) {
            Ok(at) => {
                let before = std::mem::replace(&mut intervals[at], interval);
                self.let_go(&before);
            }
            Err(at) => intervals.insert(at, interval),
        }
    }

    /// A member below level 2 is added or removed.
    pub(crate) fn changed(&mut self, set: SetId, key: &[u8], is_added: bool) {
        let Some(intervals) = self.sets.get_mut(&set) else { return };
        let Some(at) = Self::place(intervals, key) else { return };
        let interval = &mut intervals[at];
        if !interval.change_later(key, is_added) {
            self.forget_at(set, at);
            return;
        }
        interval.charge.1 += key.len();
        self.charge.1 += key.len();
        if self.charge.1 > KEYS_BYTES_MAX {
            self.forget_at(set, at);
        }
    }

    /// A member of level 2 or higher is added or removed: the intervals beside it are other ones.
    pub(crate) fn divided(&mut self, set: SetId, key: &[u8], is_added: bool) {
        let Some(intervals) = self.sets.get_mut(&set) else { return };
        let own = intervals.binary_search_by(|one| one.start().cmp(key)).ok();
        let own = own.map(|at| intervals.remove(at));
        let Some(at) = Self::place(intervals, key) else {
            if intervals.is_empty() {
                self.sets.remove(&set);
            }
            own.iter().for_each(|own| self.let_go(own));
            return;
        };
        let before = &mut intervals[at];
        let has_keys = before.follow() && before.has_keys();
        let is_sound = match own {
            None if is_added && has_keys => {
                let second = before.divide(key);
                let is_sound = second.is_some();
                self.count += usize::from(is_sound);
                second.into_iter().for_each(|second| intervals.insert(at + 1, second));
                is_sound
            }
            Some(mut own) => {
                // The one before it counts for its bytes from now on.
                self.count -= 1;
                before.charge = (before.charge.0 + own.charge.0, before.charge.1 + own.charge.1);
                !is_added && has_keys && own.follow() && own.has_keys() && before.join(own)
            }
            None => false,
        };
        if !is_sound {
            self.forget_at(set, at);
        }
    }

    fn forget_at(&mut self, set: SetId, at: usize) {
        if let Some(intervals) = self.sets.get_mut(&set) {
            let interval = intervals.remove(at);
            if intervals.is_empty() {
                self.sets.remove(&set);
            }
            self.let_go(&interval);
        }
    }

    /// An interval is held no more.
    fn let_go(&mut self, interval: &Interval) {
        self.count -= 1;
        self.charge = (self.charge.0 - interval.charge.0, self.charge.1 - interval.charge.1);
    }

    /// The elements of a sorted set are removed.
    pub(super) fn forget(&mut self, set: SetId) {
        let intervals = self.sets.remove(&set).unwrap_or_default();
        intervals.iter().for_each(|interval| self.let_go(interval));
    }

    /// Nothing is held any more.
    pub(super) fn forget_all(&mut self) {
        *self = LevelOne::default();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::interval::MEMBERS_MAX;
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

    fn rank(held: &mut LevelOne, key: &[u8]) -> Option<(Vec<u8>, u64, bool)> {
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
            assert_eq!(rank(&mut held, key), Some((vec![], expected, true)));
        }
        held.changed(SET, b"g", false);
        assert_eq!(rank(&mut held, b"g"), None, "what was not there cannot go");
    }

    #[test]
    fn without_keys_members_are_counted_from_the_entry_before() {
        let mut held = LevelOne::default();
        held.hold(SET, interval(b"", &[b"b", b"d", &[b'e'; 300], b"h"], Some(b"m")));
        assert_eq!(rank(&mut held, b"i"), Some((vec![], 2, false)));
        assert_eq!(held.before(SET, b"i").unwrap().from, Some(&[b'e'; 300][..]));
        held.changed(SET, b"a", true);
        assert_eq!(rank(&mut held, b"i"), Some((vec![], 3, false)));
        held.divided(SET, b"c", true);
        assert_eq!(rank(&mut held, b"i"), None);
    }

    #[test]
    fn intervals_are_divided_and_joined_by_members_of_level_2() {
        let mut held = LevelOne::default();
        held.hold(SET, interval(b"", &[b"b", b"d", b"f", b"h", b"k"], Some(b"m")));
        held.hold(SET, interval(b"m", &[b"m", b"o"], None));
        held.divided(SET, b"e", true);
        assert_eq!(rank(&mut held, b"e"), Some((vec![], 2, true)));
        for (key, expected) in [(b"f", 1), (b"g", 2), (b"l", 4), (b"m", 4)] {
            assert_eq!(rank(&mut held, key), Some((b"e".to_vec(), expected, true)));
        }
        held.divided(SET, b"m", false);
        assert_eq!(rank(&mut held, b"z"), Some((b"e".to_vec(), 5, true)));
        held.changed(SET, b"p", true);
        assert_eq!(rank(&mut held, b"z"), Some((b"e".to_vec(), 6, true)));
        held.divided(SET, b"e", false);
        assert_eq!(rank(&mut held, b"z"), Some((vec![], 7, true)));
        held.divided(SET, b"zz", true);
        assert_eq!(rank(&mut held, b"zz"), Some((vec![], 7, true)));
        assert_eq!(rank(&mut held, b"zzz"), Some((b"zz".to_vec(), 1, true)));
    }

    #[test]
    fn an_entry_that_grows_is_divided() {
        let mut held = LevelOne::default();
        held.hold(SET, interval(b"", &[b"a"], None));
        for number in 0..2000_u32 {
            held.changed(SET, &number.reverse_bits().to_be_bytes(), true);
            if number % 50 == 0 {
                assert!(held.before(SET, b"x").is_some());
            }
        }
        let entries = held.from(SET, b"").unwrap();
        assert!(entries.iter().all(|entry| entry.members <= MEMBERS_MAX));
        assert_eq!(
            entries.iter().map(|entry| entry.members).sum::<u64>(),
            rank(&mut held, &[0xff; 9]).unwrap().1
        );
    }

    #[test]
    fn an_interval_that_is_changed_often_and_not_asked_is_forgotten() {
        let mut held = LevelOne::default();
        let keys: Vec<[u8; 4]> = (0..65_u32).map(|number| (2 * number).to_be_bytes()).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        held.hold(SET, interval(b"", &keys, None));
        keys[..64].iter().for_each(|key| held.changed(SET, key, false));
        assert_eq!(rank(&mut held, b"x"), Some((vec![], 1, true)));
        keys[..64].iter().for_each(|key| held.changed(SET, key, true));
        held.changed(SET, keys[64], false);
        assert_eq!(rank(&mut held, b"x"), None);
        assert_eq!((held.count, held.charge), (0, (0, 0)));
    }

    /// xorshift64*.
    fn next(state: &mut u64) -> u64 {
        *state ^= *state >> 12;
        *state ^= *state << 25;
        *state ^= *state >> 27;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33
    }

    /// The interval of a set that starts with a key of level 2, which those divisible by 50 are.
    fn counted(members: &BTreeSet<u32>, start: u32) -> Interval {
        let is_start = |member: u32| member.is_multiple_of(50);
        let key = |member: u32| member.to_be_bytes();
        let mut counted = match members.contains(&start) && is_start(start) {
            true => Interval::new(&key(start)),
            false => Interval::new(b""),
        };
        for &member in members.range(start..) {
            if is_start(member) && member > start {
                counted.ends(&key(member));
                break;
            }
            counted.push(&key(member), 4);
        }
        counted
    }

    /// As a sorted set does it: what is asked for and not held is counted, and each change is passed on.
    #[test]
    fn what_is_held_is_what_the_members_are() {
        let mut held = LevelOne::default();
        let mut members = BTreeSet::from([1]);
        let (mut state, mut answers) = (7, 0);
        for turn in 0..100_000 {
            // Often changed and seldom asked, and the reverse, by turns.
            let asks = if turn / 5000 % 2 == 0 { 20 } else { 2 };
            let member = next(&mut state) as u32 % 997;
            let key = member.to_be_bytes();
            if !next(&mut state).is_multiple_of(asks) {
                let is_added = members.insert(member);
                if !is_added {
                    members.remove(&member);
                }
                match member % 50 {
                    0 => held.divided(SET, &key, is_added),
                    _ => held.changed(SET, &key, is_added),
                }
                continue;
            }
            let start = members.range(..member).rfind(|other| *other % 50 == 0).copied();
            let expected = members.range(start.unwrap_or(0)..member).count() as u64;
            if held.before(SET, &key).is_none() {
                held.hold(SET, counted(&members, start.unwrap_or(0)));
                continue;
            }
            answers += 1;
            let counted = held.before(SET, &key).unwrap();
            assert_eq!(counted.start, start.map_or(vec![], |start| start.to_be_bytes().to_vec()));
            assert_eq!((counted.before, counted.from), (expected, None), "turn {turn}");
        }
        assert!(answers > 10_000, "{answers}");
        held.forget(SET);
        assert_eq!((held.count, held.charge), (0, (0, 0)));
    }
}
