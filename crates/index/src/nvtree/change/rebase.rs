//! Rebasing: a leaf's elements count their versions from one of two bases. When new versions are out of
//! reach of the newer base, the elements that count from the older base are made to count from the newer one, and the
//! older base becomes the newest.
//!
//! An element gets a later version by that. If a version that can be read lies between, the
//! element is first copied to the history as it was, and readers of that version find it there.

use crate::error::damaged;
use crate::nvtree::change::clean::{clean, erase_slots};
use crate::nvtree::change::space::reserve_structure;
use crate::nvtree::change::split::split;
use crate::nvtree::history;
use crate::nvtree::history::Old;
use crate::nvtree::how::How;
use crate::nvtree::image::{LeafImage, Seen, compare, is_needed, set};
use crate::nvtree::leaf::{FREE, Guard, Leaf, Meta, place_of, publish, write};
use crate::nvtree::leaves::{Leaves, Spot, Wanted};
use crate::{Error, Retained, Stamp, Writer};

/// Gives the leaf a base from which new versions are in reach, if the leaf has not changed meanwhile.
#[cold]
pub(crate) fn rebase(
    leaves: &Leaves,
    spot: &Spot<'_, '_>,
    how: How<'_>,
    writer: &mut Writer<'_>,
) -> Result<(), Error> {
    let leaf = &spot.leaf;
    let _section = reserve_structure(&leaves.forest, 0, 0)?;
    let Some(guard) = leaf.side.lock_at(spot.moment) else { return Ok(()) };
    let rebased = rebase_locked(leaves, (spot, &guard), how, writer);
    how.fence_erased(leaves.forest.region());
    rebased
}

