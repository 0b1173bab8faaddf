//! The fast path of changes whose key or value stands in a record, or whose value stands in a block, and of all changes of a leaf
//! in which keys may have another form (`Wanted::simple`). It does what
//! `general.rs` does where nothing needs old versions of the leaf, the pool has space at hand, and the leaf has a slot. It
//! looks once at the leaf and once at the record of the key. The code is here a second time, as in `fast.rs`, only for that
//! speed.

use tembo_pmem::prefetch;
use tembo_pool::Object;

use crate::nvtree::change::carry::{inline, is_block, write_block, write_record};
use crate::nvtree::change::clean::is_shared;
use crate::nvtree::change::target::{LARGE, VERY_LARGE};
use crate::nvtree::fast::{SLACK, note_ended, slot_for, usable};
use crate::nvtree::format::{DELTA_MAX, LINE_SIZE, Line};
use crate::nvtree::how::How;
use crate::nvtree::image::ORPHANED;
use crate::nvtree::leaf::{
    Element, FREE, LONG, Meta, Placed, STALE, Slots, TOMB, place_of, print, read, read_of, write,
};
use crate::nvtree::leaves::{Leaves, Reached, Wanted};
use crate::record::{is_of_key, record_size};
use crate::{Forest, Op, Place, Retired, Writer, Written};

/// Greatest size of a record that is kept until the removal of its key is forgotten.
pub(super) const SHORT: u64 = 1024;

/// A key and the parts of its value.
type KeyValue<'k> = (&'k [u8], &'k [&'k [u8]]);

/// What a change has found in the leaf of its key.
struct Sight<'f, 'k> {
    at: Reached<'f>,
    placed: Placed<'k>,
    hash: u64,
    /// The newest element of the key.
    old: Option<(usize, Element)>,
    /// Slots that are free or whose elements were ended.
    free_or_ended: u64,
}

/// Puts a value that is longer than a word, if the fast path can. Returns whether the key was there. `None`: the fast path
/// cannot, or another thread was quicker; nothing has changed, but this may set `reached` to the leaf.
#[inline(never)]
pub(super) fn put_record<'f, const SCATTERED: bool>(
    leaves: &'f Leaves,
    (key, value): KeyValue<'_>,
    how: How<'_>,
    writer: &mut Writer<'_>,
    reached: &mut Option<Reached<'f>>,
) -> Option<bool> {
    let len = len_of(value);
    if len >= VERY_LARGE {
        // The general path looks for other elements that can be given up.
        return None;
    }
    let wanted = Wanted::new(key);
    let at = leaves.leaf_fast::<SCATTERED>(wanted)?;
    let sight = look(at, wanted)?;
    let done = put(&sight, (value, len), how, writer);
    if done.is_none() {
        *reached = Some(at);
    }
    done
}

/// As [`put_record`], of a value of so many bytes that is written already. Only if this puts it does its object belong to the
/// index.
#[inline(never)]
pub(super) fn put_written<'f>(
    (leaves, place): (&'f Leaves, Place),
    (key, len): (&[u8], usize),
    written: &Written,
    how: How<'_>,
    writer: &mut Writer<'_>,
    reached: &mut Option<Reached<'f>>,
) -> Option<bool> {
    if len >= VERY_LARGE {
        return None;
    }
    let wanted = Wanted::new(key);
    let at = leaves.leaf_from::<false>(place, wanted)?;
    let sight = look(at, wanted)?;
    let done = put_object(&sight, (written, len), how, writer);
    if done.is_none() {
        *reached = Some(at);
    }
    done
}

/// Removes a key that is longer than a word, if the fast path can. Returns as [`put_record`] does.
#[inline(never)]
pub(super) fn remove_long<'f, const SCATTERED: bool>(
    leaves: &'f Leaves,
    (place, key): (Place, &[u8]),
    how: How<'_>,
    writer: &mut Writer<'_>,
    reached: &mut Option<Reached<'f>>,
) -> Option<bool> {
    let wanted = Wanted::new(key);
    let at = leaves.leaf_from::<SCATTERED>(place, wanted)?;
    let sight = look(at, wanted)?;
    let done = remove(&sight, how, writer);
    if done.is_none() {
        *reached = Some(at);
    }
    done
}

