//! Algorithms 2 to 4: insert, split, remove, copy and merge, all as one change that climbs the path
//! until a node can take it in place.

use tembo_pmem::LINE;
use tembo_pool::Object;

use super::Cdds;
use super::bounds::fingerprint;
use super::few::Few;
use super::format::{Entry, UNBOUNDED_HEAD};
use super::node::{Find, Node, compare_high};
use super::path::{Path, Step};
use super::side::{Order, SideGuard};
use crate::error::damaged;
use crate::key::KeyBytes;
use crate::record::{read_key, record_size, with_record};
use crate::{Error, Op, Place, Retired, Stamp, Ticket, Writer};

/// Any offset at which a large record may lie.
const ALIGNED: u64 = 1 << 30;
/// Lines of a bounds record of usual keys; longer ones may have to do without the reservation.
const BOUNDS_LINES: u64 = 3;
/// A record that is written while readers of its leaf wait.
const SHORT: u64 = 2048;
/// Lines of an entry that begins and of one that ends.
const ENTRY_LINES: u64 = 2;

/// An entry on its way into a node. `key` is `None` only in inner nodes: no high bound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item<'k> {
    pub(crate) key: Option<KeyBytes<'k>>,
    pub(crate) target: u64,
    pub(crate) start: Stamp,
}

/// What has to become of one node: entries that end, entries that begin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change<'k> {
    pub(crate) ended: Few<usize>,
    pub(crate) added: Few<Item<'k>>,
}

/// What an unfinished operation has made and nothing refers to yet.
#[derive(Default)]
pub(crate) struct Fresh {
    pub(crate) record: Option<Object>,
    pub(crate) objects: Vec<Object>,
}

impl Cdds {
    pub(crate) fn change(
        &self,
        op: Op<'_>,
        place: Place,
        writer: &mut Writer<'_>,
    ) -> Result<bool, Error> {
        op.key()?;
        let mark = writer.retired.len();
        let mut fresh = Fresh::default();
        let changed = match op {
            Op::Put { key, value } => self.put((key, place), value, writer, &mut fresh),
            Op::Remove { key } => self.remove((key, place), writer, &mut fresh),
        };
        if changed.is_err() {
            writer.retired.truncate(mark);
            let made = fresh.record.iter().chain(&fresh.objects);
            made.for_each(|&object| self.forest.pool().free(object));
        }
        changed
    }

    fn put(
        &self,
        (key, place): (&[u8], Place),
        value: &[&[u8]],
        writer: &mut Writer<'_>,
        fresh: &mut Fresh,
    ) -> Result<bool, Error> {
        let value_len = value.iter().map(|part| part.len()).sum();
        let size = record_size(self.forest.records(), key.len(), value_len);
        let print = fingerprint(key);
        let leaf = self.leaf_step(key, place, writer.view())?;
        let old = find(&leaf, (key, print), writer)?;
        let seen = old.map(|slot| leaf.node.seen(slot)).transpose()?;
        let stamp = writer.stamp;
        let added = |target| Few::one(Item { key: Some(key.into()), target, start: stamp });
        let mut change = Change { ended: old.map_or(Few::none(), Few::one), added: added(0) };
        let again = seen.is_some_and(|seen| seen.start.version() == writer.stamp.version());
        let in_place = again || self.fits(&leaf, &change, writer)?;
        let path = if in_place { Path::new() } else { self.path(Some(key), writer.view())? };
        let _section = self.reserve(size, path.len())?;
        let record = self.forest.pool().alloc(size)?;
        fresh.record = Some(record);
        // The lock of a node waits for the stores before it: a short record is written behind it.
        let locked_first = in_place && !again && size <= SHORT;
        let write = || self.write_record(record, key, value);
        if !locked_first {
            write()?;
        }
        let target = record.to_bits() | print;
        if let Some(seen) = seen {
            retire(writer, Object::from_bits(seen.target), seen.start);
        }
        change.added = added(target);
        match old {
            Some(slot) if again => self.replace_target(leaf.node, slot, target)?,
            _ if in_place => {
                let guard = leaf.node.side.lock();
                if locked_first {
                    write()?;
                }
                self.change_locked(guard, &leaf, &change, writer)?;
            }
            _ => self.apply_change(&path, change, writer, fresh)?,
        }
        Ok(old.is_some())
    }

    /// Writes and flushes an unpublished record.
    fn write_record(&self, record: Object, key: &[u8], value: &[&[u8]]) -> Result<(), Error> {
        with_record(self.forest.records(), key, value, |parts| {
            // ORDER: the record is durable before the commit that makes its entry visible.
            self.forest.region().write("cdds.record.write", record.offset(), parts)
        })
    }

