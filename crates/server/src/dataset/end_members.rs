//! The first and the last members of sorted sets from whose ends members are taken: they are looked for many at a time, as a
//! search reads a leaf of the store for one as for many.
//!
//! What is held is what the store has: the members nearest to the end, without a gap. It follows each change once the store has
//! it. A copy only, which may be forgotten at any time. The first time few members are looked for, and each further time twice as
//! many: so an end that is forgotten before it is asked for again costs little.

use std::collections::{HashMap, VecDeque};

use tembo_kv::Direction;

/// Sets whose ends are held. When there are more, all are forgotten.
const SETS_MAX: usize = 128;

/// Members that are looked for at an end together: the first time, and at most.
pub(crate) const TOGETHER: (usize, usize) = (4, 64);

/// Bytes of members that are held of an end, and that are looked for together: after so many no further one is taken.
pub(crate) const TOGETHER_SIZE_MAX: usize = 16 << 10;

/// A sorted set: its database and its id.
type SetId = (usize, u64);

struct End {
    /// The keys of the order; that at the end is the first one. None: nothing is known.
    keys: VecDeque<Vec<u8>>,
    /// Bytes of them.
    size: usize,
    /// How many are looked for when it is asked for more than it has.
    next: usize,
    /// So many of the first were prefetched and not removed since.
    near: usize,
}

impl Default for End {
    fn default() -> End {
        End { keys: VecDeque::new(), size: 0, next: TOGETHER.0, near: 0 }
    }
}

impl End {
    /// Where a key is, or would be.
    fn place(&self, direction: Direction, key: &[u8]) -> Result<usize, usize> {
        self.keys.binary_search_by(|held| match direction {
            Direction::Forward => held[..].cmp(key),
            Direction::Backward => key.cmp(&held[..]),
        })
    }

    /// Inserts a key, and forgets the last ones if they are too many.
    fn insert(&mut self, at: usize, key: &[u8]) {
        self.keys.insert(at, key.to_vec());
        self.size += key.len();
        while self.keys.len() > TOGETHER.1 || self.size > TOGETHER_SIZE_MAX {
            let Some(last) = self.keys.pop_back() else { break };
            self.size -= last.len();
        }
    }

    fn remove(&mut self, at: usize) {
        self.near -= usize::from(at < self.near);
        self.size -= self.keys.remove(at).map_or(0, |key| key.len());
    }
}

/// Both ends of a set.
#[derive(Default)]
struct BothEnds {
    first: End,
    last: End,
}

impl BothEnds {
    fn get(&self, direction: Direction) -> &End {
        match direction {
            Direction::Forward => &self.first,
            Direction::Backward => &self.last,
        }
    }

    fn get_mut(&mut self, direction: Direction) -> &mut End {
        match direction {
            Direction::Forward => &mut self.first,
            Direction::Backward => &mut self.last,
        }
    }
}

/// The ends that are held.
#[derive(Default)]
pub(crate) struct EndMembers {
    sets: HashMap<SetId, BothEnds>,
}

impl EndMembers {
    /// The keys at the end where a direction begins, that at the end first, if so many are held.
    pub(crate) fn held(
        &self,
        set: SetId,
        direction: Direction,
        count: usize,
    ) -> Option<impl Iterator<Item = &[u8]>> {
        let keys = &self.sets.get(&set)?.get(direction).keys;
        let has_all = !keys.is_empty() && keys.len() >= count;
        has_all.then(|| keys.iter().take(count).map(|key| &key[..]))
    }

    /// How many members to look for at an end of which not enough are held.
    pub(crate) fn together(&self, set: SetId, direction: Direction) -> usize {
        self.sets.get(&set).map_or(TOGETHER.0, |ends| ends.get(direction).next)
    }

    /// Holds the keys at an end: all members are among them or behind.
    pub(crate) fn hold(&mut self, set: SetId, direction: Direction, keys: Vec<Vec<u8>>) {
        if self.sets.len() == SETS_MAX && !self.sets.contains_key(&set) {
            self.sets.clear();
        }
        let end = self.sets.entry(set).or_default().get_mut(direction);
        let size = keys.iter().map(Vec::len).sum();
        *end = End { keys: keys.into(), size, next: TOGETHER.1.min(2 * end.next), near: 0 };
    }

    /// The first `count` keys at an end, to be prefetched, unless one of those that were prefetched before is still there.
    pub(crate) fn come_near(
        &mut self,
        set: SetId,
        direction: Direction,
        count: usize,
    ) -> impl Iterator<Item = &[u8]> {
        let end = self.sets.get_mut(&set).map(|ends| ends.get_mut(direction));
        let end = end.filter(|end| end.near == 0);
        end.into_iter().flat_map(move |end| {
            end.near = count.min(end.keys.len());
            end.keys.iter().take(end.near).map(|key| &key[..])
        })
    }

    /// A member was added.
    pub(crate) fn added(&mut self, set: SetId, key: &[u8]) {
        let Some(ends) = self.sets.get_mut(&set) else { return };
        for direction in [Direction::Forward, Direction::Backward] {
            let end = ends.get_mut(direction);
            // Whether it is the next one behind those that are held is not known.
            if let Err(at) = end.place(direction, key)
                && at < end.keys.len()
            {
                end.insert(at, key);
            }
        }
    }

    /// A member was removed.
    pub(crate) fn removed(&mut self, set: SetId, key: &[u8]) {
        let Some(ends) = self.sets.get_mut(&set) else { return };
        for direction in [Direction::Forward, Direction::Backward] {
            let end = ends.get_mut(direction);
            if end.keys.front().is_some_and(|first| first == key) {
                end.remove(0);
            } else if let Ok(at) = end.place(direction, key) {
                end.remove(at);
            }
        }
    }

