//! Logical collection: elements that nothing needs are erased, histories that nothing needs are unlinked,
//! and a leaf that has become small takes in the one to its right.

use std::sync::Mutex;

use tembo_pool::Object;

use super::merge::{Locked, fit_together, merge, merge_simple};
use crate::key::KeyBytes;
use crate::nvtree::change::{clean, erase_slots, reserve_lines, reserve_structure};
use crate::nvtree::history;
use crate::nvtree::history::Old;
use crate::nvtree::image::{LeafImage, NO_SLOT, ORPHANED, is_needed, make_locked};
use crate::nvtree::leaf::{Guard, Leaf, has_record, place_of};
use crate::nvtree::leaves::{Leaves, Spot, Wanted};
use crate::{Error, Retired, Writer};

/// Most leaves that a step passes because they are not worth it.
const PASSED_MAX: usize = 4;

pub(crate) fn collect_step(
    leaves: &Leaves,
    structure: &Mutex<()>,
    from: Option<&[u8]>,
    writer: &mut Writer<'_>,
) -> Result<Option<Vec<u8>>, Error> {
    // A leaf that the inner nodes do not know could not be unlinked.
    leaves.complete()?;
    let mut start = from.unwrap_or_default().to_vec();
    let mut passed = 0;
    let spot = loop {
        let spot = leaves.spot(Wanted::new(&start))?;
        if passed == PASSED_MAX {
            return Ok(Some(start));
        }
        if is_worth_it(&spot)? {
            break spot;
        }
        passed += 1;
        match spot.leaf.high()? {
            Some(high) => start = high.to_vec(),
            None => return Ok(None),
        }
    };
    let leaf = &spot.leaf;
    let low_len = leaf.low()?.len() as u64;
    // A pool that is full must be collected all the more.
    let _section =
        reserve_structure(&leaves.forest, low_len, 0).or_else(|_| reserve_lines(&leaves.forest))?;
    let Some(guard) = leaf.side.lock_at(spot.moment) else {
        return Ok(Some(start));
    };
    // While a mark walks, no element may move to where the mark has been.
    let still = structure.try_lock().ok();
    let right = leaf.next()?.filter(|_| still.is_some());
    let right = right.map(|right| (right, right.side.lock()));
    let collected = collect_leaf(leaves, (leaf, &guard), right.as_ref(), writer);
    // ORDER: what was erased, and a link, are durable before another thread finds one of the two leaves unlocked, whose change
    // may lie where only the link lets it count; and before what was retired is given back.
    leaves.forest.region().fence_flushed("nvtree.collect.fence");
    drop((right, still));
    if !matches!(collected, Ok(Collected { knows_side: true, .. })) {
        guard.forget();
    }
    let Collected { has_merged, .. } = collected?;
    make_locked(leaf, &guard)?;
    if has_merged {
        // The leaf that comes next may be small too.
        return Ok(Some(start));
    }
    Ok(leaf.high()?.map(KeyBytes::to_vec))
}

/// What became of a leaf.
struct Collected {
    /// It has taken in the leaf to its right.
    has_merged: bool,
    /// Its side-car is right.
    knows_side: bool,
}

/// Cleans a leaf, and merges it with the one to its right, if that is given.
fn collect_leaf(
    leaves: &Leaves,
    (leaf, guard): Locked<'_, '_>,
    right: Option<&(Leaf<'_>, Guard<'_>)>,
    writer: &mut Writer<'_>,
) -> Result<Collected, Error> {
    // Readers of the visible version may be here.
    let version = writer.stamp.version() + 1;
    let right = right.map(|(right, guard)| (right, guard));
    if let Some(right) = right
        && let Some(has_merged) = merge_simple(leaves, (leaf, guard), right, version, writer)?
    {
        return Ok(Collected { has_merged, knows_side: true });
    }
    let contents = LeafImage::read_grouped(leaf, writer.dead)?;
    let contents = clean_history(leaf, contents, version, writer)?;
    let kept = clean(leaf, guard, &contents, version, writer)?;
    let has_merged = match right {
        Some(right) => merge(leaves, (leaf, guard), &kept, right, version, writer)?,
        None => false,
    };
    Ok(Collected { has_merged, knows_side: false })
}

/// Removes from the history what nothing needs.
fn clean_history(
    leaf: &Leaf<'_>,
    contents: LeafImage,
    version: u64,
    writer: &mut Writer<'_>,
) -> Result<LeafImage, Error> {
    if contents.old.is_empty() {
        return Ok(contents);
    }
    let strays: Vec<usize> = contents.strays.iter().map(|seen| seen.slot).collect();
    erase_slots(leaf, &strays)?;
    let all = LeafImage {
        seen: contents.seen.clone(),
        old: contents.old.clone(),
        ..LeafImage::default()
    };
    let all = all.with_history(leaf)?;
    let (mut kept, mut dropped): (Vec<Old>, Vec<Old>) = (Vec::new(), Vec::new());
    for key in all.keys(leaf) {
        let key = key?;
        // Whether an older entry of the key is kept.
        let mut older = false;
        for at in (0..key.len()).rev() {
            let seen = &key[at];
            let needed = is_needed(key, at, writer.retained);
            let is_recent = seen.stamp.version() > writer.retained.window();
            let needed = if seen.meta.is_removed() { older || is_recent } else { needed };
            if seen.slot != NO_SLOT {
                older = true;
                continue;
            }
            older |= needed;
            let old = Old::of(seen.element, seen.meta, seen.stamp);
            if needed { kept.push(old) } else { dropped.push(old) }
        }
    }
    if dropped.is_empty() {
        return Ok(contents);
    }
    history::replace(leaf, &kept, version, writer.retired)?;
    // Several entries may share one record: a removal and the element that it ended, or copies.
    let mut records: Vec<(u64, Object)> = dropped
        .iter()
        .filter_map(|old| Some((old.stamp.version(), old.element.record()?)))
        .collect();
    records.sort_by_key(|&(start, object)| (object, start));
    records.dedup_by_key(|&mut (_, object)| object);
    for (start, object) in records {
        let in_leaf = contents.seen.iter().any(|seen| seen.element.record() == Some(object));
        let in_history = kept.iter().any(|old| old.element.record() == Some(object));
        if !in_leaf && !in_history {
            writer.retired.push(Retired { object, start, end: version });
        }
    }
    LeafImage::read(leaf, writer.dead)
}

/// Whether a step may give space back: from a history, from the record of an ended element, or by a merge. Slots alone do
/// not count, since they are used again without a collection.
fn is_worth_it(Spot { leaf, prints, traits, .. }: &Spot<'_, '_>) -> Result<bool, Error> {
    let lines = leaf.all_lines()?;
    let has_record = |slot: usize| {
        let (number, at) = place_of(slot);
        lines.get(number).is_some_and(|line| has_record(line, at))
    };
    let is_known = leaf.side.newest() != ORPHANED;
    if traits.older || !is_known || prints.ended(lines.len()).any(has_record) {
        return Ok(true);
    }
    let Some(right) = leaf.next()? else { return Ok(false) };
    let is_made = right.side.begin(leaf.forest.dead_epoch()).is_some();
    let [left, right] =
        [*prints, right.side.prints().0].map(|prints| prints.live(lines.len()).count());
    Ok(!is_made || fit_together(leaf, left, right))
}