    fn remove(
        &self,
        (key, place): (&[u8], Place),
        writer: &mut Writer<'_>,
        fresh: &mut Fresh,
    ) -> Result<bool, Error> {
        let leaf = self.leaf_step(key, place, writer.view())?;
        let Some(slot) = find(&leaf, (key, fingerprint(key)), writer)? else {
            return Ok(false);
        };
        let change = Change { ended: Few::one(slot), added: Few::none() };
        let in_place = self.fits(&leaf, &change, writer)?;
        let path = if in_place { Path::new() } else { self.path(Some(key), writer.view())? };
        let _section = self.reserve(0, path.len())?;
        let seen = leaf.node.seen(slot)?;
        retire(writer, Object::from_bits(seen.target), seen.start);
        if in_place {
            self.change_in_place(&leaf, &change, writer)?;
        } else {
            self.apply_change(&path, change, writer, fresh)?;
        }
        Ok(true)
    }

    /// Ends the entry of `key` with one store that commits by itself.
    pub(crate) fn remove_single(
        &self,
        key: &[u8],
        ticket: &Ticket<'_>,
        writer: &mut Writer<'_>,
    ) -> Result<Option<bool>, Error> {
        let lane = writer.stamp.lane();
        // There is one writer: no version but this one will be drawn.
        writer.stamp = Stamp::single(ticket.last() + 1, lane);
        let path = self.path(Some(key), writer.view())?;
        let leaf = leaf_of(&path)?;
        let Some(slot) = find(leaf, (key, fingerprint(key)), writer)? else {
            return Ok(Some(false));
        };
        let change = Change { ended: Few::one(slot), added: Few::none() };
        if path.len() > 1 && !self.fits(leaf, &change, writer)? {
            return Ok(None);
        }
        let _section = self.reserve(0, 0)?;
        let seen = leaf.node.seen(slot)?;
        writer.stamp = Stamp::single(ticket.draw(), lane);
        retire(writer, Object::from_bits(seen.target), seen.start);
        self.change_in_place(leaf, &change, writer)?;
        // ORDER: the end commits itself: durable before any thread is told.
        self.forest.region().fence("cdds.single.fence");
        Ok(Some(true))
    }