/// Performs the change if the fast path can. Returns whether the key was there. `None`: the fast path cannot, or another
/// thread was quicker; nothing has changed. `reached` is the leaf if a search has reached it before; this may set it.
#[inline(never)]
pub(super) fn change_record<'f, const SCATTERED: bool>(
    leaves: &'f Leaves,
    op: Op<'_>,
    wanted: Wanted<'_>,
    how: How<'_>,
    writer: &mut Writer<'_>,
    reached: &mut Option<Reached<'f>>,
) -> Option<bool> {
    let len = match op {
        Op::Put { value, .. } => len_of(value),
        Op::Remove { .. } => 0,
    };
    if len >= VERY_LARGE {
        return None;
    }
    let at = match reached.take() {
        Some(at) => at,
        None => leaves.leaf_fast::<SCATTERED>(wanted)?,
    };
    let sight = look(at, wanted)?;
    let done = match op {
        Op::Put { value, .. } => put(&sight, (value, len), how, writer),
        Op::Remove { .. } => remove(&sight, how, writer),
    };
    if done.is_none() {
        *reached = Some(at);
    }
    done
}

/// Bytes of a value. Most values have one part.
#[inline(always)]
pub(super) fn len_of(value: &[&[u8]]) -> usize {
    match value {
        [part] => part.len(),
        parts => parts.iter().map(|part| part.len()).sum(),
    }
}

/// Finds the element of a key in its leaf.
#[inline(always)]
fn look<'f, 'k>(at: Reached<'f>, wanted: Wanted<'k>) -> Option<Sight<'f, 'k>> {
    let Reached { leaf, lines, .. } = at;
    if leaf.side.newest() == ORPHANED {
        // The fingerprints do not show all keys: a key that they lack may still be there.
        return None;
    }
    leaf.side.prefetch_rest();
    let (bytes, traits) = leaf.side.bytes();
    let (all, hash) = (leaf.all_slots(), wanted.hash);
    let free_or_ended = bytes.at_most(STALE) & all;
    let placed = leaf.place(wanted.key, traits).ok()?;
    let matching = Slots(bytes.equal(print(hash)) & all);
    let old = newest(leaf.forest, lines, &placed, (matching, hash))?;
    Some(Sight { at, placed, hash, old, free_or_ended })
}

/// The newest element of a key, and its slot, among those with the key's fingerprint. `None`: the general path has to look.
#[inline(always)]
fn newest(
    forest: &Forest,
    lines: &[Line],
    placed: &Placed<'_>,
    (mut matching, hash): (Slots, u64),
) -> Option<Option<(usize, Element)>> {
    let found = matching.find_map(|slot| {
        let (number, at) = place_of(slot);
        let element = read_of(lines.get(number)?, at, placed.word, placed.shape);
        element.filter(|element| element.may_be_of(hash)).map(|element| (slot, element))
    });
    // If word and hash are those of another key, which is rare, the general path looks at all candidates.
    let is_its_own = match (found, placed.shape.key_len()) {
        (Some((_, element)), None) => is_of_key(forest, element.record()?, placed.key)?,
        _ => true,
    };
    is_its_own.then_some(found)
}

#[inline(always)]
fn put(
    sight: &Sight<'_, '_>,
    (value, value_len): (&[&[u8]], usize),
    how: How<'_>,
    writer: &mut Writer<'_>,
) -> Option<bool> {
    let (forest, placed) = (sight.at.leaf.forest, &sight.placed);
    let has_record = value_len > 8 || placed.shape.key_len().is_none();
    let takes_last = sight.old.is_none() && Slots(sight.free_or_ended).is_last();
    if takes_last {
        return None;
    }
    let slot = slot_in(sight, value_len, how, writer)?;
    if !has_record {
        let shape = placed.shape.with_value(value_len);
        let element = Element { key: placed.word, payload: inline(value), shape };
        let _section = forest.region().reserve(1).ok()?;
        return replace(sight, (slot, &element, false), how, writer);
    }
    let is_block = is_block(forest, placed.shape, value_len);
    let size = match is_block {
        true => value_len as u64,
        false => record_size(forest.records(), placed.key.len(), value_len),
    };
    let (region, pool) = (forest.region(), forest.pool());
    // This reserves more lines than the record needs: only records with keys of almost 64 KiB are written beside the log.
    let _section = region.reserve(2 + size.div_ceil(LINE_SIZE)).ok()?;
    let object = pool.alloc_at_hand(size)?;
    let long = placed.shape.with_value(LONG);
    let (written, shape) = match is_block {
        true => (make_block(forest, object, value, how), long.with_block()),
        false => (make_record(forest, object, (placed.key, value), sight.hash, how), long),
    };
    let element = written.map(|payload| Element { key: placed.word, payload, shape });
    replace_by(sight, (slot, object, element, false), how, writer)
}

