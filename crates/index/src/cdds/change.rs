//! Putting and removing a key: in place if the leaf can take it, else by a change that climbs the path.

mod climb;
mod edit;
mod few;
mod nodes;

use tembo_pmem::LINE;
use tembo_pool::Object;

use self::climb::{apply_change, retire};
use self::edit::{Item, NodeChange, change_in_place, change_locked, fits_prefix, has_room};
use self::few::Few;
use self::nodes::Fresh;
use super::node::{Find, Node, fingerprint};
use super::roots::{Path, Roots, Step, leaf_of};
use crate::record::{record_size, with_record};
use crate::{Error, Op, Place, Stamp, Ticket, Writer};

/// Any offset at which a large record may lie.
const ALIGNED: u64 = 1 << 30;
/// Lines of a bounds record of short keys. Bounds of longer keys may take more lines than were reserved.
const BOUNDS_LINES: u64 = 3;
/// Greatest size of a record that is written while readers of its leaf wait.
const SHORT: u64 = 2048;
/// Lines of an entry that begins and of one that ends.
const ENTRY_LINES: u64 = 2;

pub(crate) fn change(
    roots: &Roots,
    op: Op<'_>,
    place: Place,
    writer: &mut Writer<'_>,
) -> Result<bool, Error> {
    op.key()?;
    let mark = writer.retired.len();
    let mut fresh = Fresh::default();
    let changed = match op {
        Op::Put { key, value } => put(roots, (key, place), value, writer, &mut fresh),
        Op::Remove { key } => remove(roots, (key, place), writer, &mut fresh),
    };
    if changed.is_err() {
        writer.retired.truncate(mark);
        roots.forest.pool().give_up(fresh.record.into_iter().chain(fresh.objects));
    }
    changed
}

fn put(
    roots: &Roots,
    (key, place): (&[u8], Place),
    value: &[&[u8]],
    writer: &mut Writer<'_>,
    fresh: &mut Fresh,
) -> Result<bool, Error> {
    let value_len = value.iter().map(|part| part.len()).sum();
    let size = record_size(roots.forest.records(), key.len(), value_len);
    let print = fingerprint(key);
    let leaf = roots.leaf_step(key, place, writer.view())?;
    let old = find(&leaf, (key, print), writer)?;
    let seen = old.map(|slot| leaf.node.seen(slot)).transpose()?;
    let stamp = writer.stamp;
    let added = |target| Few::one(Item { key: Some(key.into()), target, start: stamp });
    let mut change = NodeChange { ended: old.map_or(Few::none(), Few::one), added: added(0) };
    let again = seen.is_some_and(|seen| seen.start.version() == writer.stamp.version());
    let in_place = again || fits(roots, &leaf, &change, writer)?;
    let path = if in_place { Path::new() } else { roots.path(Some(key), writer.view())? };
    let _section = reserve(roots, size, path.len())?;
    let record = roots.forest.pool().alloc(size)?;
    fresh.record = Some(record);
    // The lock of a node waits for the stores before it. So a short record is written after the lock is taken.
    let locked_first = in_place && !again && size <= SHORT;
    let write = || write_record(roots, record, key, value);
    if !locked_first {
        write()?;
    }
    let target = record.to_bits() | print;
    if let Some(seen) = seen {
        retire(writer, Object::from_bits(seen.target), seen.start);
    }
    change.added = added(target);
    match old {
        Some(slot) if again => replace_target(roots, leaf.node, slot, target)?,
        _ if in_place => {
            let guard = leaf.node.side.lock();
            if locked_first {
                write()?;
            }
            change_locked(guard, &leaf, &change, writer)?;
        }
        _ => apply_change(roots, &path, change, writer, fresh)?,
    }
    Ok(old.is_some())
}

/// Writes and flushes an unpublished record.
fn write_record(roots: &Roots, record: Object, key: &[u8], value: &[&[u8]]) -> Result<(), Error> {
    with_record(roots.forest.records(), key, value, |parts| {
        // ORDER: the record is durable before the commit that makes its entry visible.
        let (offset, room) = (record.offset(), roots.forest.pool().room(record));
        roots.forest.region().write_object("cdds.record.write", offset, parts, room)
    })
}

