//! The first and the last members of sorted sets from whose ends members are taken: they are looked for many at a time, as a
//! search reads a leaf of the store for one as for many.
//!
//! What is held is what the store has: the members nearest to the end, without a gap. It follows each change once the store has
//! it. A copy only, which may be forgotten at any time.

use std::collections::VecDeque;

use tembo_kv::Direction;

/// Ends that are held.
const ENDS_MAX: usize = 8;

/// Members that are looked for at an end together, and their bytes, after which no further one is taken.
pub(crate) const TOGETHER_MAX: (usize, usize) = (64, 16 << 10);

/// A sorted set: its database and its id.
type SetId = (usize, u64);

struct End {
    set: SetId,
    direction: Direction,
    /// The keys of the order; that at the end is the first one. Never empty.
    keys: VecDeque<Vec<u8>>,
}

impl End {
    /// Where a key is, or would be.
    fn place(&self, key: &[u8]) -> Result<usize, usize> {
        self.keys.binary_search_by(|held| match self.direction {
            Direction::Forward => held[..].cmp(key),
            Direction::Backward => key.cmp(&held[..]),
        })
    }
}

/// The ends that are held.
#[derive(Default)]
pub(crate) struct EndMembers {
    /// That which was looked for last is the last one.
    ends: Vec<End>,
}

impl EndMembers {
    /// The keys at the end where a direction begins, that at the end first, if so many are held.
    pub(crate) fn held(
        &self,
        set: SetId,
        direction: Direction,
        count: usize,
    ) -> Option<impl Iterator<Item = &[u8]>> {
        let end = self.ends.iter().find(|end| end.set == set && end.direction == direction)?;
        (end.keys.len() >= count).then(|| end.keys.iter().take(count).map(|key| &key[..]))
    }

    /// Holds the keys at an end: all members are among them or behind.
    pub(crate) fn hold(&mut self, set: SetId, direction: Direction, keys: Vec<Vec<u8>>) {
        self.ends.retain(|end| end.set != set || end.direction != direction);
        if keys.is_empty() {
            return;
        }
        if self.ends.len() == ENDS_MAX {
            self.ends.remove(0);
        }
        self.ends.push(End { set, direction, keys: keys.into() });
    }

    /// A member was added.
    pub(crate) fn added(&mut self, set: SetId, key: &[u8]) {
        for end in self.ends.iter_mut().filter(|end| end.set == set) {
            // Whether it is the next one behind those that are held is not known.
            if let Err(at) = end.place(key)
                && at < end.keys.len()
            {
                end.keys.insert(at, key.to_vec());
                end.keys.truncate(TOGETHER_MAX.0);
            }
        }
    }

    /// A member was removed.
    pub(crate) fn removed(&mut self, set: SetId, key: &[u8]) {
        for end in self.ends.iter_mut().filter(|end| end.set == set) {
            if end.keys.front().is_some_and(|first| first == key) {
                end.keys.pop_front();
            } else if let Ok(at) = end.place(key) {
                end.keys.remove(at);
            }
        }
        self.ends.retain(|end| !end.keys.is_empty());
    }

    /// Nothing is held any more.
    pub(crate) fn forget(&mut self) {
        self.ends.clear();
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
        assert_eq!(held(&members, Direction::Forward, TOGETHER_MAX.0 + 1), None);
        let expected: Vec<Vec<u8>> = (0..TOGETHER_MAX.0 as u8).map(|number| vec![number]).collect();
        assert_eq!(held(&members, Direction::Forward, TOGETHER_MAX.0).unwrap(), expected);
        for id in 0..ENDS_MAX as u64 {
            members.hold((1, id), Direction::Forward, vec![b"a".to_vec()]);
        }
        assert_eq!(held(&members, Direction::Forward, 1), None);
        assert!(members.held((1, 0), Direction::Forward, 1).is_some());
    }
}