#[inline(always)]
fn put_object(
    sight: &Sight<'_, '_>,
    (written, value_len): (&Written, usize),
    how: How<'_>,
    writer: &mut Writer<'_>,
) -> Option<bool> {
    let placed = &sight.placed;
    let takes_last = sight.old.is_none() && Slots(sight.free_or_ended).is_last();
    if takes_last || (written.is_block && placed.shape.key_len().is_none()) {
        return None;
    }
    let slot = slot_in(sight, value_len, how, writer)?;
    let long = placed.shape.with_value(LONG);
    let shape = if written.is_block { long.with_block() } else { long };
    let element = Element { key: placed.word, payload: written.payload, shape };
    let _section = sight.at.leaf.region().reserve(1).ok()?;
    replace(sight, (slot, &element, false), how, writer)
}

/// Writes a record. Returns the payload of its element.
#[inline(always)]
fn make_record(
    forest: &Forest,
    object: Object,
    (key, value): (&[u8], &[&[u8]]),
    hash: u64,
    how: How<'_>,
) -> Option<u64> {
    write_record(forest, object, key, value).ok()?;
    how.fence_record(forest.region());
    Some(object.to_bits() | hash << 48)
}

/// Writes a block. Returns the payload of its element.
#[inline(never)]
fn make_block(forest: &Forest, object: Object, value: &[&[u8]], how: How<'_>) -> Option<u64> {
    let payload = write_block(forest, object, value).ok()?;
    how.fence_block(forest.region());
    Some(payload)
}

#[inline(always)]
fn remove(sight: &Sight<'_, '_>, how: How<'_>, writer: &mut Writer<'_>) -> Option<bool> {
    let Some((_, old)) = &sight.old else {
        return sight.at.leaf.side.still(sight.at.moment).then_some(false);
    };
    let record_len = old.record().map_or(0, Object::size) as usize;
    if record_len as u64 > SHORT {
        return remove_large(sight, record_len, how, writer);
    }
    let slot = slot_in(sight, record_len, how, writer)?;
    let _section = sight.at.leaf.region().reserve(1).ok()?;
    replace(sight, (slot, old, true), how, writer)
}

/// Removes a key whose record is too large to be kept until the removal is forgotten. The removal has a record of its own,
/// with the key only, or none if the key stands in its word.
#[inline(always)]
fn remove_large(
    sight: &Sight<'_, '_>,
    record_len: usize,
    how: How<'_>,
    writer: &mut Writer<'_>,
) -> Option<bool> {
    if record_len >= VERY_LARGE {
        return None;
    }
    let (forest, placed) = (sight.at.leaf.forest, &sight.placed);
    let slot = slot_in(sight, record_len, how, writer)?;
    if placed.shape.key_len().is_some() {
        let element = Element { key: placed.word, payload: 0, shape: placed.shape.with_value(0) };
        let _section = forest.region().reserve(1).ok()?;
        return replace(sight, (slot, &element, true), how, writer);
    }
    let size = record_size(forest.records(), placed.key.len(), 0);
    let _section = forest.region().reserve(2 + size.div_ceil(LINE_SIZE)).ok()?;
    let object = forest.pool().alloc_at_hand(size)?;
    let written = make_record(forest, object, (placed.key, &[]), sight.hash, how);
    let shape = placed.shape.with_value(LONG);
    let element = written.map(|payload| Element { key: placed.word, payload, shape });
    replace_by(sight, (slot, object, element, true), how, writer)
}

