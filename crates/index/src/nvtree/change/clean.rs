//! Cleaning a leaf: elements that no version needs are erased.
//!
//! A removal must outlive what it removes: else a crash could keep the older element and lose the
//! removal. So a cleaning has two passes with a fence between them.

use tembo_pool::Object;

use crate::nvtree::format::{SLOTS_MAX, SLOTS_PER_LINE};
use crate::nvtree::history;
use crate::nvtree::history::Old;
use crate::nvtree::image::{LeafImage, NO_SLOT, Seen, is_needed, set};
use crate::nvtree::leaf::{FREE, Guard, Leaf, Slots, erase, owned};
use crate::{Error, Retired, Writer};

/// Erases what no version needs. Returns what is left. The caller holds the lock and has reserved.
pub(crate) fn clean(
    leaf: &Leaf<'_>,
    guard: &Guard<'_>,
    contents: &LeafImage,
    version: u64,
    writer: &mut Writer<'_>,
) -> Result<LeafImage, Error> {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for key in contents.keys(leaf) {
        let key = key?;
        // Whether an older element of the key is left.
        let mut older = contents.old_of(leaf, &key[0].element).next().is_some();
        for at in (0..key.len()).rev() {
            let seen = key[at];
            let is_ended = at > 0 && !is_needed(key, at, writer.retained);
            if seen.meta.is_removed() && !older && (at == 0 || is_ended) && is_over(&seen, writer) {
                second.push(seen);
            } else if !seen.meta.is_removed() && is_ended {
                first.push(seen);
            } else {
                older = true;
            }
        }
    }
    erase_in_two_passes(leaf, (&first, &second), version, writer)?;
    let erased: Vec<usize> = first.iter().chain(&second).map(|seen| seen.slot).collect();
    erased.iter().for_each(|&slot| guard.set_print(slot, FREE));
    let seen = contents.seen.iter().filter(|seen| !erased.contains(&seen.slot));
    Ok(LeafImage {
        seen: seen.copied().collect(),
        old: contents.old.clone(),
        ..LeafImage::default()
    })
}

/// Erases elements, and then removals, among them those of the elements.
pub(super) fn erase_in_two_passes(
    leaf: &Leaf<'_>,
    (elements, removals): (&[Seen], &[Seen]),
    version: u64,
    writer: &mut Writer<'_>,
) -> Result<(), Error> {
    retire_and_erase(leaf, elements, version, writer)?;
    if removals.is_empty() {
        return Ok(());
    }
    // ORDER: the elements that a removal removes are durably erased before the removal is erased.
    leaf.region().fence_flushed("nvtree.clean.fence");
    retire_and_erase(leaf, removals, version, writer)
}

/// Empties slots, and retires the records that only they refer to.
fn retire_and_erase(
    leaf: &Leaf<'_>,
    all: &[Seen],
    version: u64,
    writer: &mut Writer<'_>,
) -> Result<(), Error> {
    // Several elements may share a record: a removal and what it has ended, or copies.
    let mut referred = referred_beside(leaf, all)?;
    for seen in all.iter().rev() {
        let Some(object) = seen.element.record() else { continue };
        if !referred.contains(&object) {
            let start = seen.stamp.version();
            writer.retired.push(Retired { object, start, end: version });
            referred.push(object);
        }
    }
    let slots: Vec<usize> = all.iter().map(|seen| seen.slot).collect();
    erase_slots(leaf, &slots)
}

/// The records to which the history and other elements than these refer.
fn referred_beside(leaf: &Leaf<'_>, all: &[Seen]) -> Result<Vec<Object>, Error> {
    let own = all.iter().fold(0, |own, seen| own | bit(seen.slot));
    let others = Slots(leaf.side.prints().0.used(leaf.lines()).0 & !own);
    let mut referred = Vec::with_capacity(SLOTS_MAX);
    for slot in others {
        let (element, meta) = leaf.element(slot)?;
        // A cleaning notes at its end which slots it has emptied.
        referred.extend(element.record().filter(|_| !meta.is_empty()));
    }
    let old = history::read(leaf)?;
    referred.extend(old.iter().filter_map(|old| old.element.record()));
    Ok(referred)
}

/// Moves to the history what only old versions need of the one key of a leaf.
pub(crate) fn age(leaf: &Leaf<'_>, guard: &Guard<'_>, key: &[Seen]) -> Result<(), Error> {
    let aged = key.iter().skip(1).filter(|seen| seen.slot != NO_SLOT);
    let old = aged.clone().map(|seen| Old::of(seen.element, seen.meta, seen.stamp));
    history::push(leaf, &old.collect::<Vec<Old>>())?;
    let slots: Vec<usize> = aged.map(|seen| seen.slot).collect();
    erase_slots(leaf, &slots)?;
    let mut prints = leaf.side.prints().0;
    slots.iter().for_each(|&slot| prints.set(slot, FREE));
    set(leaf, guard, &prints)
}

/// Whether a removal is over: nothing can take it back, and nothing asks any more what happened in its version.
pub(super) fn is_over(seen: &Seen, writer: &Writer<'_>) -> bool {
    seen.stamp.version() <= writer.retained.window()
}

/// As [`erase_all`], for a list of slots.
pub(crate) fn erase_slots(leaf: &Leaf<'_>, slots: &[usize]) -> Result<(), Error> {
    erase_all(leaf, Slots(slots.iter().fold(0, |all, &slot| all | bit(slot))))
}

/// The bit of a slot. It is zero if no leaf has that slot.
fn bit(slot: usize) -> u64 {
    1_u64.checked_shl(slot as u32).unwrap_or(0)
}

/// Empties slots whose elements do not count any more, and flushes their lines.
pub(crate) fn erase_all(leaf: &Leaf<'_>, slots: Slots) -> Result<(), Error> {
    let region = leaf.region();
    for (number, line) in leaf.all_lines()?.iter().enumerate() {
        let here = Slots(slots.0 >> (number * SLOTS_PER_LINE) & ((1 << SLOTS_PER_LINE) - 1));
        if here.fold(false, |erased, at| erase(region, line, at) | erased) {
            // ORDER: the slots are durably empty before their records are given up, and before a removal of them is erased.
            region.flush("nvtree.erase.flush", leaf.line_offset(number), 64);
        }
    }
    Ok(())
}

/// Whether an element in one of the slots, or the history, refers to the record.
pub(crate) fn is_shared(leaf: &Leaf<'_>, slots: Slots, record: Object) -> Result<bool, Error> {
    let mut rest = slots.0;
    for line in leaf.all_lines()? {
        let here = Slots(rest & ((1 << SLOTS_PER_LINE) - 1));
        rest >>= SLOTS_PER_LINE;
        if here.0 != 0 && owned(line, record) & here.0 != 0 {
            return Ok(true);
        }
    }
    if leaf.header()?.older.load() == 0 {
        return Ok(false);
    }
    Ok(history::read(leaf)?.iter().any(|old| old.element.record() == Some(record)))
}
