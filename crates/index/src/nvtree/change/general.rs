//! The general path of a change: it stores one element, and so one line, into a slot that nothing needs.

use tembo_pool::Object;

use crate::error::damaged;
use crate::nvtree::change::carry::{inline, is_block, write_block, write_record};
use crate::nvtree::change::rebase::{adopt, rebase};
use crate::nvtree::change::reclaim::make_room;
use crate::nvtree::change::record::SHORT;
use crate::nvtree::change::replacement::{Replacement, replaced};
use crate::nvtree::change::space::{reserve, reserve_structure};
use crate::nvtree::change::split_half::{is_last, put_and_split};
use crate::nvtree::change::target::{Target, target};
use crate::nvtree::fast::SLACK;
use crate::nvtree::format::DELTA_MAX;
use crate::nvtree::how::How;
use crate::nvtree::image::ORPHANED;
use crate::nvtree::leaf::{Element, Guard, LONG, Meta, TOMB, place_of, print, write};
use crate::nvtree::leaves::{Asked, AskedOf, Leaves, Reached, Spot, Wanted};
use crate::record::record_size;
use crate::{Error, Op, Retired, Stamp, Writer, Written};

/// A key, and its leaf where that was reached before.
type SoughtLeaf<'f, 'k> = (Wanted<'k>, Option<Reached<'f>>);

/// As `change`, for any operation. `None`: this has made room in the leaf and changed nothing else. The value that is put may
/// be written already; if that is empty afterwards, its object was used or freed.
#[inline(never)]
pub(super) fn change_any(
    leaves: &Leaves,
    op: Op<'_>,
    sought: SoughtLeaf<'_, '_>,
    how: How<'_>,
    writer: &mut Writer<'_>,
    before: &mut Option<Written>,
) -> Result<Option<bool>, Error> {
    let mut record = before.map(Written::object);
    let written = before.map(|written| (written.payload, written.is_block));
    let changed = match op {
        Op::Put { value, .. } => put(leaves, sought, value, how, writer, (&mut record, written)),
        Op::Remove { .. } => remove(leaves, sought, how, writer, &mut record),
    };
    if matches!(changed, Ok(None)) && record.is_some() && record == before.map(Written::object) {
        // The next attempt takes it.
        return changed;
    }
    *before = None;
    // A record that was written for an element that was not stored is free again.
    if let Some(record) = record {
        leaves.forest.pool().give_up([record]);
    }
    changed
}

fn put<'f>(
    leaves: &'f Leaves,
    (wanted, mut reached): SoughtLeaf<'f, '_>,
    value: &[&[u8]],
    how: How<'_>,
    writer: &mut Writer<'_>,
    (record, written): (&mut Option<Object>, Option<(u64, bool)>),
) -> Result<Option<bool>, Error> {
    let key = wanted.key;
    let value_len = value.iter().map(|part| part.len()).sum::<usize>();
    // The payload that an earlier attempt has made, and whether it is that of a block.
    let mut made = written;
    loop {
        let spot = spot_to_change(leaves, (wanted, reached.take()), how, writer)?;
        let is_long = spot.placed.shape.key_len().is_none() || value_len > 8;
        let shape = spot.placed.shape.with_value(if is_long { LONG } else { value_len });
        let Some(old) = still(&spot, spot.newest())? else { continue };
        // A record of an earlier attempt can be used again. A block has no key, and may not fit.
        let is_block = is_long
            && made.is_none_or(|(_, was_block)| was_block)
            && is_block(&leaves.forest, shape, value_len);
        if made.take_if(|(_, was_block)| *was_block && !is_block).is_some() {
            leaves.forest.pool().give_up(record.take());
        }
        let target = target(leaves, &spot, (old, value_len), how, writer);
        let Some(target) = still(&spot, target)? else { continue };
        let Some(Target { slot, asked }) = target else {
            make_room(leaves, &spot, how, writer)?;
            return Ok(None);
        };
        let (shape, size) = match is_long {
            true if is_block => (shape.with_block(), value_len as u64),
            true => (shape, record_size(leaves.forest.records(), key.len(), value_len)),
            false => (shape, 0),
        };
        let room = if record.is_none() { size } else { 0 };
        let structure = match old.is_none() && is_last(&spot, slot) {
            // Without it the leaf is full, and the next writer finds that.
            true => reserve_structure(&leaves.forest, key.len() as u64, room).ok(),
            false => None,
        };
        let fills = structure.is_some();
        if fills {
            spot.leaf.prefetch_all();
        }
        let _section = match structure {
            Some(section) => section,
            None => reserve(&leaves.forest, room)?,
        };
        let payload = match made {
            _ if !is_long => inline(value),
            Some((payload, _)) => payload,
            None if is_block => {
                made.insert((make_block(leaves, size, value, how, record)?, true)).0
            }
            None => {
                let object = make_record(leaves, size, key, value, how, record)?;
                made.insert((object | wanted.hash << 48, false)).0
            }
        };
        let element = Element { key: spot.placed.word, payload, shape };
        let change = Replacement { spot: &spot, element, removed: false, old, slot, fills };
        if perform(leaves, (&change, asked), how, writer)? {
            if is_long {
                *record = None;
            }
            return Ok(Some(old.is_some()));
        }
    }
}

