//! A range of the snapshot with the transaction's own writes in it, a bounded number of them at a time.

use std::ops::Bound;
use std::sync::Arc;

use tembo_index::{Direction, Range, VersionedIndex, Visit};

use super::Transaction;
use super::write_set::is_empty;
use crate::{Error, Keyspace};

/// Own writes that are merged in one walk.
const BATCH: usize = 256;

impl Transaction<'_> {
    pub(super) fn merged(
        &self,
        keyspace: Keyspace,
        range: Range<'_>,
        visit: &mut Visit<'_>,
    ) -> Result<(), Error> {
        let mut reached: Option<Arc<[u8]>> = None;
        loop {
            let mut part = range;
            if let Some(reached) = &reached {
                match range.direction {
                    Direction::Forward => part.from = Bound::Excluded(reached),
                    Direction::Backward => part.to = Bound::Excluded(reached),
                }
            }
            if is_empty(part) {
                return Ok(());
            }
            let own = self.own_keys(keyspace, part)?;
            let last = own.get(BATCH - 1).cloned();
            if let Some(last) = &last {
                match range.direction {
                    Direction::Forward => part.to = Bound::Included(last),
                    Direction::Backward => part.from = Bound::Included(last),
                }
            }
            if !self.merge(keyspace, part, &own, visit)? || last.is_none() {
                return Ok(());
            }
            reached = last;
        }
    }

    /// The first keys of a range that the transaction has written, in the order of the walk.
    fn own_keys(&self, keyspace: Keyspace, range: Range<'_>) -> Result<Vec<Arc<[u8]>>, Error> {
        let mut own = self.writes.keys(keyspace, range, BATCH);
        if let Some(spilled) = &self.spilled {
            let index = spilled.index(self.inner, keyspace)?;
            let now = spilled.changes.view(self.inner);
            let most = own.len() + BATCH;
            index.range_changed(range, spilled.before, now, &mut |key| {
                own.push(key.into());
                own.len() < most
            })?;
            match range.direction {
                Direction::Forward => own.sort_unstable(),
                Direction::Backward => own.sort_unstable_by(|a, b| b.cmp(a)),
            }
            own.dedup();
            // Beyond the last key of either there may be others.
            own.truncate(BATCH);
        }
        Ok(own)
    }

    /// Visits the range with these keys in it; false: that was enough.
    fn merge(
        &self,
        keyspace: Keyspace,
        range: Range<'_>,
        own: &[Arc<[u8]>],
        visit: &mut Visit<'_>,
    ) -> Result<bool, Error> {
        let mut own = own.iter().peekable();
        let (mut goes_on, mut failed) = (true, None);
        let mut show = |key: &[u8], visit: &mut Visit<'_>| match self.own(keyspace, key) {
            Ok(own) => own.flatten().is_none_or(|value| visit(key, &value)),
            Err(error) => {
                failed = Some(error);
                false
            }
        };
        let Range { from, to, direction } = range;
        let is_before = |a: &[u8], b: &[u8]| match direction {
            Direction::Forward => a < b,
            Direction::Backward => a > b,
        };
        self.snapshot.range(keyspace, from, to, direction, &mut |key, value| {
            while goes_on && let Some(before) = own.next_if(|own| is_before(own, key)) {
                goes_on = show(before, visit);
            }
            if goes_on {
                goes_on = match own.next_if(|own| own[..] == *key) {
                    Some(same) => show(same, visit),
                    None => visit(key, value),
                };
            }
            goes_on
        })?;
        while goes_on && let Some(after) = own.next() {
            goes_on = show(after, visit);
        }
        failed.map_or(Ok(goes_on), Err)
    }
}
