//! Merging a leaf with the one to its right.
//!
//! Most leaves are simple when they are merged: what has ended there nothing needs, and it has no records. They are merged by
//! their fingerprints: elements that live are carried over as they are found, and the leaf that goes is not cleaned before.

use tembo_pool::Object;

use super::hint_writer::withdraw_hint;
use crate::nvtree::change::{carry, clean, erase_all, erase_slots};
use crate::nvtree::image::{LeafImage, Seen, make_locked, set};
use crate::nvtree::leaf::{
    Element, Guard, Leaf, Meta, Range, Slots, TOMB, has_record, line_of, place_of, write_all,
};
use crate::nvtree::leaves::Leaves;
use crate::{Error, Retained, Retired, Writer};

/// A leaf, and its lock.
pub(super) type Locked<'a, 'f> = (&'a Leaf<'f>, &'a Guard<'f>);

/// Takes in the leaf to the right, if both together are small. Returns whether it has.
pub(super) fn merge(
    leaves: &Leaves,
    (leaf, guard): Locked<'_, '_>,
    kept: &LeafImage,
    (right, right_guard): Locked<'_, '_>,
    version: u64,
    writer: &mut Writer<'_>,
) -> Result<bool, Error> {
    make_locked(right, right_guard)?;
    let contents = LeafImage::read_grouped(right, writer.dead)?;
    let contents = clean(right, right_guard, &contents, version, writer)?;
    let fits = fit_together(leaf, kept.seen.len(), contents.seen.len());
    if !fits || !kept.old.is_empty() || !contents.old.is_empty() {
        return Ok(false);
    }
    let used = |slot: &usize| kept.seen.iter().any(|seen| seen.slot == *slot);
    let free: Vec<usize> = (0..leaf.slots()).filter(|slot| !used(slot)).collect();
    let Some(carried) = carried(leaves, leaf, right, &contents.seen)? else { return Ok(false) };
    // Elements that a split has left behind would count again.
    erase_slots(leaf, &free)?;
    // The slots rise, so that those of one line are neighbours.
    let moved = Moved { carried, slots: free };
    take_in(leaves, (leaf, guard), moved, (right, right_guard), (version, writer))?;
    Ok(true)
}

/// As [`merge`], for two simple leaves. On success the side-car of the leaf is right. `None`: one of them is not simple, and
/// nothing has changed.
pub(super) fn merge_simple(
    leaves: &Leaves,
    (leaf, guard): Locked<'_, '_>,
    (right, right_guard): Locked<'_, '_>,
    version: u64,
    writer: &mut Writer<'_>,
) -> Result<Option<bool>, Error> {
    let Some(kept) = live_in_simple(leaf, writer.retained)? else { return Ok(None) };
    if !right_guard.is_made(leaf.forest.dead_epoch()) {
        return Ok(None);
    }
    let Some(living) = live_in_simple(right, writer.retained)? else { return Ok(None) };
    if !fit_together(leaf, count(kept), count(living)) {
        return Ok(Some(false));
    }
    let (lines, mut prints) = (leaf.lines(), leaf.side.prints().0);
    // Slots of removals stay as they are: a removal must outlive what it removes.
    let mut free = Slots(leaf.all_slots() & !kept.0 & !prints.matching(TOMB, lines).0);
    if count(free) < count(living) {
        return Ok(None);
    }
    let (bases, right_prints) = (right.bases()?, right.side.prints().0);
    let (mut moved, mut slots) = (Vec::with_capacity(lines), Vec::with_capacity(lines));
    let strays = Slots(!prints.used(lines).0 & leaf.all_slots());
    for slot in living {
        let (element, meta) = right.element(slot)?;
        let print = right_prints.get(slot);
        let Some(to) = free.near(line_of(print, lines)) else { return Ok(None) };
        free.0 &= !(1 << to);
        prints.set(to, print);
        slots.push(to);
        moved.push(Seen { slot, element, meta, stamp: meta.stamp(bases) });
    }
    let Some(carried) = carried(leaves, leaf, right, &moved)? else { return Ok(None) };
    // Elements that a split has left behind would count again.
    erase_all(leaf, strays)?;
    let moved = Moved { carried, slots };
    take_in(leaves, (leaf, guard), moved, (right, right_guard), (version, writer))?;
    set(leaf, guard, &prints)?;
    Ok(Some(true))
}

