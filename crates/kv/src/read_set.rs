//! The read set: what a serialisable transaction has read, which must be unchanged when it commits.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use tembo_index::{Direction, Range};

use crate::Keyspace;

/// Keys, also absent ones, and ranges that were read.
#[derive(Default)]
pub(crate) struct ReadSet {
    pub(crate) keys: BTreeMap<Keyspace, BTreeSet<Vec<u8>>>,
    pub(crate) ranges: Vec<ReadRange>,
}

/// A range that was read completely.
pub(crate) struct ReadRange {
    pub(crate) keyspace: Keyspace,
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
}

impl ReadSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.ranges.is_empty()
    }

    /// The first key of the range that was read. If there is none, but a range was read that meets this one, the key at which
    /// both begin.
    pub(crate) fn first_in(&self, keyspace: Keyspace, range: Range<'_>) -> Option<Vec<u8>> {
        if is_empty(range) {
            return None;
        }
        let keys = self.keys.get(&keyspace);
        let key = keys.and_then(|keys| keys.range::<[u8], _>((range.from, range.to)).next());
        key.cloned().or_else(|| {
            let mut read = self.ranges.iter().filter(|read| read.keyspace == keyspace);
            read.find_map(|read| intersection(read.range(), range)).map(|both| match both.from {
                Bound::Included(from) | Bound::Excluded(from) => from.to_vec(),
                Bound::Unbounded => Vec::new(),
            })
        })
    }

    pub(crate) fn key(&mut self, keyspace: Keyspace, key: &[u8]) {
        self.keys.entry(keyspace).or_default().insert(key.to_vec());
    }

    /// Notes that the range was read as far as `reached`. `None`: to its end.
    pub(crate) fn range(&mut self, keyspace: Keyspace, range: Range<'_>, reached: Option<Vec<u8>>) {
        let (mut from, mut to) = (range.from.map(<[u8]>::to_vec), range.to.map(<[u8]>::to_vec));
        if let Some(reached) = reached {
            match range.direction {
                Direction::Forward => to = Bound::Included(reached),
                Direction::Backward => from = Bound::Included(reached),
            }
        }
        self.ranges.push(ReadRange { keyspace, from, to });
    }
}

impl ReadRange {
    pub(crate) fn range(&self) -> Range<'_> {
        let (from, to) = (self.from.as_ref(), self.to.as_ref());
        let direction = Direction::Forward;
        Range { from: from.map(Vec::as_slice), to: to.map(Vec::as_slice), direction }
    }
}

/// The common part of two ranges. `None`: it has no key.
fn intersection<'r>(a: Range<'r>, b: Range<'r>) -> Option<Range<'r>> {
    use Bound::{Excluded, Included, Unbounded};
    let from = match (a.from, b.from) {
        (Unbounded, from) | (from, Unbounded) => from,
        (Included(x) | Excluded(x), Included(y) | Excluded(y)) if x > y => a.from,
        (Included(x) | Excluded(x), Included(y) | Excluded(y)) if x < y => b.from,
        (Excluded(_), _) => a.from,
        _ => b.from,
    };
    let to = match (a.to, b.to) {
        (Unbounded, to) | (to, Unbounded) => to,
        (Included(x) | Excluded(x), Included(y) | Excluded(y)) if x < y => a.to,
        (Included(x) | Excluded(x), Included(y) | Excluded(y)) if x > y => b.to,
        (Excluded(_), _) => a.to,
        _ => b.to,
    };
    let both = Range { from, to, direction: Direction::Forward };
    (!is_empty(both)).then_some(both)
}

/// Whether no key can lie in a range. A range of a `BTreeMap` would panic then.
pub(crate) fn is_empty(range: Range<'_>) -> bool {
    use Bound::{Excluded, Included};
    match (range.from, range.to) {
        (Included(from), Included(to)) => from > to,
        (Included(from) | Excluded(from), Included(to) | Excluded(to)) => from >= to,
        _ => false,
    }
}