    /// Room for an operation: its record, its entries, and at worst two nodes with bounds on every
    /// level of its path and on one more. A change in place has no path, and allocates its record, all
    /// that it allocates, before its first store: that is soon enough to find out whether there is room.
    fn reserve(&self, record_size: u64, levels: usize) -> Result<tembo_pmem::Section<'_>, Error> {
        let (pool, region) = (self.forest.pool(), self.forest.region());
        let node_size = u64::from(pool.geometry().node_size);
        // Large records are aligned as the region wants them to go beside its log.
        let record_lines = region.write_lines(ALIGNED, record_size) + 1;
        if levels == 0 {
            return Ok(pool.reserve(0, record_lines + ENTRY_LINES)?);
        }
        let nodes = (levels as u64 + 1) * 2;
        let lines = record_lines + ENTRY_LINES + nodes * (node_size / LINE + BOUNDS_LINES);
        Ok(pool.reserve(record_size + nodes * (node_size + BOUNDS_LINES * LINE), lines)?)
    }

    /// A second put of one key at one version: no other thread can see the entry.
    fn replace_target(&self, leaf: Node<'_>, slot: usize, target: u64) -> Result<(), Error> {
        let region = self.forest.region();
        let entry = leaf.entry(slot)?;
        let _guard = leaf.side.lock();
        // ORDER: the entry's version is not committed; the thread that commits it fences this before.
        region.commit("cdds.entry.retarget", &entry.target, target);
        // ORDER: the new target is durable before the commit of its version.
        region.flush("cdds.entry.retarget.flush", region.offset_of(&entry.target), 8);
        Ok(())
    }

    /// Live entries at which a node that is not the root is merged with a sibling: the thesis's m_l.
    pub(crate) fn live_min(&self) -> usize {
        (self.forest.capacity / 5).max(1)
    }

    /// Applies `change` to the last node of `path`: in place if it has room and keeps enough live
    /// entries, else by new nodes and a change of its parent.
    pub(crate) fn apply_change(
        &self,
        path: &[Step<'_>],
        change: Change<'_>,
        writer: &mut Writer<'_>,
        fresh: &mut Fresh,
    ) -> Result<(), Error> {
        let step = leaf_of(path)?;
        let live = step.order.live() + change.added.len() - change.ended.len();
        let is_root = path.len() == 1;
        if is_root && step.order.level > 0 && live == 1 {
            return self.promote(step, &change, writer);
        }
        let starved = !is_root && live <= self.live_min() && path[path.len() - 2].order.live() > 1;
        if !starved && fits_prefix(step, &change)? && self.has_room(step, &change, writer)? {
            return self.change_in_place(step, &change, writer);
        }
        self.reshape(path, change, writer, fresh)
    }

    /// Whether a leaf, be it the root or not, can be changed in place.
    fn fits(
        &self,
        leaf: &Step<'_>,
        change: &Change<'_>,
        writer: &Writer<'_>,
    ) -> Result<bool, Error> {
        let live = leaf.order.live() + change.added.len() - change.ended.len();
        Ok(live > self.live_min()
            && fits_prefix(leaf, change)?
            && self.has_room(leaf, change, writer)?)
    }

    fn has_room(
        &self,
        step: &Step<'_>,
        change: &Change<'_>,
        writer: &Writer<'_>,
    ) -> Result<bool, Error> {
        let mut room = step.node.capacity() - step.order.len();
        for slot in change.ended.iter() {
            let erased = step.node.seen(slot)?.start.version() == writer.stamp.version();
            room += usize::from(erased);
        }
        // In an order of this dead epoch, what nothing needs has an end.
        for slot in step.order.iter_ended() {
            if room >= change.added.len() {
                break;
            }
            let seen = step.node.seen(slot)?;
            room += usize::from(!seen.is_needed(u64::MAX, writer.dead, writer.retained));
        }
        Ok(room >= change.added.len())
    }

    /// Algorithm 2's in-place insertion and reuse, and the in-place part of algorithm 4.
    fn change_in_place(
        &self,
        step: &Step<'_>,
        change: &Change<'_>,
        writer: &mut Writer<'_>,
    ) -> Result<(), Error> {
        self.change_locked(step.node.side.lock(), step, change, writer)
    }

    fn change_locked(
        &self,
        guard: SideGuard<'_>,
        step: &Step<'_>,
        change: &Change<'_>,
        writer: &mut Writer<'_>,
    ) -> Result<(), Error> {
        let mut edit = Edit { cdds: self, node: step.node, order: step.order, guard, changed: 0 };
        for slot in change.ended.iter() {
            edit.end(slot, writer)?;
        }
        for item in change.added.iter() {
            edit.add(&item, change, writer)?;
        }
        edit.flush()?;
        edit.guard.set(self.forest.dead_epoch(), &edit.order);
        Ok(())
    }
}

/// True unless the node is guarded and a key to be added lacks its prefix.
fn fits_prefix(step: &Step<'_>, change: &Change<'_>) -> Result<bool, Error> {
    if !step.order.guarded {
        return Ok(true);
    }
    let prefix = step.node.bounds()?.prefix;
    let mut keys = change.added.iter().filter_map(|item| item.key);
    Ok(prefix.with(|prefix| keys.all(|key| key.starts_with(prefix))))
}

/// The slot of the entry of `key` in the leaf.
fn find(leaf: &Step<'_>, key: (&[u8], u64), writer: &Writer<'_>) -> Result<Option<usize>, Error> {
    let Step { node, mut order, mut sequence, .. } = *leaf;
    loop {
        match node.find(&order, sequence, key, writer.view())? {
            Find::At { position, .. } => return Ok(Some(order.slot(position))),
            Find::Absent => return Ok(None),
            // A reader has looked whether the side-car was to be made; the entries are the same.
            Find::Changed => (order, sequence) = node.order()?,
        }
    }
}

pub(crate) fn retire(writer: &mut Writer<'_>, object: Object, start: Stamp) {
    if object.to_bits() == 0 {
        return;
    }
    let end = writer.stamp.version();
    writer.retired.push(Retired { object, start: start.version(), end });
}

pub(crate) fn leaf_of<'p, 'f>(path: &'p [Step<'f>]) -> Result<&'p Step<'f>, Error> {
    path.last().ok_or(Error::Damaged { offset: 0, what: "a path that ends in a node" })
}

/// The writer inside a node, readers kept out.
struct Edit<'e, 'f> {
    cdds: &'e Cdds,
    node: Node<'f>,
    order: Order,
    guard: SideGuard<'f>,
    /// Slots whose entries have changed.
    changed: u32,
}

impl Edit<'_, '_> {
    /// Flushes each line in which an entry has changed, once.
    fn flush(&self) -> Result<(), Error> {
        let region = self.cdds.forest.region();
        self.node.flush_changed(self.changed, |line| {
            // ORDER: what ended, what is empty, and what began and is vouched for by its start, is durable
            // before the fence that commits its version.
            region.flush("cdds.entries.flush", line, LINE);
        })
    }