/// The slots of the elements that live in a simple leaf, of which the side-car is made. `None`: the leaf is not simple.
fn live_in_simple(leaf: &Leaf<'_>, retained: &Retained) -> Result<Option<Slots>, Error> {
    let ((prints, traits), lines) = (leaf.side.prints(), leaf.all_lines()?);
    let has_record = |slot: usize| {
        let (number, at) = place_of(slot);
        lines.get(number).is_none_or(|line| has_record(line, at))
    };
    let is_simple = !traits.older
        && retained.needs_no_past(leaf.side.newest())
        && !prints.ended(lines.len()).any(has_record);
    Ok(is_simple.then(|| prints.live(lines.len())))
}

fn count(slots: Slots) -> usize {
    slots.0.count_ones() as usize
}

/// Elements that go to another leaf, and the slots there.
struct Moved {
    carried: Carried,
    /// Slots without an element that counts, one for each element, perhaps more.
    slots: Vec<usize>,
}

/// Writes elements of the leaf to the right, all that count there, and unlinks that leaf.
fn take_in(
    leaves: &Leaves,
    (leaf, guard): Locked<'_, '_>,
    Moved { carried: (elements, left), slots }: Moved,
    (right, right_guard): Locked<'_, '_>,
    (version, writer): (u64, &mut Writer<'_>),
) -> Result<(), Error> {
    let low = right.low()?.to_vec();
    let range = Range { low: leaf.low()?, high: right.high()? };
    let mut placed: Vec<(usize, (Element, Meta))> = slots.into_iter().zip(elements).collect();
    placed.sort_unstable_by_key(|&(slot, _)| slot);
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
    // ORDER: the link is durable with the fence of the collection, before this leaf is unlocked and the space of the other
    // one is used again.
    region.flush("nvtree.merge.link.flush", region.offset_of(&header.next), 8);
    let dropped = object.into_iter().chain(right.low_record()?).chain(left);
    writer.retired.extend(dropped.map(|object| Retired { object, start: 0, end: version }));
    guard.set_newest(right.side.newest());
    leaves.publish_merge(range, (&low, right.id))?;
    right_guard.forget();
    Ok(())
}

/// Elements, and the blocks that they have left.
type Carried = (Vec<(Element, Meta)>, Vec<Object>);

/// The elements of the right leaf as they stand in the left one, with the records that were made for them. `None`: they
/// cannot be carried over.
fn carried(
    leaves: &Leaves,
    leaf: &Leaf<'_>,
    right: &Leaf<'_>,
    moved: &[Seen],
) -> Result<Option<Carried>, Error> {
    let (prefix, bases) = (leaf.prefix()?.to_vec(), leaf.bases()?);
    let mut metas = Vec::with_capacity(moved.len());
    for seen in moved {
        let meta =
            |which: usize| Meta::new(seen.stamp, seen.meta.is_removed(), which, bases[which]);
        let newer = usize::from(bases[1] > bases[0]);
        let Some(meta) = meta(newer).or_else(|| meta(1 - newer)) else { return Ok(None) };
        metas.push(meta);
    }
    let (mut made, mut left) = (Vec::new(), Vec::new());
    let carry =
        |seen: &Seen| carry(&leaves.forest, right, &seen.element, &prefix, &mut made, &mut left);
    let elements = moved.iter().map(carry).collect::<Result<Vec<_>, Error>>();
    let elements = match elements {
        Ok(elements) => elements,
        Err(error) => {
            leaves.forest.pool().give_up(made);
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

/// Whether one leaf has room for the elements of two; `left` and `right` are their numbers.
pub(super) fn fit_together(leaf: &Leaf<'_>, left: usize, right: usize) -> bool {
    // An empty leaf is merged into a full one too.
    right == 0 || (left + right) * 4 <= leaf.slots() * 3
}
