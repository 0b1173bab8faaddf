//! Split: the upper half of a leaf's keys moves into a new leaf to its right, which becomes visible
//! by one store.
//!
//! The moved elements stay behind in the old leaf and do not count there any more, because the next leaf's low key is
//! not above them. Only elements with records are erased: nothing may read a record that has a new owner.

use crate::error::damaged;
use crate::head::head;
use crate::key::KeyBytes;
use crate::nvtree::change::builder::{
    Builder, placed_anew, slots_for, space_for_leaf, write_built,
};
use crate::nvtree::change::clean::{age, erase_slots};
use crate::nvtree::format::LeafHeader;
use crate::nvtree::history;
use crate::nvtree::history::Old;
use crate::nvtree::image::{LeafImage, NO_SLOT, Seen, set};
use crate::nvtree::leaf::{Element, FREE, Guard, Leaf, Meta, Range, STALE, TOMB, hash, print};
use crate::nvtree::leaves::Leaves;
use crate::record::common;
use crate::{Error, Retired};

/// An element, and its mark or fingerprint.
struct Item {
    element: Element,
    meta: Meta,
    print: u8,
}

/// Splits a full leaf so that there is room for `key`. The caller holds the lock and has reserved.
/// Durable when it returns; on an error nothing has changed.
pub(crate) fn split(
    leaves: &Leaves,
    leaf: &Leaf<'_>,
    guard: &Guard<'_>,
    kept: &LeafImage,
    key: &[u8],
    (version, retired): (u64, &mut Vec<Retired>),
) -> Result<(), Error> {
    // These include keys that only the history has.
    let all = LeafImage { old: kept.old.clone(), seen: kept.seen.clone(), ..LeafImage::default() };
    let all = all.with_history(leaf)?;
    let keys = all.keys(leaf).collect::<Result<Vec<&[Seen]>, Error>>()?;
    let place = match leaves.is_scattered() {
        true => round_place(leaf, &keys, key)?,
        false => place_to_split(leaf, &keys, key)?,
    };
    let Some(place) = place else {
        return age(leaf, guard, keys.first().copied().unwrap_or_default());
    };
    let key_at = |at: usize| match keys.get(at) {
        Some(seen) => leaf.key_of(&seen[0].element),
        None => Ok(key.to_vec()),
    };
    let left = if place == 0 { key.to_vec() } else { key_at(place - 1)? };
    let right = key_at(place)?;
    let moved = &keys[place..];
    let range = leaf.range()?;
    let bounds = Bounds::between(range, &left, &right);
    let bounds = match leaves.is_scattered() {
        // Scattered keys have little in common.
        true => bounds,
        false => shorten(bounds, leaf, (&left, &right), moved)?,
    };
    let mut low = right[..bounds.low_len].to_vec();
    if leaves.is_scattered() && usize::from(bounds.prefix_len) < low.len() {
        make_round(&left, &mut low);
    }
    let low = &low[..];
    check_between(leaf, range, low)?;
    let (moved_old, stays) = divide(leaf, &kept.old, low)?;
    // All allocations come before the link, so that nothing is left half done.
    let stays = history::make(leaf, if moved_old.is_empty() { &[] } else { &stays }, 0)?;
    let pool = leaves.forest.pool();
    let object =
        space_for_leaf(&leaves.forest).inspect_err(|_| pool.give_up(stays.iter().copied()))?;
    let mut builder = Builder::new(object, low.to_vec(), bounds.prefix_len);
    let header = leaf.header()?;
    let newest = leaf.side.newest();
    let known = write_right(leaves, leaf, moved, &moved_old, &mut builder)
        .and_then(|right| publish_right(leaves, (leaf, newest), &right, &builder, range.high));
    let _new = match known {
        Ok(new) => new,
        Err(error) => {
            pool.give_up(builder.objects().chain(stays));
            return Err(error);
        }
    };
    link_right(leaves, header, &builder);
    let is_owner = |seen: &&Seen| seen.element.record().is_some();
    let in_slots = moved.iter().copied().flatten().filter(|seen| seen.slot != NO_SLOT);
    let owners: Vec<usize> = in_slots.clone().filter(is_owner).map(|seen| seen.slot).collect();
    erase_slots(leaf, &owners)?;
    retired.extend(builder.left.iter().map(|&object| Retired { object, start: 0, end: version }));
    if !moved_old.is_empty() {
        history::relink(leaf, &stays, version, retired)?;
    }
    let mut prints = leaf.side.prints().0;
    in_slots.for_each(|seen| prints.set(seen.slot, FREE));
    set(leaf, guard, &prints)
}

