//! Reads of an index beneath tombstones.

use std::collections::BTreeSet;
use std::ops::Bound;

use tembo_index::{Direction, Index, Range, Value, VersionedIndex, View, Visit};

use super::{KeyRange, Tombstone};
use crate::Error;

/// Keys put after a tombstone that are looked for at a time.
const BATCH: usize = 64;

/// The version of the last tombstone that covers a key.
fn covering(list: &[Tombstone], index: &Index, key: &[u8], version: u64) -> Option<u64> {
    let cell = index.object().to_bits();
    let of_key =
        |tombstone: &&Tombstone| tombstone.is_of(cell, version) && tombstone.range.contains(key);
    list.iter().filter(of_key).map(|tombstone| tombstone.version).max()
}

/// The value under a key that no tombstone covers.
#[inline]
pub(crate) fn masked_get<'i>(
    list: &[Tombstone],
    index: &'i Index,
    key: &[u8],
    view: View<'_>,
) -> Result<Option<Value<'i>>, Error> {
    if !list.is_empty()
        && let Some(version) = covering(list, index, key, view.version)
        && index.changed(key, version, view)?.is_none()
    {
        return Ok(None);
    }
    Ok(index.get(key, view)?)
}

/// Adds the values under some keys, each as [`masked_get`] says.
pub(crate) fn masked_get_many<'i>(
    list: &[Tombstone],
    index: &'i Index,
    keys: &[&[u8]],
    view: View<'_>,
    values: &mut Vec<Option<Value<'i>>>,
) -> Result<(), Error> {
    if list.is_empty() {
        return Ok(index.get_many(keys, view, values)?);
    }
    for key in keys {
        values.push(masked_get(list, index, key, view)?);
    }
    Ok(())
}

/// Whether the key is there and no tombstone covers it. A key whose record is corrupt counts as there.
pub(crate) fn masked_has(
    list: &[Tombstone],
    index: &Index,
    key: &[u8],
    view: View<'_>,
) -> Result<bool, Error> {
    match masked_get(list, index, key, view) {
        Ok(value) => Ok(value.is_some()),
        Err(Error::Corrupt { .. }) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Whether a key differs between `now` and version `since`, which is pinned, with regard to tombstones in between. `changed`
/// is the answer of the index.
pub(crate) fn masked_changed(
    list: &[Tombstone],
    index: &Index,
    key: &[u8],
    (since, now): (u64, View<'_>),
    changed: Option<u64>,
) -> Result<Option<u64>, Error> {
    if list.is_empty() {
        return Ok(changed);
    }
    let was_there = masked_has(list, index, key, View { version: since, ..now })?;
    if !was_there && !masked_has(list, index, key, now)? {
        return Ok(None);
    }
    let removed = covering(list, index, key, now.version).filter(|&version| version > since);
    Ok(changed.or(removed))
}

/// The keys of a range that differ between version `since` and a later one, both of which are pinned. These may include keys
/// that were put with the same value.
pub(crate) fn masked_difference(
    list: &[Tombstone],
    index: &Index,
    range: Range<'_>,
    (since, view): (u64, View<'_>),
) -> Result<BTreeSet<Vec<u8>>, Error> {
    let mut keys = BTreeSet::new();
    index.range_changed(range, since, view, &mut |key| {
        keys.insert(key.to_vec());
        true
    })?;
    let Some(asked) = KeyRange::new(range.from, range.to) else { return Ok(keys) };
    let cell = index.object().to_bits();
    let is_met = |one: &Tombstone| {
        one.is_of(cell, view.version) && one.version > since && one.range.overlaps(&asked)
    };
    // Keys that such a tombstone covers may still have their entries.
    if list.iter().any(is_met) {
        let before = View { version: since, ..view };
        masked_range(list, index, range, before, &mut |key, _| {
            if covering(list, index, key, view.version).is_some_and(|version| version > since) {
                keys.insert(key.to_vec());
            }
            true
        })?;
    }
    Ok(keys)
}

/// Visits the entries of a range that no tombstone covers.
pub(crate) fn masked_range(
    list: &[Tombstone],
    index: &Index,
    range: Range<'_>,
    view: View<'_>,
    visit: &mut Visit<'_>,
) -> Result<(), Error> {
    // If keys have no order, no range was removed.
    if list.is_empty() || !index.kind().is_ordered() {
        return Ok(index.range(range.from, range.to, range.direction, view, visit)?);
    }
    let cell = index.object().to_bits();
    let Some(asked) = KeyRange::new(range.from, range.to) else { return Ok(()) };
    let is_met = |tombstone: &&Tombstone| {
        tombstone.is_of(cell, view.version) && tombstone.range.overlaps(&asked)
    };
    let met: Vec<&Tombstone> = list.iter().filter(is_met).collect();
    let mut parts = parts(&asked, &met);
    if range.direction == Direction::Backward {
        parts.reverse();
    }
    let mut goes_on = true;
    for part in parts {
        let (from, to) = part.bounds();
        let inside = Range { from, to, direction: range.direction };
        let covers = |tombstone: &&&Tombstone| tombstone.range.contains(&part.from);
        match met.iter().filter(covers).map(|tombstone| tombstone.version).max() {
            None => index.range(from, to, range.direction, view, &mut |key, value| {
                goes_on = visit(key, value);
                goes_on
            })?,
            Some(since) => goes_on = later(index, inside, (since, view), visit)?,
        }
        if !goes_on {
            break;
        }
    }
    Ok(())
}

/// A range in parts, each of which a tombstone covers as a whole or not at all.
fn parts(asked: &KeyRange, met: &[&Tombstone]) -> Vec<KeyRange> {
    let ends = met.iter().flat_map(|met| [Some(&met.range.from), met.range.to.as_ref()]);
    let mut cuts: Vec<&Vec<u8>> =
        ends.flatten().filter(|key| asked.contains(key) && **key != asked.from).collect();
    cuts.sort_unstable();
    cuts.dedup();
    let mut from = asked.from.clone();
    let mut parts = Vec::with_capacity(cuts.len() + 1);
    for cut in cuts {
        let to = Some(cut.clone());
        parts.push(KeyRange { from: std::mem::replace(&mut from, cut.clone()), to });
    }
    parts.push(KeyRange { from, to: asked.to.clone() });
    parts
}

/// Visits the entries of a covered range that were put after the tombstone. Returns false if the visitor has had enough.
fn later(
    index: &Index,
    range: Range<'_>,
    (since, view): (u64, View<'_>),
    visit: &mut Visit<'_>,
) -> Result<bool, Error> {
    let mut reached: Option<Vec<u8>> = None;
    loop {
        let mut rest = range;
        if let Some(reached) = &reached {
            match range.direction {
                Direction::Forward => rest.from = Bound::Excluded(reached),
                Direction::Backward => rest.to = Bound::Excluded(reached),
            }
        }
        let mut keys = Vec::new();
        index.range_changed(rest, since, view, &mut |key| {
            keys.push(key.to_vec());
            keys.len() < BATCH
        })?;
        for key in &keys {
            if let Some(value) = index.get(key, view)?
                && !visit(key, value)
            {
                return Ok(false);
            }
        }
        match keys.pop() {
            Some(last) if keys.len() + 1 == BATCH => reached = Some(last),
            _ => return Ok(true),
        }
    }
}