/// The slot that a change uses; `len` is the size of the value that comes or goes. `None`: there is none, or only the general
/// path can find it.
#[inline(always)]
fn slot_in(sight: &Sight<'_, '_>, len: usize, how: How<'_>, writer: &Writer<'_>) -> Option<usize> {
    let Reached { leaf, lines, .. } = sight.at;
    let old = sight.old.map(|(slot, _)| slot);
    let mut usable = usable(&leaf, old, sight.free_or_ended, how, writer)?;
    if len >= LARGE {
        // An ended element keeps its space until its slot is used again. If it may be needed, the general path finds out.
        let free = leaf.side.bytes().0.equal(FREE) & leaf.all_slots();
        let ended = sight.free_or_ended & !free;
        usable &= if ended == 0 { usable } else { ended };
    }
    let slot = slot_for(Slots(usable), sight.hash, lines.len())?;
    prefetch(lines.get(place_of(slot).0)?);
    // The version that is drawn later may be out of reach, if others draw more than the slack meanwhile.
    let distance = how.version_seen(writer).saturating_sub(leaf.side.base());
    (distance <= u64::from(DELTA_MAX) - SLACK).then_some(slot)
}

/// As [`replace`], with the element of an object that was written for it. If nothing changes, the object is free again.
#[inline(always)]
fn replace_by(
    sight: &Sight<'_, '_>,
    (slot, object, element, removed): (usize, Object, Option<Element>, bool),
    how: How<'_>,
    writer: &mut Writer<'_>,
) -> Option<bool> {
    let done = element.and_then(|element| replace(sight, (slot, &element, removed), how, writer));
    if done.is_none() {
        sight.at.leaf.forest.pool().give_up([object]);
    }
    done
}

/// Puts an element into a slot, if the leaf has not changed meanwhile. Returns whether the key was there. A change that
/// commits by itself is durable on return.
#[inline(always)]
fn replace(
    sight: &Sight<'_, '_>,
    (slot, element, removed): (usize, &Element, bool),
    how: How<'_>,
    writer: &mut Writer<'_>,
) -> Option<bool> {
    let Reached { leaf, lines, moment } = sight.at;
    let (number, at) = place_of(slot);
    let (line, base, region) = (lines.get(number)?, leaf.side.base(), leaf.region());
    let guard = leaf.side.lock_at(moment)?;
    #[cfg(test)]
    super::target::check_unneeded(&leaf, writer.retained).ok()?;
    let given_up = if guard.print(slot) == FREE { None } else { given_up(sight, slot, element)? };
    let stamp = how.stamp(writer);
    let meta = Meta::new(stamp, removed, leaf.side.traits().base, base)?;
    write(region, line, at, element, meta);
    let print = if removed { TOMB } else { print(sight.hash) };
    if let How::Grouped = how {
        note_ended(&guard, &leaf, sight.free_or_ended, writer);
    }
    guard.note(sight.old.map(|(slot, _)| slot), (slot, print), stamp.version());
    if removed && element.record().is_some() {
        guard.note_shared();
    }
    if let Some((object, start)) = given_up {
        writer.retired.push(Retired { object, start, end: stamp.version() });
    }
    how.fence_element(region);
    Some(sight.old.is_some())
}

/// The record that only the element in a slot has, and the version since which it was there. The element is about to
/// be overwritten. `None`: this path cannot find out. The leaf is locked.
#[inline(always)]
fn given_up(
    sight: &Sight<'_, '_>,
    slot: usize,
    element: &Element,
) -> Option<Option<(Object, u64)>> {
    let (Reached { leaf, lines, .. }, traits) = (sight.at, sight.at.leaf.side.traits());
    let (number, at) = place_of(slot);
    let (before, meta) = read(lines.get(number)?, at);
    let Some(object) = before.record().filter(|&object| element.record() != Some(object)) else {
        return Some(None);
    };
    if traits.shared || traits.older {
        let bytes = leaf.side.bytes().0;
        let ended = bytes.at_most(TOMB) & !bytes.equal(FREE) & leaf.all_slots();
        let ended = Slots(ended & !(1 << slot));
        if is_shared(&leaf, ended, object).ok()? {
            return Some(None);
        }
    }
    let bases = match meta.base() == traits.base {
        true => [leaf.side.base(); 2],
        false => leaf.bases().ok()?,
    };
    Some(Some((object, meta.stamp(bases).version())))
}
