//! Logical collection: elements that nothing needs are erased, histories that nothing needs are unlinked,
//! and a leaf that has become small takes in the one to its right.

use std::sync::Mutex;

use tembo_pool::Object;

use super::hint_writer::withdraw_hint;
use crate::key::KeyBytes;
use crate::nvtree::change::{carry, clean, erase_slots, reserve_lines, reserve_structure};
use crate::nvtree::history;
use crate::nvtree::history::Old;
use crate::nvtree::image::{LeafImage, NO_SLOT, ORPHANED, Seen, is_needed, make_locked};
use crate::nvtree::leaf::{Element, Guard, Leaf, Meta, Range, has_record, place_of, write_all};
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
    let collected = collect_leaf(leaves, structure, leaf, &guard, writer);
    guard.forget();
    let merged = collected?;
    make_locked(leaf, &guard)?;
    if merged {
        // The leaf that comes next may be small too.
        return Ok(Some(start));
    }
    Ok(leaf.high()?.map(KeyBytes::to_vec))
}

/// Cleans a leaf, and merges it with the one to its right. Returns whether it has merged them.
fn collect_leaf(
    leaves: &Leaves,
    structure: &Mutex<()>,
    leaf: &Leaf<'_>,
    guard: &Guard<'_>,
    writer: &mut Writer<'_>,
) -> Result<bool, Error> {
    // Readers of the visible version may be here.
    let version = writer.stamp.version() + 1;
    let contents = LeafImage::read(leaf, writer.dead)?;
    let contents = clean_history(leaf, contents, version, writer)?;
    let kept = clean(leaf, guard, &contents, version, writer)?;
    if let Some(right) = leaf.next()?
        // While a mark walks, no element may move to where the mark has been.
        && let Ok(_structure) = structure.try_lock()
    {
        return merge(leaves, leaf, guard, &kept, &right, version, writer);
    }
    Ok(false)
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

/// Takes in the leaf to the right, if both together are small. Returns whether it has.
fn merge(
    leaves: &Leaves,
    leaf: &Leaf<'_>,
    guard: &Guard<'_>,
    kept: &LeafImage,
    right: &Leaf<'_>,
    version: u64,
    writer: &mut Writer<'_>,
) -> Result<bool, Error> {
    let right_guard = right.side.lock();
    make_locked(right, &right_guard)?;
    let contents = LeafImage::read(right, writer.dead)?;
    let contents = clean(right, &right_guard, &contents, version, writer)?;
    let fits = fit_together(leaf, kept.seen.len(), contents.seen.len());
    if !fits || !kept.old.is_empty() || !contents.old.is_empty() {
        return Ok(false);
    }
    let Some((elements, left)) = carried(leaves, leaf, right, &contents)? else {
        return Ok(false);
    };
    let low = right.low()?.to_vec();
    let range = Range { low: leaf.low()?, high: right.high()? };
    let used = |slot: &usize| kept.seen.iter().any(|seen| seen.slot == *slot);
    let free: Vec<usize> = (0..leaf.slots()).filter(|slot| !used(slot)).collect();
    // Elements that a split has left behind would count again.
    erase_slots(leaf, &free)?;
    // The slots rise, so that those of one line are neighbours.
    let placed: Vec<(usize, (Element, Meta))> = free.into_iter().zip(elements).collect();
    for in_line in placed.chunk_by(|(one, _), (other, _)| place_of(*one).0 == place_of(*other).0) {
        let line = leaf.line(place_of(in_line[0].0).0)?;
        let elements =
            in_line.iter().map(|&(slot, (element, meta))| (place_of(slot).1, element, meta));
        write_all(leaves.forest.region(), line, elements);
    }
    let (region, header) = (leaves.forest.region(), leaf.header()?);
    let (object, after) = (leaf.next_object()?, right.next_object()?);
    withdraw_hint(leaves, version, writer.retired)?;
    // ORDER: before the link, elements that are carried over are durable, those that were left behind are durably erased,
    // and durably no hint names the other leaf.
    region.fence("nvtree.merge.fence");
    // ORDER: after the elements that are carried over, as above: from here on they count in this leaf.
    region.commit("nvtree.merge.link", &header.next, after.map_or(0, |after| after.to_bits()));
    // ORDER: the link is durable with the caller's fence, before the space of the other leaf is used again and before any
    // thread is notified of a change in this one.
    region.flush("nvtree.merge.link.flush", region.offset_of(&header.next), 8);
    let dropped = object.into_iter().chain(right.low_record()?).chain(left);
    writer.retired.extend(dropped.map(|object| Retired { object, start: 0, end: version }));
    guard.set_newest(right.side.newest());
    leaves.publish_merge(range, (&low, right.id))?;
    right_guard.forget();
    Ok(true)
}

/// Elements, and the blocks that they have left.
type Carried = (Vec<(Element, Meta)>, Vec<Object>);

/// The elements of the right leaf as they stand in the left one, with the records that were made for them. `None`: they
/// cannot be carried over.
fn carried(
    leaves: &Leaves,
    leaf: &Leaf<'_>,
    right: &Leaf<'_>,
    contents: &LeafImage,
) -> Result<Option<Carried>, Error> {
    let (prefix, bases) = (leaf.prefix()?.to_vec(), leaf.bases()?);
    let mut metas = Vec::with_capacity(contents.seen.len());
    for seen in &contents.seen {
        let meta =
            |which: usize| Meta::new(seen.stamp, seen.meta.is_removed(), which, bases[which]);
        let newer = usize::from(bases[1] > bases[0]);
        let Some(meta) = meta(newer).or_else(|| meta(1 - newer)) else { return Ok(None) };
        metas.push(meta);
    }
    let (mut made, mut left) = (Vec::new(), Vec::new());
    let carry =
        |seen: &Seen| carry(&leaves.forest, right, &seen.element, &prefix, &mut made, &mut left);
    let elements = contents.seen.iter().map(carry).collect::<Result<Vec<_>, Error>>();
    let elements = match elements {
        Ok(elements) => elements,
        Err(error) => {
            leaves.forest.pool().free_all(made);
            // A merge that needs space which is not there can wait, and a corrupt record stays where it is.
            let can_wait = matches!(error, Error::Pool(_) | Error::Corrupt { .. });
            return if can_wait { Ok(None) } else { Err(error) };
        }
    };
    if !made.is_empty() {
        // ORDER: the records are durable before their elements. A crash before the link may leave some elements, and only
        // the keys in their records show that they do not count.
        leaves.forest.region().fence("nvtree.merge.record.fence");
    }
    Ok(Some((elements.into_iter().zip(metas).collect(), left)))
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

/// Whether one leaf has room for the elements of two; `left` and `right` are their numbers.
fn fit_together(leaf: &Leaf<'_>, left: usize, right: usize) -> bool {
    // An empty leaf is merged into a full one too.
    right == 0 || (left + right) * 4 <= leaf.slots() * 3
}