fn remove<'f>(
    leaves: &'f Leaves,
    (wanted, mut reached): SoughtLeaf<'f, '_>,
    how: How<'_>,
    writer: &mut Writer<'_>,
    record: &mut Option<Object>,
) -> Result<Option<bool>, Error> {
    let key = wanted.key;
    loop {
        let spot = spot_to_change(leaves, (wanted, reached.take()), how, writer)?;
        let Some(old) = still(&spot, spot.newest())? else { continue };
        let Some(found) = old else { return Ok(Some(false)) };
        let record_len = found.element.record().map_or(0, |object| object.size() as usize);
        let target = target(leaves, &spot, (old, record_len), how, writer);
        let Some(target) = still(&spot, target)? else { continue };
        let Some(Target { slot, asked }) = target else {
            make_room(leaves, &spot, how, writer)?;
            return Ok(None);
        };
        let mut element = found.element;
        let large = element.record().filter(|object| object.size() > SHORT);
        let is_long = spot.placed.shape.key_len().is_none();
        let size = if large.is_some() && is_long {
            record_size(leaves.forest.records(), key.len(), 0)
        } else {
            0
        };
        let _section = reserve(&leaves.forest, if record.is_none() { size } else { 0 })?;
        if large.is_some() {
            // The old record must not be kept until the removal is forgotten.
            element.shape = spot.placed.shape.with_value(0);
            element.payload = 0;
        }
        if size > 0 {
            if record.is_none() {
                // The record has a fence of its own. Without it a crash could keep the removal and lose its
                // record. Its space could then hold the record of another key, which head and hash need not
                // distinguish, and that other key would be removed.
                make_record(leaves, size, key, &[], how, record)?;
            }
            element.shape = spot.placed.shape.with_value(LONG);
            element.payload = record.map_or(0, Object::to_bits) | wanted.hash << 48;
        }
        let change = Replacement { spot: &spot, element, removed: true, old, slot, fills: false };
        if perform(leaves, (&change, asked), how, writer)? {
            // One that an earlier attempt has made is not always used.
            if size > 0 {
                *record = None;
            }
            return Ok(Some(true));
        }
    }
}

/// The spot of a key, in a leaf whose fingerprints show all keys.
#[inline]
fn spot_to_change<'f, 'k>(
    leaves: &'f Leaves,
    (wanted, mut reached): SoughtLeaf<'f, 'k>,
    how: How<'_>,
    writer: &mut Writer<'_>,
) -> Result<Spot<'f, 'k>, Error> {
    loop {
        let spot = leaves.spot_at(wanted, reached.take())?;
        if spot.leaf.side.newest() != ORPHANED {
            return Ok(spot);
        }
        adopt(leaves, &spot, how, writer)?;
    }
}

