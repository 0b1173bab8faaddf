//! Whether a key has changed since a version: what a transaction asks when it commits.
//!
//! An entry that is copied into another node gets another stamp, and an ended one stays behind; but a
//! record is written once and not given back while a version that sees it is pinned. So a key is the
//! same in two versions when its record is.

use std::ops::Bound;

use tembo_pool::Object;

use super::scan::scan_records;
use crate::cdds::roots::Roots;
use crate::{Direction, Error, Place, Range, View, VisitKey};

/// Keys of each of the two versions that are compared at a time.
const BATCH: usize = 64;

/// Keys in the order of a walk, and their records.
type Part = Vec<(Vec<u8>, Object)>;

/// A version up to which the key has changed, if it has.
pub(crate) fn changed_after(
    roots: &Roots,
    key: &[u8],
    since: u64,
    now: View<'_>,
) -> Result<Option<u64>, Error> {
    let record = |view| -> Result<Option<Object>, Error> {
        Ok(roots.find(key, Place::default(), view)?.map(|found| found.record))
    };
    let before = record(View { version: since, ..now })?;
    Ok((before != record(now)?).then_some(now.version))
}

/// Visits the keys that have changed.
pub(crate) fn range_changed_after(
    roots: &Roots,
    range: Range<'_>,
    since: u64,
    now: View<'_>,
    visit: &mut VisitKey<'_>,
) -> Result<(), Error> {
    let is_before = |a: &[u8], b: &[u8]| match range.direction {
        Direction::Forward => a < b,
        Direction::Backward => a > b,
    };
    let mut reached: Option<Vec<u8>> = None;
    loop {
        let mut rest = range;
        if let Some(reached) = &reached {
            match range.direction {
                Direction::Forward => rest.from = Bound::Excluded(reached),
                Direction::Backward => rest.to = Bound::Excluded(reached),
            }
        }
        let before = part(roots, rest, View { version: since, ..now })?;
        let after = part(roots, rest, now)?;
        // A full part ends at its last key: what its version has behind that key is not known.
        let ends = [&before, &after].into_iter().filter(|part| part.len() == BATCH);
        let end = ends.filter_map(|part| part.last()).map(|(key, _)| key.clone());
        let end = end.reduce(|a, b| if is_before(&a, &b) { a } else { b });
        let (mut old, mut new) = (before.iter().peekable(), after.iter().peekable());
        loop {
            let is_changed = match (old.peek(), new.peek()) {
                (None, None) => break,
                (Some(a), Some(b)) if a.0 == b.0 => a.1 != b.1,
                _ => true,
            };
            let first = match (old.peek(), new.peek()) {
                (Some(a), Some(b)) if is_before(&b.0, &a.0) => &b.0,
                (Some(a), _) => &a.0,
                (None, Some(b)) => &b.0,
                (None, None) => break,
            };
            if end.as_ref().is_some_and(|end| is_before(end, first)) {
                break;
            }
            if is_changed && !visit(first) {
                return Ok(());
            }
            old.next_if(|(key, _)| key == first);
            new.next_if(|(key, _)| key == first);
        }
        match end {
            Some(end) => reached = Some(end),
            None => return Ok(()),
        }
    }
}

fn part(roots: &Roots, range: Range<'_>, view: View<'_>) -> Result<Part, Error> {
    let mut part = Part::new();
    let Range { from, to, direction } = range;
    scan_records(roots, (from, to), direction, view, &mut |key, found| {
        part.push((key.to_vec(), found.record));
        part.len() < BATCH
    })?;
    Ok(part)
}
