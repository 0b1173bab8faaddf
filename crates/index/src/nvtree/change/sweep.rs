//! The fast path of a cleaning: most of what nothing needs can be seen by the marks of the slots, without an image of the leaf.

use crate::nvtree::change::clean::{erase_in_two_passes, is_over};
use crate::nvtree::image::{ORPHANED, Seen, set};
use crate::nvtree::leaf::{FREE, Guard, Leaf, STALE, Slots, TOMB};
use crate::{Error, Writer};

/// Erases ended elements and removals that no version needs, as far as that shows without a comparison of keys, if no slot is
/// free and at least so many are then. Returns whether it has; if not, nothing has changed. The caller holds the lock, has
/// reserved, and knows that the side-car is made.
pub(super) fn sweep(
    leaf: &Leaf<'_>,
    guard: &Guard<'_>,
    enough: usize,
    version: u64,
    writer: &mut Writer<'_>,
) -> Result<bool, Error> {
    let (mut prints, traits) = leaf.side.prints();
    let (lines, newest) = (leaf.lines(), leaf.side.newest());
    let free = prints.matching(FREE, lines);
    if traits.older || newest == ORPHANED || free.0 != 0 {
        // With a free slot it is not room that lacks: a value is to be given up, which a full cleaning finds.
        return Ok(false);
    }
    let stale = prints.matching(STALE, lines).0;
    let unneeded = match writer.retained.needs_no_past(newest) {
        true => stale,
        false => stale & leaf.side.unneeded(),
    };
    let removals = prints.matching(TOMB, lines).0;
    let Some(Unneeded { elements, removals }) =
        unneeded_in(leaf, stale, (unneeded, removals), writer)?
    else {
        return Ok(false);
    };
    if elements.len() + removals.len() < enough {
        return Ok(false);
    }
    erase_in_two_passes(leaf, (&elements, &removals), version, writer)?;
    let erased = elements.iter().chain(&removals).map(|seen| seen.slot);
    erased.for_each(|slot| prints.set(slot, FREE));
    set(leaf, guard, &prints)?;
    guard.note_unneeded(unneeded);
    Ok(true)
}

/// What no version needs in a leaf.
#[derive(Default)]
struct Unneeded {
    /// Ended elements, but for removals.
    elements: Vec<Seen>,
    /// Removals, which can be erased after them.
    removals: Vec<Seen>,
}

/// What no version needs in these slots; `stale` are the slots of all ended elements. `None`: keys have to be compared.
fn unneeded_in(
    leaf: &Leaf<'_>,
    stale: u64,
    (unneeded, removals): (u64, u64),
    writer: &Writer<'_>,
) -> Result<Option<Unneeded>, Error> {
    let bases = leaf.bases()?;
    let mut kept = Vec::new();
    for slot in Slots(stale & !unneeded) {
        let (element, _) = leaf.element(slot)?;
        if element.shape.is_odd() {
            return Ok(None);
        }
        kept.push(element.key);
    }
    let mut found = Unneeded::default();
    for slot in Slots(unneeded | removals) {
        let (element, meta) = leaf.element(slot)?;
        if element.shape.is_odd() {
            return Ok(None);
        }
        let seen = Seen { slot, element, meta, stamp: meta.stamp(bases) };
        if !meta.is_removed() {
            found.elements.push(seen);
        } else if is_over(&seen, writer) && !kept.contains(&element.key) {
            // What is left has another word, and so is not what this removes.
            found.removals.push(seen);
        }
    }
    Ok(Some(found))
}