/// Returns what was read, if the leaf has not changed meanwhile.
fn still<T>(spot: &Spot<'_, '_>, read: Result<T, Error>) -> Result<Option<T>, Error> {
    match read {
        Ok(read) => Ok(spot.leaf.side.still(spot.moment).then_some(read)),
        Err(error) if spot.leaf.side.still(spot.moment) => Err(error),
        Err(_) => Ok(None),
    }
}

/// Writes a block. Returns the payload of its element.
fn make_block(
    leaves: &Leaves,
    size: u64,
    value: &[&[u8]],
    how: How<'_>,
    record: &mut Option<Object>,
) -> Result<u64, Error> {
    let block = leaves.forest.pool().alloc(size)?;
    *record = Some(block);
    let payload = write_block(&leaves.forest, block, value)?;
    how.fence_block(leaves.forest.region());
    Ok(payload)
}

/// Writes a record. Returns the lower part of the payload of its element.
fn make_record(
    leaves: &Leaves,
    size: u64,
    key: &[u8],
    value: &[&[u8]],
    how: How<'_>,
    record: &mut Option<Object>,
) -> Result<u64, Error> {
    let object = leaves.forest.pool().alloc(size)?;
    *record = Some(object);
    write_record(&leaves.forest, object, key, value)?;
    how.fence_record(leaves.forest.region());
    Ok(object.to_bits())
}

/// Performs a change if the leaf has not changed meanwhile. A change that commits by itself is
/// durable when this returns.
#[inline]
fn perform(
    leaves: &Leaves,
    (change, asked): (&Replacement<'_, '_, '_>, Asked),
    how: How<'_>,
    writer: &mut Writer<'_>,
) -> Result<bool, Error> {
    let spot = change.spot;
    let (leaf, base) = (&spot.leaf, spot.leaf.side.base());
    if how.version(writer).saturating_sub(base) > u64::from(DELTA_MAX) - SLACK {
        rebase(leaves, spot, how, writer)?;
        return Ok(false);
    }
    let (line, at) = place_of(change.slot);
    let line = leaf.line(line)?;
    let Some(guard) = leaf.side.lock_at(spot.moment) else { return Ok(false) };
    #[cfg(test)]
    super::target::check_unneeded(leaf, writer.retained)?;
    if change.fills && put_and_split(leaves, change, &guard, how, writer)? {
        return Ok(true);
    }
    let replaced = replaced(change)?;
    let stamp = how.stamp(writer);
    let meta = Meta::new(stamp, change.removed, spot.traits.base, base);
    let Some(meta) = meta else { return damaged(leaf.offset(), "a base in reach") };
    write(leaves.forest.region(), line, at, &change.element, meta);
    if let Some((object, start)) = replaced {
        writer.retired.push(Retired { object, start, end: stamp.version() });
    }
    note(&guard, change, stamp);
    if change.removed && change.element.record().is_some() {
        guard.note_shared();
    }
    how.fence_element(leaves.forest.region());
    if let How::Grouped = how {
        // What this has asked about, and no other slot: those that a group knew of are among the ended ones.
        guard.note_unneeded(leaf.side.unneeded() | asked.unneeded & !(1 << change.slot));
        let of = AskedOf { leaf: leaf.id, moment: guard.unlock(), version: stamp.version() };
        leaves.asked.set(of, asked.after(change.slot, change.old.map(|old| old.slot)));
    }
    Ok(true)
}

/// Notes the change in the side-car.
#[inline]
fn note(guard: &Guard<'_>, change: &Replacement<'_, '_, '_>, stamp: Stamp) {
    let print = if change.removed { TOMB } else { print(change.spot.hash) };
    guard.note(change.old.map(|old| old.slot), (change.slot, print), stamp.version());
}