fn remove(
    roots: &Roots,
    (key, place): (&[u8], Place),
    writer: &mut Writer<'_>,
    fresh: &mut Fresh,
) -> Result<bool, Error> {
    let leaf = roots.leaf_step(key, place, writer.view())?;
    let Some(slot) = find(&leaf, (key, fingerprint(key)), writer)? else {
        return Ok(false);
    };
    let change = NodeChange { ended: Few::one(slot), added: Few::none() };
    let in_place = fits(roots, &leaf, &change, writer)?;
    let path = if in_place { Path::new() } else { roots.path(Some(key), writer.view())? };
    let _section = reserve(roots, 0, path.len())?;
    let seen = leaf.node.seen(slot)?;
    retire(writer, Object::from_bits(seen.target), seen.start);
    if in_place {
        change_in_place(&leaf, &change, writer)?;
    } else {
        apply_change(roots, &path, change, writer, fresh)?;
    }
    Ok(true)
}

/// Ends the entry of `key` with one store that commits by itself.
pub(crate) fn remove_single(
    roots: &Roots,
    key: &[u8],
    ticket: &Ticket<'_>,
    writer: &mut Writer<'_>,
) -> Result<Option<bool>, Error> {
    let lane = writer.stamp.lane();
    // There is one writer: no version but this one will be drawn.
    writer.stamp = Stamp::single(ticket.last() + 1, lane);
    let path = roots.path(Some(key), writer.view())?;
    let leaf = leaf_of(&path)?;
    let Some(slot) = find(leaf, (key, fingerprint(key)), writer)? else {
        return Ok(Some(false));
    };
    let change = NodeChange { ended: Few::one(slot), added: Few::none() };
    if path.len() > 1 && !fits(roots, leaf, &change, writer)? {
        return Ok(None);
    }
    let _section = reserve(roots, 0, 0)?;
    let seen = leaf.node.seen(slot)?;
    writer.stamp = Stamp::single(ticket.draw(), lane);
    retire(writer, Object::from_bits(seen.target), seen.start);
    change_in_place(leaf, &change, writer)?;
    // ORDER: the end commits itself: durable before any thread is notified.
    roots.forest.region().fence("cdds.single.fence");
    Ok(Some(true))
}

/// Room for an operation: its record, its entries, and at worst two nodes with bounds on every
/// level of its path and on one more. A change in place has no path. It allocates only its record, and that before its
/// first store, which is soon enough to find out whether there is room.
fn reserve(
    roots: &Roots,
    record_size: u64,
    levels: usize,
) -> Result<tembo_pmem::Section<'_>, Error> {
    let (pool, region) = (roots.forest.pool(), roots.forest.region());
    let node_size = u64::from(pool.geometry().node_size);
    // Large records are aligned so that the region can write them beside its log.
    let record_lines = region.write_lines(ALIGNED, record_size) + 1;
    if levels == 0 {
        return Ok(pool.reserve(0, record_lines + ENTRY_LINES)?);
    }
    let nodes = (levels as u64 + 1) * 2;
    let lines = record_lines + ENTRY_LINES + nodes * (node_size / LINE + BOUNDS_LINES);
    Ok(pool.reserve(record_size + nodes * (node_size + BOUNDS_LINES * LINE), lines)?)
}

/// Performs a second put of one key at one version. No other thread can see the entry yet.
fn replace_target(roots: &Roots, leaf: Node<'_>, slot: usize, target: u64) -> Result<(), Error> {
    let region = roots.forest.region();
    let entry = leaf.entry(slot)?;
    let _guard = leaf.side.lock();
    // ORDER: the entry's version is not committed; the thread that commits it fences this before.
    region.commit("cdds.entry.retarget", &entry.target, target);
    // ORDER: the new target is durable before the commit of its version.
    region.flush("cdds.entry.retarget.flush", region.offset_of(&entry.target), 8);
    Ok(())
}

/// Whether a leaf, be it the root or not, can be changed in place.
fn fits(
    roots: &Roots,
    leaf: &Step<'_>,
    change: &NodeChange<'_>,
    writer: &Writer<'_>,
) -> Result<bool, Error> {
    let live = leaf.order.live() + change.added.len() - change.ended.len();
    Ok(live > roots.live_min() && fits_prefix(leaf, change)? && has_room(leaf, change, writer)?)
}

/// The slot of the entry of `key` in the leaf.
fn find(leaf: &Step<'_>, key: (&[u8], u64), writer: &Writer<'_>) -> Result<Option<usize>, Error> {
    let Step { node, mut order, mut sequence, .. } = *leaf;
    loop {
        match node.find(&order, sequence, key, writer.view())? {
            Find::At { position, .. } => return Ok(Some(order.slot(position))),
            Find::Absent => return Ok(None),
            // A reader took the lock to see whether the side-car was to be made. The entries are the same.
            Find::Changed => (order, sequence) = node.order()?,
        }
    }
}
