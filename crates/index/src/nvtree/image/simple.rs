//! The simple leaf: it has no history, and all its keys stand in their words, behind the leaf's prefix. Most leaves
//! are simple. `image.rs` reads any leaf into lists of elements; for a simple leaf one sort of numbers gives the same
//! result, and the thread that first comes to a leaf has little else to do.

use super::ranks::{Ranks, slot_of};
use crate::nvtree::format::SLOTS_MAX;
use crate::nvtree::image::summary::set;
use crate::nvtree::leaf::{Guard, Leaf, Prints, STALE, Slots, TOMB, hash, print, read_slot};
use crate::{DeadIntervals, Error};

/// The upper end of a leaf's keys: the head of the end key, and how many bytes of that key follow the prefix.
type End = Option<(u64, usize)>;

/// Makes the side-car of a simple leaf in this dead epoch. Returns false if the leaf is not simple. The caller holds the
/// lock.
pub(crate) fn make_simple(
    leaf: &Leaf<'_>,
    guard: &Guard<'_>,
    dead: &DeadIntervals,
) -> Result<bool, Error> {
    if leaf.header()?.older.load() != 0 {
        return Ok(false);
    }
    let (bases, lines) = (leaf.bases()?, leaf.all_lines()?);
    let Some(end) = end_of(leaf)? else { return Ok(false) };
    let mut versions = [0_u64; SLOTS_MAX];
    let (mut counts, mut newest) = (0_u64, 0);
    for (slot, version) in versions.iter_mut().enumerate().take(leaf.slots()) {
        let (element, meta) = read_slot(lines, slot);
        let stamp = meta.stamp(bases);
        if meta.is_empty() || dead.contains(stamp) {
            continue;
        }
        let (Some(len), false) = (element.shape.key_len(), element.shape.is_odd()) else {
            return Ok(false);
        };
        if end.is_none_or(|end| (element.key, len) < end) {
            counts |= 1 << slot;
            *version = stamp.version();
            newest = newest.max(stamp.version());
        }
    }
    let Some(mut ranks) = Ranks::of(leaf, Slots(counts))? else { return Ok(false) };
    let ranks = ranks.as_mut_slice();
    ranks.sort_unstable();
    let mut prints = Prints::default();
    for key in ranks.chunk_by(|one, other| one >> 8 == other >> 8) {
        let slots = key.iter().map(|&ranked| slot_of(ranked));
        slots.clone().for_each(|slot| prints.set(slot, STALE));
        let Some(newest) = slots.max_by_key(|&slot| versions[slot]) else { continue };
        let (element, meta) = read_slot(lines, newest);
        prints.set(
            newest,
            match element.record() {
                _ if meta.is_removed() => TOMB,
                Some(_) if !element.shape.is_block() => print(element.payload >> 48),
                _ => print(hash(&leaf.key_of(&element)?)),
            },
        );
    }
    set(leaf, guard, &prints)?;
    guard.made(leaf.forest.dead_epoch(), newest);
    Ok(true)
}

/// The upper end of the leaf's keys that have its prefix. `None`: the leaf is damaged, and so not simple.
fn end_of(leaf: &Leaf<'_>) -> Result<Option<End>, Error> {
    let Some(high) = leaf.high()? else { return Ok(Some(None)) };
    let prefix = leaf.prefix()?;
    if prefix.with(|prefix| high.starts_with(prefix)) {
        let prefix_len = usize::from(leaf.prefix_len()?);
        return Ok(Some(Some((high.head(prefix_len), high.len() - prefix_len))));
    }
    // An end without the prefix lies above all keys with it; the end of a sound leaf is not below them.
    Ok((high > prefix).then_some(None))
}
