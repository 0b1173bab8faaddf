//! The tally of changes: keys added and removed, by keyspace, and which keys were removed lately.
//!
//! Every place that changes keys fills a [`Tally`]: a write slot, the changes of a commit, a single change
//! under the writer's lock. The [directory](crate::trees::Directory) adds it up, in one function.

mod removals;

pub(crate) use removals::{Removals, hash};

use tembo_index::Op;

use crate::Keyspace;

/// Most removed keys that a tally keeps. If there are more, it keeps the first ones.
const NAMED_MAX: usize = removals::NOTED_MAX;

/// The tally of some changes.
#[derive(Default)]
pub(crate) struct Tally {
    /// A sum for each keyspace, in the order of their numbers.
    sums: Vec<Sum>,
    /// The index of the sum in which the last change was counted.
    last: usize,
    /// Hashes of keys that were removed, each with the version.
    removed: Vec<(u64, u64)>,
}

/// The sum of the changes of one keyspace.
#[derive(Clone, Copy)]
pub(crate) struct Sum {
    /// Number of the keyspace.
    pub(crate) id: u32,
    /// Keys added less keys removed.
    pub(crate) delta: i64,
    /// Keys removed.
    pub(crate) removed: u64,
}

/// A point to which a tally can go back.
#[derive(Clone)]
pub(crate) struct TallyPoint {
    sums: Vec<Sum>,
    removed: usize,
}

impl Tally {
    /// Counts a change that was made in `version`.
    #[inline]
    pub(crate) fn count(&mut self, keyspace: Keyspace, op: Op<'_>, existed: bool, version: u64) {
        match op {
            Op::Put { .. } if !existed => self.sum(keyspace.id).delta += 1,
            Op::Remove { key } if existed => self.count_removal(keyspace, key, version),
            _ => {}
        }
    }

    #[inline(never)]
    fn count_removal(&mut self, keyspace: Keyspace, key: &[u8], version: u64) {
        let sum = self.sum(keyspace.id);
        sum.delta -= 1;
        sum.removed += 1;
        if self.removed.len() < NAMED_MAX {
            self.removed.push((hash(keyspace, key), version));
        }
    }

    #[inline(always)]
    fn sum(&mut self, id: u32) -> &mut Sum {
        if self.sums.get(self.last).is_none_or(|sum| sum.id != id) {
            self.find(id);
        }
        &mut self.sums[self.last]
    }

    #[inline(never)]
    fn find(&mut self, id: u32) {
        self.last = match self.sums.binary_search_by_key(&id, |sum| sum.id) {
            Ok(at) => at,
            Err(at) => {
                self.sums.insert(at, Sum { id, delta: 0, removed: 0 });
                at
            }
        };
    }

    /// What the changes add to the count of a keyspace.
    pub(crate) fn delta(&self, keyspace: Keyspace) -> i64 {
        let found = self.sums.binary_search_by_key(&keyspace.id, |sum| sum.id);
        found.map_or(0, |at| self.sums[at].delta)
    }

    /// Notes that every key of the keyspace was removed at once: earlier changes of it do not count any more.
    pub(crate) fn clear(&mut self, keyspace: Keyspace) {
        self.sums.retain(|sum| sum.id != keyspace.id);
    }

    pub(crate) fn point(&self) -> TallyPoint {
        TallyPoint { sums: self.sums.clone(), removed: self.removed.len() }
    }

    /// Takes back what was counted after the point.
    pub(crate) fn go_back(&mut self, point: &TallyPoint) {
        self.sums.clone_from(&point.sums);
        self.removed.truncate(point.removed);
    }

    /// Takes the sums out.
    pub(crate) fn take_sums(&mut self) -> impl Iterator<Item = Sum> + '_ {
        self.sums.drain(..)
    }

    /// Takes the hashes of removed keys out, with their versions.
    pub(crate) fn take_removed(&mut self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.removed.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Keyspace = Keyspace { id: 7, incarnation: 0 };
    const B: Keyspace = Keyspace { id: 2, incarnation: 0 };

    fn put(tally: &mut Tally, keyspace: Keyspace, existed: bool) {
        tally.count(keyspace, Op::Put { key: b"k", value: &[] }, existed, 1);
    }

    fn remove(tally: &mut Tally, keyspace: Keyspace, existed: bool) {
        tally.count(keyspace, Op::Remove { key: b"k" }, existed, 2);
    }

    #[test]
    fn only_what_changes_the_number_of_keys_is_counted() {
        let mut tally = Tally::default();
        put(&mut tally, A, true);
        remove(&mut tally, A, false);
        assert!(tally.sums.is_empty() && tally.removed.is_empty());
        put(&mut tally, A, false);
        put(&mut tally, B, false);
        put(&mut tally, A, false);
        remove(&mut tally, B, true);
        assert_eq!((tally.delta(A), tally.delta(B)), (2, 0));
        assert_eq!(tally.take_removed().collect::<Vec<_>>(), [(hash(B, b"k"), 2)]);
        let sums: Vec<_> = tally.take_sums().map(|sum| (sum.id, sum.delta, sum.removed)).collect();
        assert_eq!(sums, [(2, 0, 1), (7, 2, 0)]);
        put(&mut tally, A, false);
        assert_eq!(tally.delta(A), 1);
    }

    #[test]
    fn what_is_taken_back_or_cleared_was_not_counted() {
        let mut tally = Tally::default();
        put(&mut tally, A, false);
        let point = tally.point();
        remove(&mut tally, A, true);
        put(&mut tally, B, false);
        tally.go_back(&point);
        assert_eq!((tally.delta(A), tally.delta(B), tally.removed.len()), (1, 0, 0));
        put(&mut tally, B, false);
        tally.clear(B);
        assert_eq!((tally.delta(A), tally.delta(B)), (1, 0));
    }
}
