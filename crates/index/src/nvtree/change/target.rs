//! The slot that a change takes.

use tembo_pool::Object;

use crate::nvtree::fast;
use crate::nvtree::format::BLOCK_MIN;
use crate::nvtree::how::How;
use crate::nvtree::image::compare;
use crate::nvtree::leaf::{FREE, Leaf, Prints, STALE, Slots, TOMB, line, place_of, read, read_of};
use crate::nvtree::leaves::{Asked, AskedOf, Found, Leaves, Spot};
use crate::{Error, Retained, Writer};

/// A value of so many bytes takes the slot of an element that nothing needs before it takes a free slot, so that the
/// element's space is given back.
pub(super) const LARGE: usize = BLOCK_MIN as usize;

/// A leaf keeps at most one value of so many bytes that nothing needs. To find that out is worth comparing keys and
/// cleaning the leaf.
pub(super) const VERY_LARGE: usize = 16 << 10;

#[cfg(test)]
thread_local! {
    /// The slots that were asked about.
    pub(crate) static SEARCHED: std::cell::RefCell<Vec<(crate::nvtree::inner::LeafId, usize)>> =
        const { std::cell::RefCell::new(Vec::new()) };
}

/// The slot that a change takes, and what is known about the others.
pub(super) struct Target {
    pub(super) slot: usize,
    pub(super) asked: Asked,
}

/// The slot that a change of the key takes: the slot of the change before if that has the same stamp, else a slot that is
/// free or whose element nothing needs. If the value that comes or goes is large (`len` bytes), a slot of the second kind
/// is preferred. `None`: there is no such slot.
#[inline]
pub(super) fn target(
    leaves: &Leaves,
    spot: &Spot<'_, '_>,
    (old, len): (Option<Found>, usize),
    how: How<'_>,
    writer: &Writer<'_>,
) -> Result<Option<Target>, Error> {
    let mut asked = Asked::default();
    if let How::Grouped = how
        && spot.leaf.side.newest() == writer.stamp.version()
    {
        if let Some(slot) = own_slot(spot, old, writer)? {
            return Ok(Some(Target { slot, asked }));
        }
        let (leaf, moment, version) = (spot.leaf.id, spot.moment, writer.stamp.version());
        asked = leaves.asked.get(AskedOf { leaf, moment, version });
        #[cfg(test)]
        assert!(is_so(spot, writer.retained, asked)?, "{asked:?} of {leaf:?} in {version}");
    }
    let slot = slot_for(spot, len, writer.retained, &mut asked)?;
    Ok(slot.map(|slot| Target { slot, asked }))
}

/// As `target`, for a change whose own stamp has no slot yet.
fn slot_for(
    spot: &Spot<'_, '_>,
    len: usize,
    retained: &Retained,
    asked: &mut Asked,
) -> Result<Option<usize>, Error> {
    let (lines, newest) = (spot.leaf.lines(), spot.leaf.side.newest());
    let preferred = line(spot.hash, lines);
    let free = spot.prints.matching(FREE, lines);
    let stale = spot.prints.matching(STALE, lines);
    let needs_no_past = retained.needs_no_past(newest);
    if needs_no_past {
        *asked = Asked { needed: 0, unneeded: stale.0 };
    }
    asked.unneeded |= spot.leaf.side.unneeded() & stale.0;
    if len >= VERY_LARGE {
        match *very_large(spot, stale, retained, asked)? {
            [] => {}
            [slot] => return Ok(Some(slot)),
            // A cleaning gives all of them back.
            _ => return Ok(None),
        }
    }
    if needs_no_past {
        // An element keeps its space until its slot is used again.
        let usable = if len >= LARGE && stale.0 != 0 { stale.0 } else { free.0 | stale.0 };
        return Ok(fast::slot_for(Slots(usable), spot.hash, lines));
    }
    if len < LARGE
        && let Some(slot) = free.near(preferred)
    {
        return Ok(Some(slot));
    }
    if newest <= retained.window() {
        ask_of_pins(spot, stale, retained, asked)?;
    }
    if let Some(slot) = Slots(stale.0 & asked.unneeded).near(preferred).or(free.near(preferred)) {
        return Ok(Some(slot));
    }
    for slot in stale {
        if !ask(spot, slot, retained, asked)? {
            return Ok(Some(slot));
        }
    }
    Ok(None)
}

/// Looks for an ended element that began after all pins, in a leaf whose newest element is not above the begin of the
/// window. That takes no comparison of keys.
fn ask_of_pins(
    spot: &Spot<'_, '_>,
    stale: Slots,
    retained: &Retained,
    asked: &mut Asked,
) -> Result<(), Error> {
    let (bases, newest) = (spot.leaf.bases()?, spot.leaf.side.newest());
    for slot in stale {
        let (_, meta) = spot.leaf.element(slot)?;
        let start = meta.stamp(bases).version();
        if !meta.is_removed() && retained.needs_none_since(start, newest) {
            // One is enough: most groups change a leaf once.
            asked.unneeded |= 1 << slot;
            break;
        }
    }
    Ok(())
}

