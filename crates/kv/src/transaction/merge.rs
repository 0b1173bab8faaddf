//! A range of the snapshot with the transaction's own writes in it, a bounded number of them at a time.

use std::ops::Bound;
use std::sync::Arc;

use tembo_index::{Direction, Range, Value, Visit};

use super::own::Own;
use crate::read_set::is_empty;
use crate::{Error, Keyspace, Snapshot};

/// Own writes that are merged in one pass over the snapshot.
const BATCH: usize = 256;

/// Visits the range.
pub(super) fn merged(
    snapshot: &Snapshot,
    own: Own<'_>,
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
        let keys = own.keys(keyspace, part, BATCH)?;
        let last = keys.get(BATCH - 1).cloned();
        if let Some(last) = &last {
            match range.direction {
                Direction::Forward => part.to = Bound::Included(last),
                Direction::Backward => part.from = Bound::Included(last),
            }
        }
        if !merge(snapshot, own, keyspace, part, &keys, visit)? || last.is_none() {
            return Ok(());
        }
        reached = last;
    }
}

/// Visits the range with these own keys in it. Returns false if the visitor has had enough.
fn merge(
    snapshot: &Snapshot,
    own: Own<'_>,
    keyspace: Keyspace,
    range: Range<'_>,
    keys: &[Arc<[u8]>],
    visit: &mut Visit<'_>,
) -> Result<bool, Error> {
    let mut keys = keys.iter().peekable();
    let (mut goes_on, mut failed, mut unread) = (true, None, None);
    let mut show = |key: &[u8], visit: &mut Visit<'_>| match own.get(keyspace, key) {
        Ok(own) => own.flatten().is_none_or(|value| visit(key, Value::from(&value[..]))),
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
    snapshot.range_with::<[u8]>(keyspace, (from, to), direction, &mut |key, value| {
        while goes_on && let Some(before) = keys.next_if(|own| is_before(own, key)) {
            goes_on = show(before, visit);
        }
        if goes_on {
            goes_on = match keys.next_if(|own| own[..] == *key) {
                Some(same) => show(same, visit),
                // The transaction may have removed a range with the key, which is not among its own keys.
                None => match own.get(keyspace, key) {
                    Ok(None) => visit(key, value),
                    Ok(Some(_)) => true,
                    Err(error) => {
                        unread = Some(error);
                        false
                    }
                },
            };
        }
        goes_on
    })?;
    while goes_on && let Some(after) = keys.next() {
        goes_on = show(after, visit);
    }
    failed.or(unread).map_or(Ok(goes_on), Err)
}
