//! Putting and removing a key: one element into a slot that nothing needs, one line.

use tembo_pool::Object;

use super::NvTree;
use super::element::{Element, LONG, Meta};
use super::fast::{Effect, SLACK, slot_for};
use super::format::DELTA_MAX;
use super::history;
use super::image::{ORPHANED, place_of};
use super::leaf::{Leaf, Placed, write};
use super::lookup::{Found, Spot, Wanted};
use super::prints::{FREE, STALE, Slots, TOMB, line, print};
use super::side::Guard;
use crate::error::damaged;
use crate::record::record_size;
use crate::{Error, Op, Retained, Retired, Stamp, Ticket, Writer};

/// Any offset at which a large record may lie.
const ALIGNED: u64 = 1 << 30;
/// A record of this size or less may wait for the removal of its key to be forgotten.
const SHORT: u64 = 1024;

/// How changes commit.
#[derive(Clone, Copy)]
pub(crate) enum How<'c> {
    /// Stamped by the writer, with others.
    Grouped,
    /// By itself, stamped in its turn.
    Single(&'c Ticket<'c>),
}

impl How<'_> {
    /// A version that the change will not be below.
    pub(crate) fn version(self, writer: &Writer<'_>) -> u64 {
        match self {
            How::Grouped => writer.stamp.version(),
            How::Single(ticket) => ticket.last() + 1,
        }
    }

    /// The stamp of what is written.
    #[inline]
    pub(crate) fn stamp(self, writer: &Writer<'_>) -> Stamp {
        match self {
            How::Grouped => writer.stamp,
            How::Single(ticket) => Stamp::single(ticket.draw(), writer.stamp.lane()),
        }
    }
}

/// What a change puts in the place of what was there.
pub(crate) struct Change<'s, 'f, 'k> {
    pub(crate) spot: &'s Spot<'f, 'k>,
    pub(crate) element: Element,
    removed: bool,
    /// The newest element of the key.
    old: Option<Found>,
    /// The slot to use: one that is free, or in which something is that nothing needs.
    pub(crate) slot: usize,
    /// It adds a key, and every other slot has the newest element of one.
    fills: bool,
}

impl NvTree {
    #[inline(always)]
    pub(crate) fn change(
        &self,
        op: Op<'_>,
        how: How<'_>,
        writer: &mut Writer<'_>,
    ) -> Result<bool, Error> {
        op.key()?;
        if let Op::Put { key, value } = op
            && let Some(word) = eight(value)
            && let Some(existed) = self.put_fast(key, word, how, writer)
        {
            return Ok(existed);
        }
        self.change_in_time(op, how, writer)
    }

    /// As `change`, if it takes more than one attempt.
    #[inline(never)]
    fn change_in_time(
        &self,
        op: Op<'_>,
        how: How<'_>,
        writer: &mut Writer<'_>,
    ) -> Result<bool, Error> {
        let (Op::Put { key, .. } | Op::Remove { key }) = op;
        let wanted = Wanted::new(key);
        // Eight bytes were tried before.
        let effect = match op {
            Op::Remove { .. } => Some(Effect::Remove),
            Op::Put { value, .. } if eight(value).is_some() => None,
            Op::Put { value, .. } => short(value),
        };
        loop {
            let fast = effect.and_then(|effect| self.change_fast(wanted, effect, how, writer));
            if let Some(existed) = fast {
                return Ok(existed);
            }
            if let Some(existed) = self.change_any(op, how, writer)? {
                return Ok(existed);
            }
        }
    }

    /// As `change`, of any kind; `None`: room was made in the leaf, and nothing else has changed.
    #[inline(never)]
    fn change_any(
        &self,
        op: Op<'_>,
        how: How<'_>,
        writer: &mut Writer<'_>,
    ) -> Result<Option<bool>, Error> {
        let mut record = None;
        let changed = match op {
            Op::Put { key, value } => self.put(key, value, how, writer, &mut record),
            Op::Remove { key } => self.remove(key, how, writer, &mut record),
        };
        // What was written for an element that did not come to be.
        record.into_iter().for_each(|record| self.forest.pool().free(record));
        changed
    }

