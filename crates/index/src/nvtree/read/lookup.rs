//! Finding the value of a key: its leaf, then its slot by the fingerprint. Where the leaf has elements that the view does
//! not see, all its elements are compared.

use tembo_pmem::Region;
use tembo_pool::Object;

use crate::nvtree::format::LINE_SIZE;
use crate::nvtree::history;
use crate::nvtree::history::Old;
use crate::nvtree::inner::LeafId;
use crate::nvtree::leaf::{Element, Leaf, Slots, hash, line, place_of, print, read_of};
use crate::nvtree::leaves::{Leaves, Reached, Spot, Wanted};
use crate::record::{ask_for_record, size_changed};
use crate::{Error, Place, Stamp, Value, View};

/// Lines of a record that are prefetched. The processor fetches those that follow by itself.
const RECORD_LINES: u64 = 4;

/// Prefetches what a search for each of the keys will read, for all of them at once. Returns the places of the keys.
pub(crate) fn bring_near(
    leaves: &Leaves,
    keys: &[&[u8]],
) -> Result<impl Iterator<Item = Place> + use<>, Error> {
    let ask_for = |leaf: &Leaf<'_>, record, _: &[u8]| prefetch_record(leaf.region(), record);
    let found = bring_leaves_near(leaves, keys, ask_for)?;
    Ok(found.into_iter().map(|(_, place)| place))
}

/// Prefetches what a change of each of the keys will read, for all of them at once: of a present record only the key.
pub(crate) fn bring_changes_near(leaves: &Leaves, keys: &[&[u8]]) -> Result<(), Error> {
    bring_leaves_near(leaves, keys, |leaf, record, key| {
        let size = size_changed(leaf.forest, record, key.len());
        leaf.region().will_read(record.offset(), size);
        leaf.region().prefetch(record.offset());
    })
    .map(drop)
}

fn bring_leaves_near(
    leaves: &Leaves,
    keys: &[&[u8]],
    ask_for: impl Fn(&Leaf<'_>, Object, &[u8]),
) -> Result<Vec<(LeafId, Place)>, Error> {
    let found = leaves.leaves_abreast(keys)?;
    let hashes: Vec<u64> = keys.iter().map(|key| hash(key)).collect();
    let mut reached = Vec::with_capacity(keys.len());
    for (&(id, _), &hash) in found.iter().zip(&hashes) {
        let leaf = Leaf::at(&leaves.forest, id)?;
        leaf.will_read();
        leaf.side.prefetch();
        leaf.prefetch_line(line(hash, leaf.lines()));
        reached.push(leaf);
    }
    for ((leaf, hash), key) in reached.iter().zip(hashes).zip(keys) {
        let (prints, _) = leaf.side.prints();
        for slot in prints.matching(print(hash), leaf.lines()) {
            let (element, _) = leaf.element(slot)?;
            if element.may_be_of(hash)
                && let Some(record) = element.record()
            {
                ask_for(leaf, record, key);
            }
        }
    }
    Ok(found)
}

/// Asks the processor for the first lines of a record.
pub(crate) fn prefetch_record(region: &Region, record: Object) {
    region.will_read(record.offset(), record.size());
    let lines = record.size().div_ceil(LINE_SIZE).min(RECORD_LINES);
    (0..lines).for_each(|line| region.prefetch(record.offset().wrapping_add(line * LINE_SIZE)));
}

/// The value that the view sees. `reached` is the leaf, if a search has reached it before.
#[inline(never)]
pub(crate) fn lookup<'f>(
    leaves: &'f Leaves,
    wanted: Wanted<'_>,
    mut before: Option<Reached<'f>>,
    view: View<'_>,
) -> Result<Option<Value<'f>>, Error> {
    loop {
        let reached = match before.take() {
            Some(reached) => reached,
            None => leaves.leaf_of(wanted)?,
        };
        let value = if reached.leaf.side.newest() <= view.version {
            newest(&reached, wanted)
        } else {
            lookup_among_all(leaves, wanted, view)
        };
        if reached.leaf.side.still(reached.moment) {
            return value;
        }
    }
}

/// As `lookup`, in a leaf with elements that the view does not see.
#[cold]
fn lookup_among_all<'f>(
    leaves: &'f Leaves,
    wanted: Wanted<'_>,
    view: View<'_>,
) -> Result<Option<Value<'f>>, Error> {
    loop {
        let spot = leaves.spot(wanted)?;
        let value = match seen_among_all(&spot, view) {
            Ok(Some(element)) => spot.leaf.value(&element).map(Some),
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        if spot.leaf.side.still(spot.moment) {
            return value;
        }
    }
}

/// The value of the newest element of the key in a leaf, unless that is a removal. The key's record must be
/// there still: its version is pinned, or the caller is the writer.
fn newest<'f>(
    Reached { leaf, lines, .. }: &Reached<'f>,
    wanted: Wanted<'_>,
) -> Result<Option<Value<'f>>, Error> {
    let (bytes, traits) = leaf.side.bytes();
    let placed = leaf.place(wanted.key, traits)?;
    for slot in Slots(bytes.equal(print(wanted.hash)) & leaf.all_slots()) {
        let (number, at) = place_of(slot);
        let line = lines.get(number);
        if let Some(element) = line.and_then(|line| read_of(line, at, placed.word, placed.shape))
            && element.may_be_of(wanted.hash)
        {
            element.record().inspect(|&record| ask_for_record(leaf.region(), record));
            if let Some(value) = leaf.value_of_key(&element, &placed)? {
                return Ok(Some(value));
            }
        }
    }
    Ok(None)
}

/// The element that the view sees. The result is sound if the spot's moment still is.
fn seen_among_all(spot: &Spot<'_, '_>, view: View<'_>) -> Result<Option<Element>, Error> {
    let bases = spot.leaf.bases()?;
    let mut best: Option<(Stamp, Element, bool)> = None;
    // A slot that is marked free may still have a copy of an element that has moved.
    for slot in spot.prints.used(spot.leaf.lines()) {
        let (element, meta) = spot.leaf.element(slot)?;
        let stamp = meta.stamp(bases);
        let is_later = best.is_none_or(|(best, ..)| best.version() < stamp.version());
        if meta.is_empty() || !is_later || !view.sees(stamp, Stamp::NONE) {
            continue;
        }
        // A record is read only where the element was read whole. Then the view's pin keeps it.
        if spot.leaf.side.still(spot.moment) && spot.leaf.is_of(&element, &spot.placed)? {
            best = Some((stamp, element, meta.is_removed()));
        }
    }
    if best.is_none() && spot.traits.older {
        return seen_in_history(spot, view);
    }
    Ok(best.filter(|best| !best.2).map(|(_, element, _)| element))
}

fn seen_in_history(spot: &Spot<'_, '_>, view: View<'_>) -> Result<Option<Element>, Error> {
    let mut best: Option<Old> = None;
    for old in history::read(&spot.leaf)? {
        let is_later = best.is_none_or(|best| best.stamp.version() < old.stamp.version());
        if is_later
            && view.sees(old.stamp, Stamp::NONE)
            && spot.leaf.side.still(spot.moment)
            && spot.leaf.is_of(&old.element, &spot.placed)?
        {
            best = Some(old);
        }
    }
    Ok(best.filter(|old| !old.removed).map(|old| old.element))
}