/// The index of the first key that moves: half of the elements move, or none if the new key comes after all present
/// keys. `None`: the one key in the leaf has too many versions.
fn place_to_split(leaf: &Leaf<'_>, keys: &[&[Seen]], key: &[u8]) -> Result<Option<usize>, Error> {
    let Some(last) = keys.last() else { return Ok(None) };
    let last_key = leaf.key_of(&last[0].element)?;
    if *key > *last_key && (keys.len() == 1 || leaf.next_object()?.is_none()) {
        return Ok(Some(keys.len()));
    }
    if keys.len() == 1 {
        return Ok((*key < *last_key).then_some(0));
    }
    let half = keys.iter().map(|key| key.len()).sum::<usize>() / 2;
    let mut count = 0;
    let before = |key: &&[Seen]| {
        count += key.len();
        count <= half
    };
    let place = keys.iter().copied().take_while(before).count();
    Ok(Some(place.clamp(1, keys.len() - 1)))
}

/// As `place_to_split`, for scattered keys: between two that differ in the highest possible bit, so that few slots of the
/// directory are shared.
fn round_place(leaf: &Leaf<'_>, keys: &[&[Seen]], key: &[u8]) -> Result<Option<usize>, Error> {
    if keys.len() < 4 {
        return place_to_split(leaf, keys, key);
    }
    let all = keys.iter().map(|key| key.len()).sum::<usize>();
    let (mut best, mut before, mut left) = (None, 0, 0);
    for (place, key) in keys.iter().enumerate() {
        let right = head(&leaf.key_of(&key[0].element)?, 0);
        let alike = (left ^ right).leading_zeros();
        let is_better = best.is_none_or(|(least, _)| alike < least);
        if before * 4 >= all && before * 4 <= all * 3 && place > 0 && is_better {
            best = Some((alike, place));
        }
        (before, left) = (before + key.len(), right);
    }
    match best {
        Some((_, place)) => Ok(Some(place)),
        None => place_to_split(leaf, keys, key),
    }
}

/// Clears the bits of the last byte of a low key that it does not need to be above `left`.
fn make_round(left: &[u8], low: &mut [u8]) {
    let Some((last, front)) = low.split_last_mut() else { return };
    if let Some(byte) = left.get(front.len())
        && left.starts_with(front)
        && let Some(highest) = (byte ^ *last).checked_ilog2()
    {
        *last = *last >> highest << highest;
    }
}

/// Writes and flushes the new leaf.
fn write_right<'f>(
    leaves: &'f Leaves,
    leaf: &Leaf<'f>,
    moved: &[&[Seen]],
    moved_old: &[Old],
    builder: &mut Builder,
) -> Result<Leaf<'f>, Error> {
    let mut items = Vec::with_capacity(leaf.slots());
    for key in moved {
        for (at, seen) in key.iter().enumerate().filter(|(_, seen)| seen.slot != NO_SLOT) {
            items.push(item(leaves, leaf, seen, at == 0, builder)?);
        }
    }
    let prints: Vec<u8> = items.iter().map(|item| item.print).collect();
    let slots = slots_for(&prints, leaf.lines());
    for (item, slot) in items.iter().zip(slots) {
        builder.put(slot.into(), (item.element, item.meta), item.print);
    }
    let mut old = moved_old.to_vec();
    for old in &mut old {
        old.element = placed_anew(&leaves.forest, leaf, &old.element, builder)?;
    }
    let made = history::make(leaf, &old, 0)?;
    builder.older = made.last().map_or(0, |made| made.to_bits());
    builder.made.extend(made);
    write_built(&leaves.forest, leaf, builder)
}

/// An element of the old leaf as it stands in the new one.
fn item(
    leaves: &Leaves,
    leaf: &Leaf<'_>,
    seen: &Seen,
    is_newest: bool,
    builder: &mut Builder,
) -> Result<Item, Error> {
    let before = leaf.side.prints().0.get(seen.slot);
    let element = if leaf.prefix_len()? == builder.prefix_len && !seen.element.shape.is_odd() {
        seen.element
    } else {
        placed_anew(&leaves.forest, leaf, &seen.element, builder)?
    };
    let print = match before {
        _ if !is_newest => STALE,
        _ if seen.meta.is_removed() => TOMB,
        FREE | STALE | TOMB => print(hash(&leaf.key_of(&seen.element)?)),
        print => print,
    };
    Ok(Item { element, meta: seen.meta, print })
}