    fn put(
        &self,
        key: &[u8],
        value: &[&[u8]],
        how: How<'_>,
        writer: &mut Writer<'_>,
        record: &mut Option<Object>,
    ) -> Result<Option<bool>, Error> {
        let value_len = value.iter().map(|part| part.len()).sum::<usize>();
        let wanted = Wanted::new(key);
        loop {
            let spot = self.spot_to_change(wanted, how, writer)?;
            let is_long = spot.placed.shape.key_len().is_none() || value_len > 8;
            let shape = spot.placed.shape.with_value(if is_long { LONG } else { value_len });
            let Some(old) = self.still(&spot, spot.newest())? else { continue };
            let slot = self.slot_for(&spot, old, how, writer);
            let Some(slot) = self.still(&spot, slot)? else { continue };
            let Some(slot) = slot else {
                self.make_room(&spot, how, writer)?;
                return Ok(None);
            };
            let size =
                if is_long { record_size(self.forest.records(), key.len(), value_len) } else { 0 };
            let room = if record.is_none() { size } else { 0 };
            let structure = match old.is_none() && spot.is_last(slot) {
                // Without it the leaf is full, and the next writer finds that.
                true => self.reserve_structure(key.len() as u64, room).ok(),
                false => None,
            };
            let fills = structure.is_some();
            if fills {
                spot.leaf.prefetch_all();
            }
            let _section = match structure {
                Some(section) => section,
                None => self.reserve(room)?,
            };
            if is_long && record.is_none() {
                self.make_record(size, key, value, how, record)?;
            }
            let payload = match record {
                Some(record) if is_long => record.to_bits() | wanted.hash << 48,
                _ => inline(value),
            };
            let element = Element { key: spot.placed.word, payload, shape };
            let change = Change { spot: &spot, element, removed: false, old, slot, fills };
            if self.perform(&change, how, writer)? {
                if is_long {
                    *record = None;
                }
                return Ok(Some(old.is_some()));
            }
        }
    }

    fn remove(
        &self,
        key: &[u8],
        how: How<'_>,
        writer: &mut Writer<'_>,
        record: &mut Option<Object>,
    ) -> Result<Option<bool>, Error> {
        let wanted = Wanted::new(key);
        loop {
            let spot = self.spot_to_change(wanted, how, writer)?;
            let Some(old) = self.still(&spot, spot.newest())? else { continue };
            let Some(found) = old else { return Ok(Some(false)) };
            let slot = self.slot_for(&spot, old, how, writer);
            let Some(slot) = self.still(&spot, slot)? else { continue };
            let Some(slot) = slot else {
                self.make_room(&spot, how, writer)?;
                return Ok(None);
            };
            let mut element = found.element;
            let large = element.record().filter(|object| object.size() > SHORT);
            let is_long = spot.placed.shape.key_len().is_none();
            let size = if large.is_some() && is_long {
                record_size(self.forest.records(), key.len(), 0)
            } else {
                0
            };
            let _section = self.reserve(if record.is_none() { size } else { 0 })?;
            if large.is_some() {
                // It is not to be kept until the removal is forgotten.
                element.shape = spot.placed.shape.with_value(0);
                element.payload = 0;
            }
            if size > 0 {
                if record.is_none() {
                    // With a fence of its own. Without it a crash could keep the removal and lose its
                    // record, in whose place the space still has what it was before: another key's record,
                    // which head and hash need not tell apart, and another key would be gone.
                    self.make_record(size, key, &[], how, record)?;
                }
                element.shape = spot.placed.shape.with_value(LONG);
                element.payload = record.map_or(0, Object::to_bits) | wanted.hash << 48;
            }
            let change = Change { spot: &spot, element, removed: true, old, slot, fills: false };
            if self.perform(&change, how, writer)? {
                *record = None;
                return Ok(Some(true));
            }
        }
    }

    /// A spot whose fingerprints tell all keys.
    #[inline]
    fn spot_to_change<'f, 'k>(
        &'f self,
        wanted: Wanted<'k>,
        how: How<'_>,
        writer: &mut Writer<'_>,
    ) -> Result<Spot<'f, 'k>, Error> {
        loop {
            let spot = self.spot(wanted)?;
            if spot.leaf.side.newest() != ORPHANED {
                return Ok(spot);
            }
            self.adopt(&spot, how, writer)?;
        }
    }