    /// Nothing is held any more.
    pub(crate) fn forget(&mut self) {
        self.sets.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: SetId = (0, 7);

    fn held(members: &EndMembers, direction: Direction, count: usize) -> Option<Vec<&[u8]>> {
        members.held(SET, direction, count).map(Iterator::collect)
    }

    #[test]
    fn what_is_held_follows_what_is_added_and_removed() {
        let mut members = EndMembers::default();
        let keys = |names: &[&str]| names.iter().map(|name| name.as_bytes().to_vec()).collect();
        members.hold(SET, Direction::Forward, keys(&["b", "d", "f"]));
        members.hold(SET, Direction::Backward, keys(&["z", "x", "v"]));
        members.hold((0, 8), Direction::Forward, keys(&["a"]));
        assert_eq!(held(&members, Direction::Forward, 4), None);
        members.added(SET, b"c");
        members.added(SET, b"a");
        members.added(SET, b"h");
        members.added(SET, b"y");
        members.added(SET, b"u");
        assert_eq!(
            held(&members, Direction::Forward, 5).unwrap(),
            [&b"a"[..], b"b", b"c", b"d", b"f"]
        );
        assert_eq!(held(&members, Direction::Forward, 6), None);
        assert_eq!(held(&members, Direction::Backward, 4).unwrap(), [&b"z"[..], b"y", b"x", b"v"]);
        assert_eq!(held(&members, Direction::Backward, 5), None);
        members.removed(SET, b"a");
        members.removed(SET, b"d");
        members.removed(SET, b"e");
        assert_eq!(held(&members, Direction::Forward, 3).unwrap(), [&b"b"[..], b"c", b"f"]);
        for key in [&b"c"[..], b"f", b"b"] {
            members.removed(SET, key);
        }
        // Nothing is known any more of that end.
        assert_eq!(held(&members, Direction::Forward, 0), None);
        members.added(SET, b"a");
        assert_eq!(held(&members, Direction::Forward, 1), None);
        members.forget();
        assert_eq!(held(&members, Direction::Backward, 1), None);
    }

    #[test]
    fn no_more_are_held_than_have_room() {
        let mut members = EndMembers::default();
        members.hold(SET, Direction::Forward, vec![b"zz".to_vec()]);
        for number in (0..200_u8).rev() {
            members.added(SET, &[number]);
        }
        assert_eq!(held(&members, Direction::Forward, TOGETHER.1 + 1), None);
        let expected: Vec<Vec<u8>> = (0..TOGETHER.1 as u8).map(|number| vec![number]).collect();
        assert_eq!(held(&members, Direction::Forward, TOGETHER.1).unwrap(), expected);
        for id in 1..SETS_MAX as u64 {
            members.hold((1, id), Direction::Forward, vec![b"a".to_vec()]);
        }
        assert!(held(&members, Direction::Forward, 1).is_some());
        members.hold((1, 0), Direction::Backward, vec![b"a".to_vec()]);
        assert_eq!(held(&members, Direction::Forward, 1), None);
        assert!(members.held((1, 0), Direction::Backward, 1).is_some());
    }

    #[test]
    fn the_more_often_an_end_is_looked_at_the_more_are_looked_for() {
        let mut members = EndMembers::default();
        for expected in [4, 8, 16, 32, 64, 64] {
            assert_eq!(members.together(SET, Direction::Backward), expected);
            members.hold(SET, Direction::Backward, vec![b"a".to_vec()]);
            members.removed(SET, b"a");
        }
        assert_eq!(members.together(SET, Direction::Forward), 4);
        members.forget();
        assert_eq!(members.together(SET, Direction::Backward), 4);
    }
    #[test]
    fn no_more_bytes_are_held_than_have_room() {
        let mut members = EndMembers::default();
        members.hold(SET, Direction::Forward, vec![b"zz".to_vec()]);
        let long = |first| [&[first][..], &[0; TOGETHER_SIZE_MAX / 4]].concat();
        for first in (0..20).rev() {
            members.added(SET, &long(first));
        }
        assert_eq!(held(&members, Direction::Forward, 4), None);
        assert_eq!(held(&members, Direction::Forward, 3).unwrap(), [long(0), long(1), long(2)]);
        (0..3).for_each(|first| members.removed(SET, &long(first)));
        members.hold(SET, Direction::Forward, vec![b"zz".to_vec()]);
        members.added(SET, &[1; 2 * TOGETHER_SIZE_MAX]);
        assert_eq!(held(&members, Direction::Forward, 0), None);
    }

    #[test]
    fn members_come_near_when_those_before_are_removed() {
        let mut members = EndMembers::default();
        let near = |members: &mut EndMembers| -> Vec<Vec<u8>> {
            members.come_near(SET, Direction::Forward, 2).map(<[u8]>::to_vec).collect()
        };
        assert!(near(&mut members).is_empty());
        let keys = ["b", "d", "f"].map(|name| name.as_bytes().to_vec());
        members.hold(SET, Direction::Forward, keys.into());
        assert_eq!(near(&mut members), [b"b", b"d"]);
        assert!(near(&mut members).is_empty());
        members.removed(SET, b"b");
        members.removed(SET, b"f");
        assert!(near(&mut members).is_empty(), "one of them is still there");
        members.added(SET, b"c");
        members.removed(SET, b"d");
        members.removed(SET, b"c");
        assert!(near(&mut members).is_empty(), "no member is held");
        members.hold(SET, Direction::Forward, vec![b"k".to_vec()]);
        assert_eq!(near(&mut members), [b"k"]);
    }
}