/// Those of some ended elements' slots that have a very large value and that nothing needs.
#[cold]
fn very_large(
    spot: &Spot<'_, '_>,
    stale: Slots,
    retained: &Retained,
    asked: &mut Asked,
) -> Result<Vec<usize>, Error> {
    let mut found = Vec::new();
    for slot in Slots(stale.0 & !asked.needed) {
        let (element, _) = spot.leaf.element(slot)?;
        let is_very_large = |object: Object| object.size() >= VERY_LARGE as u64;
        if element.record().is_some_and(is_very_large) && !ask(spot, slot, retained, asked)? {
            found.push(slot);
        }
    }
    Ok(found)
}

/// The slot of the key's element that has the writer's own stamp.
#[cold]
fn own_slot(
    spot: &Spot<'_, '_>,
    old: Option<Found>,
    writer: &Writer<'_>,
) -> Result<Option<usize>, Error> {
    let bases = spot.leaf.bases()?;
    if let Some(found) = old {
        return Ok((found.meta.stamp(bases) == writer.stamp).then_some(found.slot));
    }
    for slot in spot.prints.matching(TOMB, spot.leaf.lines()) {
        let (element, meta) = spot.leaf.element(slot)?;
        if meta.stamp(bases) == writer.stamp && spot.leaf.is_of(&element, &spot.placed)? {
            return Ok(Some(slot));
        }
    }
    Ok(None)
}

/// Whether a version that can be read needs the element in a slot. Looks for the answer if it was not asked before.
fn ask(
    spot: &Spot<'_, '_>,
    slot: usize,
    retained: &Retained,
    asked: &mut Asked,
) -> Result<bool, Error> {
    let bit = 1 << slot;
    if (asked.needed | asked.unneeded) & bit == 0 {
        #[cfg(test)]
        SEARCHED.with_borrow_mut(|searched| searched.push((spot.leaf.id, slot)));
        match is_needed(&spot.leaf, &spot.prints, slot, retained)? {
            true => asked.needed |= bit,
            false => asked.unneeded |= bit,
        }
    }
    Ok(asked.needed & bit != 0)
}

/// Whether a version that can be read needs the element in a slot. It ends where the next newer element of its key
/// begins.
fn is_needed(
    leaf: &Leaf<'_>,
    prints: &Prints,
    slot: usize,
    retained: &Retained,
) -> Result<bool, Error> {
    let (bases, (element, meta)) = (leaf.bases()?, leaf.element(slot)?);
    let start = meta.stamp(bases).version();
    // Only a cleaning knows what a removal that was ended removes. And an element that begins in the window also ends in
    // it.
    if meta.is_removed() || start > retained.window() {
        return Ok(true);
    }
    let (lines, mut end) = (leaf.all_lines()?, u64::MAX);
    for other in prints.used(leaf.lines()) {
        let (number, at) = place_of(other);
        let Some(line) = lines.get(number) else { continue };
        // Most elements are of another key, as their words show.
        let Some(newer) = read_of(line, at, element.key, element.shape) else { continue };
        let version = read(line, at).1.stamp(bases).version();
        if version > start && version < end && compare(leaf, &element, &newer)?.is_eq() {
            end = version;
        }
    }
    Ok(retained.needs(start, end))
}

/// Whether the answers are those that another look gives.
#[cfg(test)]
fn is_so(spot: &Spot<'_, '_>, retained: &Retained, asked: Asked) -> Result<bool, Error> {
    let stale = spot.prints.matching(STALE, spot.leaf.lines()).0;
    let mut same = true;
    for slot in Slots(stale & (asked.needed | asked.unneeded)) {
        // Removals are given up only in a leaf where nothing needs any of the past.
        let is_removed = spot.leaf.element(slot)?.1.is_removed();
        let needed = asked.needed >> slot & 1 == 1;
        same &= is_removed || is_needed(&spot.leaf, &spot.prints, slot, retained)? == needed;
    }
    Ok(same || !spot.leaf.side.still(spot.moment))
}

/// Checks that another look finds nothing that needs the unneeded slots. The leaf is locked.
#[cfg(test)]
pub(crate) fn check_unneeded(leaf: &Leaf<'_>, retained: &Retained) -> Result<(), Error> {
    let (prints, _) = leaf.side.prints();
    let unneeded = leaf.side.unneeded();
    let stale = prints.matching(STALE, leaf.lines()).0;
    assert_eq!(unneeded & !stale & !prints.matching(FREE, leaf.lines()).0, 0, "{:?}", leaf.id);
    for slot in Slots(unneeded & stale) {
        let is_removed = leaf.element(slot)?.1.is_removed();
        let is_needed = !is_removed && is_needed(leaf, &prints, slot, retained)?;
        assert!(!is_needed, "slot {slot} of {:?}", leaf.id);
    }
    Ok(())
}