/// Makes the side-car of the new leaf, and publishes the leaf to the inner nodes. On an error nothing has changed. No
/// thread reads that leaf until the caller has linked it and releases the lock.
pub(crate) fn publish_right<'r>(
    leaves: &Leaves,
    (leaf, newest): (&Leaf<'_>, u64),
    right: &Leaf<'r>,
    builder: &Builder,
    high: Option<KeyBytes<'_>>,
) -> Result<Guard<'r>, Error> {
    let bases = leaf.bases()?;
    // An earlier leaf at the same place may have left a side-car. From here on other threads can read the low key, which
    // was written past the caches: taking a lock waits for such stores.
    let new = right.side.lock();
    let traits = builder.traits(bases, high);
    new.set_prints(&builder.prints(), traits);
    new.set_base(bases[traits.base]);
    new.made(leaves.forest.dead_epoch(), newest);
    leaves.publish_split(leaf, (&builder.low, right.id), high)?;
    Ok(new)
}

/// Links a new leaf that the inner nodes know already. A thread that waits for the leaf's lock then finds it durable.
/// All long work of the processor is done before the first fence begins.
pub(crate) fn link_right(leaves: &Leaves, header: &LeafHeader, builder: &Builder) {
    let region = leaves.forest.region();
    // ORDER: the new leaf is durable before it is linked.
    region.fence("nvtree.split.fence");
    // ORDER: after the new leaf, as above: from here on what has moved counts there.
    region.commit("nvtree.split.link", &header.next, builder.object.to_bits());
    // ORDER: the link is durable before any thread is notified of a change in the new leaf.
    region.flush("nvtree.split.link.flush", region.offset_of(&header.next), 8);
    // ORDER: as above, whichever thread makes the change.
    region.fence("nvtree.split.link.fence");
}

/// Verifies that a new leaf begins inside the range of the leaf to its left. Keys in a damaged leaf may lie anywhere.
pub(crate) fn check_between(leaf: &Leaf<'_>, range: Range<'_>, low: &[u8]) -> Result<(), Error> {
    if range.low.is(low) || !range.covers(low) {
        return damaged(leaf.offset(), "keys inside the leaf's range");
    }
    Ok(())
}

/// The entries of a history whose keys lie from `low` on, and the others.
fn divide(leaf: &Leaf<'_>, old: &[Old], low: &[u8]) -> Result<(Vec<Old>, Vec<Old>), Error> {
    let (mut moved, mut stays) = (Vec::new(), Vec::new());
    for old in old {
        if *leaf.key_of(&old.element)? >= *low { moved.push(*old) } else { stays.push(*old) }
    }
    Ok((moved, stays))
}

/// The lengths of the low key and the prefix of a new leaf. Both are prefixes of the first key that is, or will be, in it.
pub(crate) struct Bounds {
    pub(crate) low_len: usize,
    pub(crate) prefix_len: u16,
}

impl Bounds {
    /// The shortest low key that separates, and the prefix that the range gives.
    pub(crate) fn between(range: Range<'_>, left: &[u8], right: &[u8]) -> Bounds {
        Bounds::of(range, right, usize::from(common(left.into(), right)) + 1)
    }

    /// A low key of that length, and the prefix that the range gives.
    pub(crate) fn of(range: Range<'_>, right: &[u8], low_len: usize) -> Bounds {
        let prefix_len = range.high.map_or(0, |high| common(high, right));
        Bounds { low_len, prefix_len }.within(right)
    }

    /// The same with a longer prefix, which all present keys have.
    pub(crate) fn with_prefix(self, prefix_len: u16, right: &[u8]) -> Bounds {
        Bounds { prefix_len: self.prefix_len.max(prefix_len), ..self }.within(right)
    }

    /// Limits the lengths: the prefix is a prefix of the low key, and that is a prefix of the first key.
    fn within(self, right: &[u8]) -> Bounds {
        let prefix_len = usize::from(self.prefix_len).min(right.len());
        let low_len = self.low_len.max(prefix_len).min(right.len());
        Bounds { low_len, prefix_len: prefix_len as u16 }
    }
}

/// The bounds with a longer prefix, the one that the keys have in common, if that saves records.
fn shorten(
    bounds: Bounds,
    leaf: &Leaf<'_>,
    (left, right): (&[u8], &[u8]),
    moved: &[&[Seen]],
) -> Result<Bounds, Error> {
    let before = usize::from(leaf.prefix_len()?);
    let room = usize::from(bounds.prefix_len) + 8;
    let is_long = |element: &Element| {
        let skipped = if element.shape.is_odd() { 0 } else { before };
        element.shape.key_len().is_none_or(|len| skipped + len > room)
    };
    Ok(match moved.last() {
        // It is not known how much of the last eight bytes the keys that will come share.
        None if right.len() > room => {
            let spared = (right.len() - 8).min(common(left.into(), right).into());
            bounds.with_prefix(spared as u16, right)
        }
        Some(last) if moved.iter().any(|key| is_long(&key[0].element)) => {
            bounds.with_prefix(common(right.into(), &leaf.key_of(&last[0].element)?), right)
        }
        _ => bounds,
    })
}
