//! Making room in a full leaf: it is cleaned of what nothing needs; if that does not suffice it is split, or what only old
//! versions need is moved to its history.

use crate::error::damaged;
use crate::nvtree::change::clean::clean;
use crate::nvtree::change::space::{reserve_lines, reserve_structure};
use crate::nvtree::change::split::split;
use crate::nvtree::change::sweep::sweep;
use crate::nvtree::how::How;
use crate::nvtree::image::{LeafImage, set};
use crate::nvtree::leaf::{FREE, Guard};
use crate::nvtree::leaves::{Leaves, Spot};
use crate::{Error, Writer};

/// A cleaning suffices if at least one slot of so many is free after it.
const ENOUGH: usize = 8;

/// Makes room in the leaf, if the leaf has not changed meanwhile.
#[cold]
pub(crate) fn make_room(
    leaves: &Leaves,
    spot: &Spot<'_, '_>,
    how: How<'_>,
    writer: &mut Writer<'_>,
) -> Result<(), Error> {
    let leaf = &spot.leaf;
    let section = reserve_structure(&leaves.forest, spot.placed.key().len() as u64, 0);
    // If the pool is full the leaf can still be cleaned.
    let (_section, refused) = match section {
        Ok(section) => (section, None),
        Err(error) => (reserve_lines(&leaves.forest)?, Some(error)),
    };
    let Some(guard) = leaf.side.lock_at(spot.moment) else { return Ok(()) };
    let made = make_room_locked(leaves, (spot, &guard), how, writer, refused);
    how.fence_erased(leaves.forest.region());
    made
}

/// As [`make_room`], with the lock. `refused`: why there is no space for another leaf, if there is none.
fn make_room_locked(
    leaves: &Leaves,
    (spot, guard): (&Spot<'_, '_>, &Guard<'_>),
    how: How<'_>,
    writer: &mut Writer<'_>,
    refused: Option<Error>,
) -> Result<(), Error> {
    let leaf = &spot.leaf;
    if !leaf.range()?.covers(spot.placed.key()) {
        return damaged(leaf.offset(), "a leaf that covers the keys that lead to it");
    }
    let enough = if refused.is_some() { 1 } else { leaf.slots().div_ceil(ENOUGH) };
    let lines = leaf.lines();
    let mut prints = leaf.side.prints().0;
    let free_or_ended = prints.ended(lines).count() + prints.matching(FREE, lines).count();
    // A cleaning cannot suffice where little has ended. The leaf will be split, which takes its keys in their order.
    let may_suffice = free_or_ended >= enough;
    if may_suffice && sweep(leaf, guard, enough, how.version(writer), writer)? {
        return Ok(());
    }
    let contents = match may_suffice {
        true => LeafImage::read_grouped(leaf, writer.dead)?,
        false => LeafImage::read(leaf, writer.dead)?,
    };
    let mut kept = clean(leaf, guard, &contents, how.version(writer), writer)?;
    // Slots whose elements do not count are made free, whatever a damaged leaf has left in its side-car.
    prints = leaf.side.prints().0;
    let is_kept = |slot: &usize| kept.seen.iter().any(|seen| seen.slot == *slot);
    (0..leaf.slots()).filter(|slot| !is_kept(slot)).for_each(|slot| prints.set(slot, FREE));
    set(leaf, guard, &prints)?;
    let free = leaf.slots() - kept.seen.len();
    if free >= enough {
        return Ok(());
    }
    if let Some(refused) = refused {
        return Err(refused);
    }
    leaves.note_kept(kept.seen.len() - kept.keys(leaf).count());
    let version = how.version(writer);
    if may_suffice {
        kept.sort(leaf)?;
    }
    let split = split(leaves, leaf, guard, &kept, spot.placed.key(), (version, writer.retired));
    match split.inspect_err(|_| guard.forget()) {
        // The few free slots have to suffice.
        Err(Error::Pool(_)) if free > 0 => Ok(()),
        // A split that failed half-way may have made the side-car outdated.
        split => split,
    }
}
