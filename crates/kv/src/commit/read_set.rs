//! What a serialisable transaction has read, and so must find unchanged when it commits.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use tembo_index::{Direction, Range};

use crate::Keyspace;

/// Keys, those that were absent too, and ranges.
#[derive(Default)]
pub(crate) struct ReadSet {
    pub(crate) keys: BTreeMap<Keyspace, BTreeSet<Vec<u8>>>,
    pub(crate) ranges: Vec<ReadRange>,
}

/// A range all of which was read.
pub(crate) struct ReadRange {
    pub(crate) keyspace: Keyspace,
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
}

impl ReadSet {
    pub(crate) fn key(&mut self, keyspace: Keyspace, key: &[u8]) {
        let keys = self.keys.entry(keyspace).or_default();
        if !keys.contains(key) {
            keys.insert(key.to_vec());
        }
    }

    /// The range was read as far as `reached`; `None`: to its end.
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