    /// Ends the entry in `slot`: for good if its version is the writer's own.
    fn end(&mut self, slot: usize, writer: &Writer<'_>) -> Result<(), Error> {
        let region = self.cdds.forest.region();
        let entry = self.node.entry(slot)?;
        let start = Stamp::from_bits(entry.start.load());
        if start.version() == writer.stamp.version() {
            return self.erase(slot);
        }
        self.order.end(slot, writer.stamp.version());
        // ORDER: after the limit of its version; it commits with its stamp: alone if it is single,
        // else by its lane's word.
        region.commit("cdds.entry.end", &entry.end, writer.stamp.to_bits());
        self.changed |= 1 << slot;
        Ok(())
    }

    fn free(&self, slot: usize) -> bool {
        slot < self.node.capacity() && self.order.used >> slot & 1 == 0
    }

    fn erase(&mut self, slot: usize) -> Result<(), Error> {
        let region = self.cdds.forest.region();
        let entry = self.node.entry(slot)?;
        // ORDER: the entry is in no view; its slot may be overwritten at once, in store order.
        region.commit("cdds.entry.erase", &entry.start, 0);
        self.changed |= 1 << slot;
        self.forget(slot);
        Ok(())
    }

    fn forget(&mut self, slot: usize) {
        self.order.forget(slot);
        self.guard.free_head(slot);
    }

    /// Puts an entry into a free slot, or into one that nothing needs any more.
    fn add(
        &mut self,
        item: &Item<'_>,
        change: &Change<'_>,
        writer: &Writer<'_>,
    ) -> Result<(), Error> {
        let slot = self.slot(change, writer)?;
        let entry = self.node.entry(slot)?;
        let wanted = item.key.map_or(UNBOUNDED_HEAD, |key| key.head(self.order.prefix_len.into()));
        self.write_entry(entry, wanted, item);
        self.changed |= 1 << slot;
        let position = self.position(item, wanted, change, writer)?;
        self.guard.set_head(slot, wanted);
        self.order.insert(position, slot);
        Ok(())
    }

    fn write_entry(&self, entry: &Entry, head: u64, item: &Item<'_>) {
        let region = self.cdds.forest.region();
        if entry.start.load() != 0 {
            // ORDER: empty before the other words change: same line, store order.
            region.commit("cdds.entry.reuse", &entry.start, 0);
        }
        region.store(&entry.head, head);
        region.store(&entry.target, item.target);
        region.store(&entry.end, 0);
        // ORDER: after the other words of the entry: same line, store order.
        region.commit("cdds.entry.start", &entry.start, item.start.to_bits());
    }

    fn slot(&mut self, change: &Change<'_>, writer: &Writer<'_>) -> Result<usize, Error> {
        if let Some(ended) = change.ended.only()
            && self.free(ended ^ 1)
        {
            return Ok(ended ^ 1);
        }
        let free = !self.order.used & (((1u64 << self.node.capacity()) - 1) as u32);
        if free != 0 {
            return Ok(free.trailing_zeros() as usize);
        }
        for slot in self.order.iter_ended() {
            let seen = self.node.seen(slot)?;
            if !seen.is_needed(u64::MAX, writer.dead, writer.retained) {
                self.forget(slot);
                return Ok(slot);
            }
        }
        damaged(self.node.object.offset(), "room that was counted")
    }

    /// Where an item belongs: by head, then key, then start.
    fn position(
        &mut self,
        item: &Item<'_>,
        wanted: u64,
        change: &Change<'_>,
        writer: &Writer<'_>,
    ) -> Result<usize, Error> {
        let mut position = self.node.lower_bound(wanted);
        while position < self.order.len() {
            let slot = self.order.slot(position);
            if self.node.side.head(slot) != wanted {
                break;
            }
            if self.order.level == 0 && change.ended.only() == Some(slot) {
                // What an update ends is of the same key.
                position += 1;
                continue;
            }
            let seen = self.node.seen(slot)?;
            if !seen.is_needed(u64::MAX, writer.dead, writer.retained) {
                self.forget(slot);
                continue;
            }
            let object = Object::from_bits(seen.target);
            let ordering = if self.order.level == 0 {
                Some(read_key(&self.cdds.forest, object)?.into()).cmp(&item.key)
            } else {
                compare_high(self.node.high_of(object)?, item.key)
            };
            if ordering.is_gt() {
                break;
            }
            position += 1;
        }
        Ok(position)
    }
}