/// As [`rebase`], with the lock.
fn rebase_locked(
    leaves: &Leaves,
    (spot, guard): (&Spot<'_, '_>, &Guard<'_>),
    how: How<'_>,
    writer: &mut Writer<'_>,
) -> Result<(), Error> {
    let leaf = &spot.leaf;
    let version = how.version(writer);
    let contents = LeafImage::read(leaf, writer.dead)?;
    let strays: Vec<usize> = contents.strays.iter().map(|seen| seen.slot).collect();
    erase_slots(leaf, &strays)?;
    erase_slots(leaf, &contents.dead)?;
    let kept = clean(leaf, guard, &contents, version, writer)?;
    let newer = spot.traits.base;
    let of_newer = kept.seen.iter().filter(|seen| seen.meta.base() == newer);
    let dropped = match of_newer.map(|seen| seen.stamp.version()).min() {
        // Elements of the older base get the earliest version that an element of the newer base has.
        Some(version) => raise(leaf, &kept, newer, version, writer.retained)?,
        None => Vec::new(),
    };
    let changed =
        if kept.seen.iter().any(|seen| seen.meta.base() == newer) { 1 - newer } else { newer };
    let base = version.min(writer.retained.visible()).saturating_sub(1);
    let (region, header) = (leaves.forest.region(), leaf.header()?);
    // ORDER: durably no element counts from a base when it changes.
    region.fence_flushed("nvtree.rebase.fence");
    // ORDER: after the last element that counted from it, as above.
    region.commit("nvtree.rebase.base", &header.bases[changed], base);
    // ORDER: the base is durable before an element counts from it.
    region.flush("nvtree.rebase.base.flush", region.offset_of(&header.bases[changed]), 8);
    // ORDER: as above.
    region.fence("nvtree.rebase.base.fence");
    let mut prints = leaf.side.prints().0;
    dropped.iter().for_each(|&slot| prints.set(slot, FREE));
    set(leaf, guard, &prints)
}

/// Brings the newest elements of keys that only the history knows back into the leaf: what came
/// after them was rolled back.
#[cold]
pub(crate) fn adopt(
    leaves: &Leaves,
    spot: &Spot<'_, '_>,
    how: How<'_>,
    writer: &mut Writer<'_>,
) -> Result<(), Error> {
    let leaf = &spot.leaf;
    let _section = reserve_structure(&leaves.forest, spot.placed.key().len() as u64, 0)?;
    let Some(guard) = leaf.side.lock_at(spot.moment) else { return Ok(()) };
    let adopted = adopt_locked(leaves, (spot, &guard), how, writer);
    how.fence_erased(leaves.forest.region());
    drop(guard);
    match adopted? {
        Adopted::All => Ok(()),
        Adopted::OutOfReach => {
            rebase(leaves, &leaves.spot(Wanted::new(spot.placed.key()))?, how, writer)
        }
    }
}

/// What came of orphans.
enum Adopted {
    /// They are in the leaf, or it was split to have room for them.
    All,
    /// A version is out of reach of the leaf's bases.
    OutOfReach,
}

/// As [`adopt`], with the lock.
fn adopt_locked(
    leaves: &Leaves,
    (spot, guard): (&Spot<'_, '_>, &Guard<'_>),
    how: How<'_>,
    writer: &mut Writer<'_>,
) -> Result<Adopted, Error> {
    let leaf = &spot.leaf;
    let contents = LeafImage::read(leaf, writer.dead)?;
    let orphans = contents.orphans(leaf)?;
    let kept = clean(leaf, guard, &contents, how.version(writer), writer)?;
    let used = |slot: &usize| kept.seen.iter().any(|seen| seen.slot == *slot);
    let free: Vec<usize> = (0..leaf.slots()).filter(|slot| !used(slot)).collect();
    if free.len() < orphans.len() {
        let version = how.version(writer);
        let made = (version, &mut *writer.retired);
        let split = split(leaves, leaf, guard, &kept, spot.placed.key(), made);
        return split.inspect_err(|_| guard.forget()).map(|()| Adopted::All);
    }
    let visible = Stamp::single(writer.retained.visible(), 0);
    let (mut adopted, bases) = (Vec::new(), leaf.bases()?);
    for (orphan, slot) in orphans.iter().zip(free) {
        let (own, late) = (meta_of(orphan.stamp, bases), meta_of(visible, bases));
        let Some(meta) = own.or(late) else { return Ok(Adopted::OutOfReach) };
        if own.is_some() {
            adopted.push(orphan);
        } else if visible.version() <= orphan.stamp.version() {
            return damaged(leaf.offset(), "a history of versions that have been");
        }
        let (number, at) = place_of(slot);
        write(leaves.forest.region(), leaf.line(number)?, at, &orphan.element, meta);
    }
    // An entry that stands unchanged in a slot leaves the history. If it got a later version there, readers of older
    // versions still need the one in the history.
    let mut rest = Vec::new();
    for old in contents.old {
        let mut is_adopted = false;
        for orphan in adopted.iter().filter(|orphan| orphan.stamp == old.stamp) {
            is_adopted |= compare(leaf, &orphan.element, &old.element)?.is_eq();
        }
        if !is_adopted {
            rest.push(old);
        }
    }
    guard.forget();
    history::replace(leaf, &rest, how.version(writer), writer.retired)?;
    Ok(Adopted::All)
}

/// The meta bits of a present element, over the base that reaches its stamp.
fn meta_of(stamp: Stamp, bases: [u64; 2]) -> Option<Meta> {
    let over = |which: usize| Meta::new(stamp, false, which, bases[which]);
    over(0).or_else(|| over(1))
}

/// Makes the elements of the older base count from the newer one, as if they were of `version`, which is in its reach.
/// Returns the slots of elements that only old versions need: those were moved to the history.
fn raise(
    leaf: &Leaf<'_>,
    kept: &LeafImage,
    newer: usize,
    version: u64,
    retained: &Retained,
) -> Result<Vec<usize>, Error> {
    let region = leaf.region();
    let base = leaf.bases()?[newer];
    let (aged, raised) = sort(leaf, kept, (newer, base, version), retained)?;
    if !aged.is_empty() {
        history::push(leaf, &aged.iter().map(|(_, old)| *old).collect::<Vec<_>>())?;
    }
    let is_raised = |slot: &usize| raised.iter().any(|(seen, _)| seen.slot == *slot);
    let dropped: Vec<usize> =
        aged.iter().map(|(slot, _)| *slot).filter(|slot| !is_raised(slot)).collect();
    erase_slots(leaf, &dropped)?;
    let mut lines = 0_u32;
    for (seen, stamp) in raised {
        let Some(meta) = Meta::new(stamp, seen.meta.is_removed(), newer, base) else {
            return damaged(leaf.offset(), "a version in reach of its base");
        };
        let (number, at) = place_of(seen.slot);
        publish(region, leaf.line(number)?, at, meta);
        lines |= 1 << number;
    }
    for number in (0..leaf.lines()).filter(|number| lines >> number & 1 == 1) {
        // ORDER: the element is durable before the base from which it counted changes.
        region.flush("nvtree.rebase.raise.flush", leaf.line_offset(number), 64);
    }
    Ok(dropped)
}

/// Elements that go into the history, by slot, and elements that are to count from the newer base, with their stamps.
type Sorted = (Vec<(usize, Old)>, Vec<(Seen, Stamp)>);

/// Sorts the elements that do not count from the base `newer`. Those that it reaches keep their stamps. Of the others, live
/// ones get the version `raised_to`, and what they were goes into the history.
fn sort(
    leaf: &Leaf<'_>,
    kept: &LeafImage,
    (newer, base, raised_to): (usize, u64, u64),
    retained: &Retained,
) -> Result<Sorted, Error> {
    let (mut aged, mut raised) = (Vec::new(), Vec::new());
    for key in kept.keys(leaf) {
        let key = key?;
        for (at, seen) in key.iter().enumerate().filter(|(_, seen)| seen.meta.base() != newer) {
            if seen.stamp.version() > base {
                raised.push((*seen, seen.stamp));
                continue;
            }
            let is_seen = match at {
                0 => retained.needs(seen.stamp.version(), raised_to),
                _ => is_needed(key, at, retained) || seen.meta.is_removed(),
            };
            if is_seen {
                aged.push((seen.slot, Old::of(seen.element, seen.meta, seen.stamp)));
            }
            if at == 0 {
                raised.push((*seen, Stamp::single(raised_to, 0)));
            }
        }
    }
    Ok((aged, raised))
}