    /// What was read, if nothing has changed meanwhile.
    fn still<T>(&self, spot: &Spot<'_, '_>, read: Result<T, Error>) -> Result<Option<T>, Error> {
        match read {
            Ok(read) => Ok(spot.leaf.side.still(spot.moment).then_some(read)),
            Err(error) if spot.leaf.side.still(spot.moment) => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// Room for an element, and for its record if that has a size.
    fn reserve(&self, size: u64) -> Result<tembo_pmem::Section<'_>, Error> {
        let pool = self.forest.pool();
        if size == 0 {
            return Ok(pool.reserve(0, 1)?);
        }
        let size = Object::size_for(size).unwrap_or(size);
        Ok(pool.reserve(size, 1 + self.lines_of_record(size))?)
    }

    /// Lines to reserve for a record of that size.
    pub(crate) fn lines_of_record(&self, size: u64) -> u64 {
        self.forest.region().write_lines(ALIGNED, size)
    }

    fn make_record(
        &self,
        size: u64,
        key: &[u8],
        value: &[&[u8]],
        how: How<'_>,
        record: &mut Option<Object>,
    ) -> Result<(), Error> {
        let object = self.forest.pool().alloc(size)?;
        *record = Some(object);
        self.write_record(object, key, value)?;
        if let How::Single(_) = how {
            // ORDER: the record is durable before an element that commits by itself refers to it.
            self.forest.region().fence("nvtree.record.fence");
        }
        Ok(())
    }

    /// The slot that a change of the key takes: that of the change before if it has the same stamp,
    /// else one that is free, or in which something is that nothing needs. `None`: there is none.
    #[inline]
    fn slot_for(
        &self,
        spot: &Spot<'_, '_>,
        old: Option<Found>,
        how: How<'_>,
        writer: &Writer<'_>,
    ) -> Result<Option<usize>, Error> {
        if let How::Grouped = how
            && spot.leaf.side.newest() == writer.stamp.version()
            && let Some(slot) = self.own_slot(spot, old, writer)?
        {
            return Ok(Some(slot));
        }
        let lines = spot.leaf.lines();
        let preferred = line(spot.hash, lines);
        let free = spot.prints.matching(FREE, lines);
        let stale = spot.prints.matching(STALE, lines);
        let retained = writer.retained;
        if retained.needs_no_past(spot.leaf.side.newest()) {
            return Ok(slot_for(Slots(free.0 | stale.0), spot.hash, lines));
        }
        if let Some(slot) = free.near(preferred) {
            return Ok(Some(slot));
        }
        let bases = spot.leaf.bases()?;
        let newest = spot.leaf.side.newest();
        // First those that began after all pins, which takes no comparison of keys.
        for slot in stale {
            let (_, meta) = spot.leaf.element(slot)?;
            let start = meta.stamp(bases).version();
            if !meta.is_removed() && retained.needs_none_since(start, newest) {
                return Ok(Some(slot));
            }
        }
        for slot in stale {
            if !self.is_needed(spot, slot, retained)? {
                return Ok(Some(slot));
            }
        }
        Ok(None)
    }

    /// The slot of the key's element that has the writer's own stamp.
    #[cold]
    fn own_slot(
        &self,
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

    /// Whether a version that can be read needs what is in a slot, whose end is that of the next
    /// newer element of its key.
    fn is_needed(
        &self,
        spot: &Spot<'_, '_>,
        slot: usize,
        retained: &Retained,
    ) -> Result<bool, Error> {
        let leaf = &spot.leaf;
        let (bases, (element, meta)) = (leaf.bases()?, leaf.element(slot)?);
        let start = meta.stamp(bases).version();
        let key = leaf.key_of(&element)?;
        let placed = leaf.place(&key, spot.traits)?;
        let mut end = u64::MAX;
        for other in spot.prints.used(leaf.lines()) {
            let (element, meta) = leaf.element(other)?;
            let version = meta.stamp(bases).version();
            if version > start && version < end && leaf.is_of(&element, &placed)? {
                end = version;
            }
        }
        // Of a removal that was ended only a cleaning knows what it removes.
        Ok(meta.is_removed() || retained.needs(start, end))
    }

    /// Performs a change if the leaf is still as it was. Of a change that commits by itself: it is
    /// durable when this returns.
    #[inline]
    fn perform(
        &self,
        change: &Change<'_, '_, '_>,
        how: How<'_>,
        writer: &mut Writer<'_>,
    ) -> Result<bool, Error> {
        let spot = change.spot;
        let (leaf, base) = (&spot.leaf, spot.leaf.side.base());
        if how.version(writer).saturating_sub(base) > u64::from(DELTA_MAX) - SLACK {
            self.rebase(spot, how, writer)?;
            return Ok(false);
        }
        let (line, at) = place_of(change.slot);
        let line = leaf.line(line)?;
        let Some(guard) = leaf.side.lock_at(spot.moment) else { return Ok(false) };
        if change.fills && self.put_and_split(change, &guard, how, writer)? {
            return Ok(true);
        }
        let replaced = self.replaced(change)?;
        let stamp = how.stamp(writer);
        let meta = Meta::new(stamp, change.removed, spot.traits.base, base);
        let Some(meta) = meta else { return damaged(leaf.offset(), "a base in reach") };
        write(self.forest.region(), line, at, &change.element, meta);
        if let Some((object, start)) = replaced {
            writer.retired.push(Retired { object, start, end: stamp.version() });
        }
        note(&guard, change, stamp);
        if let How::Single(_) = how {
            // ORDER: durable before any thread is told, and before another writer comes.
            self.forest.region().fence("nvtree.single.fence");
        }
        Ok(true)
    }

    /// The record of the element that is about to be overwritten, and since when it was there; `None`
    /// if the removal of its key still tells its key by it, or old versions need it.
    pub(crate) fn replaced(
        &self,
        change: &Change<'_, '_, '_>,
    ) -> Result<Option<(Object, u64)>, Error> {
        let leaf = &change.spot.leaf;
        if change.spot.prints.get(change.slot) == FREE {
            return Ok(None);
        }
        let (element, meta) = leaf.element(change.slot)?;
        let Some(record) = element.record() else { return Ok(None) };
        // Records are of one key, and of its elements no more than a removal and what that ended share one.
        let ended = change.spot.prints.ended(leaf.lines()).filter(|&other| other != change.slot);
        let shared = change.element.record() == Some(record) || is_shared(leaf, ended, record)?;
        Ok(if shared { None } else { Some((record, meta.stamp(leaf.bases()?).version())) })
    }
}

/// Whether an element in one of the slots, or the history, refers to the record.
pub(crate) fn is_shared(
    leaf: &Leaf<'_>,
    slots: impl Iterator<Item = usize>,
    record: Object,
) -> Result<bool, Error> {
    for slot in slots {
        let (element, meta) = leaf.element(slot)?;
        if !meta.is_empty() && element.record() == Some(record) {
            return Ok(true);
        }
    }
    Ok(history::read(leaf)?.iter().any(|old| old.element.record() == Some(record)))
}

/// Tells the side-car.
#[inline]
fn note(guard: &Guard<'_>, change: &Change<'_, '_, '_>, stamp: Stamp) {
    let print = if change.removed { TOMB } else { print(change.spot.hash) };
    guard.note(change.old.map(|old| old.slot), (change.slot, print), stamp.version());
}

/// A value of eight bytes in one part, as a word.
#[inline(always)]
fn eight(value: &[&[u8]]) -> Option<u64> {
    match value {
        [part] => part.as_array().map(|eight| u64::from_le_bytes(*eight)),
        _ => None,
    }
}

/// The effect of a short value.
fn short(value: &[&[u8]]) -> Option<Effect> {
    let len = value.iter().map(|part| part.len()).sum();
    (len <= 8).then(|| Effect::Put(inline(value), len))
}

/// The first eight bytes of a value as a word, zeros behind it.
fn inline(value: &[&[u8]]) -> u64 {
    let mut bytes = [0; 8];
    let all = value.iter().flat_map(|part| part.iter());
    bytes.iter_mut().zip(all).for_each(|(byte, value)| *byte = *value);
    u64::from_le_bytes(bytes)
}

impl<'k> Placed<'k> {
    /// Whose key it is.
    pub(crate) fn key(&self) -> &'k [u8] {
        self.key
    }
}
