//! Between which keys the members of a collection lie: of a sorted set in the order of scores, of a set or a hash of which
//! random members are asked for, by name.
//!
//! What is removed leaves the order of keys late, when it is collected: a search from the begin would pass all of it each
//! time. So a search for the first member begins where the last such search has found one. A hint only: it may be forgotten
//! at any time. Copies of what the store has are kept with it, as they are forgotten when it is.

use crate::dataset::end_members::EndMembers;
use crate::dataset::stream_hints::StreamHints;

/// Collections that are remembered.
const REMEMBERED_MAX: usize = 8;

/// Both ends are so often taken for those that they were.
const USED_MAX: u32 = 64;

/// Where the members of a collection are.
struct Bounds {
    /// The database and the id.
    set: (usize, u64),
    /// No member's key is less.
    from: Vec<u8>,
    /// Every member's key is less: the last one's that was found, and a byte behind it.
    to: Option<Vec<u8>>,
    /// How often both ends were asked for.
    used: u32,
}

/// The collections of which an end was looked for.
#[derive(Default)]
pub(crate) struct KnownEnds {
    /// That which was used last is the last one.
    sets: Vec<Bounds>,
    /// Random members of a set that were drawn together, of which some may have been removed since.
    drawn: ((usize, u64), Vec<Vec<u8>>),
    /// Members at the ends of sorted sets. Not a hint: it has to follow all changes.
    pub(crate) members: EndMembers,
    /// What was read of streams, which is no hint either.
    pub(crate) streams: StreamHints,
}

impl KnownEnds {
    fn find(&self, set: (usize, u64)) -> Option<&Bounds> {
        self.sets.iter().find(|bounds| bounds.set == set)
    }

    fn find_or_add(&mut self, set: (usize, u64)) -> Option<&mut Bounds> {
        match self.sets.iter().position(|bounds| bounds.set == set) {
            Some(at) => self.sets[at..].rotate_left(1),
            None => {
                if self.sets.len() == REMEMBERED_MAX {
                    self.sets.remove(0);
                }
                self.sets.push(Bounds { set, from: Vec::new(), to: None, used: 0 });
            }
        }
        self.sets.last_mut()
    }

    /// One of the members that were drawn, which it takes.
    pub(crate) fn take_drawn(&mut self, set: (usize, u64)) -> Option<Vec<u8>> {
        if self.drawn.0 == set { self.drawn.1.pop() } else { None }
    }

    /// These members were drawn.
    pub(crate) fn set_drawn(&mut self, set: (usize, u64), members: Vec<Vec<u8>>) {
        self.drawn = (set, members);
    }

    /// No key of a member is less than this one.
    pub(crate) fn from(&self, set: (usize, u64)) -> &[u8] {
        self.find(set).map_or(&[], |bounds| &bounds.from)
    }

    /// The key of every member is less than this one, if one is known.
    pub(crate) fn to(&self, set: (usize, u64)) -> Option<&[u8]> {
        self.find(set)?.to.as_deref()
    }

    /// Both ends, if they are known and were not asked for too often since: what was removed has not narrowed them.
    pub(crate) fn ends(&mut self, set: (usize, u64)) -> Option<(&[u8], &[u8])> {
        let bounds = self.sets.iter_mut().find(|bounds| bounds.set == set)?;
        bounds.used += 1;
        let (_, last) = bounds.to.as_deref().filter(|_| bounds.used <= USED_MAX)?.split_last()?;
        Some((&bounds.from, last))
    }

    /// These are the keys of the first and of the last member.
    pub(crate) fn found_ends(&mut self, set: (usize, u64), (first, last): (&[u8], &[u8])) {
        self.found_first(set, first);
        self.found_last(set, last);
        if let Some(bounds) = self.sets.last_mut() {
            bounds.used = 0;
        }
    }

    /// Nothing is known of the collection any more.
    pub(crate) fn forget_one(&mut self, set: (usize, u64)) {
        self.sets.retain(|bounds| bounds.set != set);
    }

    /// This is the key of the first member.
    pub(crate) fn found_first(&mut self, set: (usize, u64), key: &[u8]) {
        if let Some(bounds) = self.find_or_add(set) {
            key.clone_into(&mut bounds.from);
        }
    }

    /// This is the key of the last member.
    pub(crate) fn found_last(&mut self, set: (usize, u64), key: &[u8]) {
        if let Some(bounds) = self.find_or_add(set) {
            bounds.to = Some([key, &[0]].concat());
        }
    }

    /// A member is added.
    pub(crate) fn added(&mut self, set: (usize, u64), key: &[u8]) {
        let Some(bounds) = self.sets.iter_mut().find(|bounds| bounds.set == set) else { return };
        if key < &bounds.from[..] {
            key.clone_into(&mut bounds.from);
        }
        if bounds.to.as_deref().is_some_and(|to| key >= to) {
            bounds.to = None;
        }
    }

    /// Nothing is known any more.
    pub(crate) fn forget(&mut self) {
        self.sets.clear();
        self.drawn.1.clear();
        self.members.forget();
        self.streams.forget();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_lie_between_what_was_found_and_what_was_added() {
        let (mut known_ends, set) = (KnownEnds::default(), (0, 7));
        assert_eq!((known_ends.from(set), known_ends.to(set)), (&b""[..], None));
        known_ends.found_first(set, b"b");
        known_ends.found_last(set, b"y");
        assert_eq!((known_ends.from(set), known_ends.to(set)), (&b"b"[..], Some(&b"y\0"[..])));
        known_ends.added(set, b"c");
        assert_eq!((known_ends.from(set), known_ends.to(set)), (&b"b"[..], Some(&b"y\0"[..])));
        known_ends.added(set, b"a");
        known_ends.added(set, b"z");
        assert_eq!((known_ends.from(set), known_ends.to(set)), (&b"a"[..], None));
        assert_eq!(known_ends.ends(set), None);
        known_ends.found_ends(set, (b"d", b"x"));
        for _ in 0..USED_MAX {
            assert_eq!(known_ends.ends(set), Some((&b"d"[..], &b"x"[..])));
        }
        assert_eq!(known_ends.ends(set), None);
        known_ends.forget_one(set);
        for id in 100..120 {
            known_ends.found_first((0, id), b"x");
        }
        assert_eq!((known_ends.from(set), known_ends.from((0, 119))), (&b""[..], &b"x"[..]));
    }
}
