//! A node changed in place: algorithm 2's insertion and reuse, and the in-place part of algorithm 4.

use tembo_pmem::LINE;
use tembo_pool::Object;

use super::few::Few;
use crate::cdds::format::{Entry, UNBOUNDED_HEAD};
use crate::cdds::node::{Node, Order, SideGuard, compare_high};
use crate::cdds::roots::Step;
use crate::error::damaged;
use crate::key::KeyBytes;
use crate::record::read_key;
use crate::{Error, Stamp, Writer};

/// An entry that a change puts into a node. `key` is `None` only in inner nodes, for a child without a high bound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item<'k> {
    pub(crate) key: Option<KeyBytes<'k>>,
    pub(crate) target: u64,
    pub(crate) start: Stamp,
}

/// What a change does to one node: entries that end, and entries that begin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeChange<'k> {
    pub(crate) ended: Few<usize>,
    pub(crate) added: Few<Item<'k>>,
}

pub(crate) fn has_room(
    step: &Step<'_>,
    change: &NodeChange<'_>,
    writer: &Writer<'_>,
) -> Result<bool, Error> {
    let mut room = step.node.capacity() - step.order.len();
    for slot in change.ended.iter() {
        let erased = step.node.seen(slot)?.start.version() == writer.stamp.version();
        room += usize::from(erased);
    }
    // In an order of this dead epoch, an entry that nothing needs has an end.
    for slot in step.order.iter_ended() {
        if room >= change.added.len() {
            break;
        }
        let seen = step.node.seen(slot)?;
        room += usize::from(!seen.is_needed(u64::MAX, writer.dead, writer.retained));
    }
    Ok(room >= change.added.len())
}

/// Performs algorithm 2's in-place insertion and reuse, and the in-place part of algorithm 4.
pub(crate) fn change_in_place(
    step: &Step<'_>,
    change: &NodeChange<'_>,
    writer: &mut Writer<'_>,
) -> Result<(), Error> {
    change_locked(step.node.side.lock(), step, change, writer)
}

pub(crate) fn change_locked(
    guard: SideGuard<'_>,
    step: &Step<'_>,
    change: &NodeChange<'_>,
    writer: &mut Writer<'_>,
) -> Result<(), Error> {
    let mut edit = Edit { node: step.node, order: step.order, guard, changed: 0 };
    for slot in change.ended.iter() {
        edit.end(slot, writer)?;
    }
    for item in change.added.iter() {
        edit.add(&item, change, writer)?;
    }
    edit.flush()?;
    edit.guard.set(step.node.forest.dead_epoch(), &edit.order);
    Ok(())
}

/// True unless the node is guarded and a key to be added lacks its prefix.
pub(crate) fn fits_prefix(step: &Step<'_>, change: &NodeChange<'_>) -> Result<bool, Error> {
    if !step.order.guarded {
        return Ok(true);
    }
    let prefix = step.node.bounds()?.prefix;
    let mut keys = change.added.iter().filter_map(|item| item.key);
    Ok(prefix.with(|prefix| keys.all(|key| key.starts_with(prefix))))
}

/// A change of a node by the writer, which keeps readers out.
struct Edit<'f> {
    node: Node<'f>,
    order: Order,
    guard: SideGuard<'f>,
    /// Slots whose entries have changed.
    changed: u32,
}

impl Edit<'_> {
    /// Flushes each line in which an entry has changed, once.
    fn flush(&self) -> Result<(), Error> {
        let region = self.node.forest.region();
        self.node.flush_changed(self.changed, |line| {
            // ORDER: ends, empty slots and new entries, for which their starts vouch, are durable before the fence that
            // commits their version.
            region.flush("cdds.entries.flush", line, LINE);
        })
    }

    /// Ends the entry in `slot`: for good if its version is the writer's own.
    fn end(&mut self, slot: usize, writer: &Writer<'_>) -> Result<(), Error> {
        let region = self.node.forest.region();
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
        let region = self.node.forest.region();
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
        change: &NodeChange<'_>,
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
        let region = self.node.forest.region();
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

    fn slot(&mut self, change: &NodeChange<'_>, writer: &Writer<'_>) -> Result<usize, Error> {
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
        change: &NodeChange<'_>,
        writer: &Writer<'_>,
    ) -> Result<usize, Error> {
        let mut position = self.node.lower_bound(wanted);
        while position < self.order.len() {
            let slot = self.order.slot(position);
            if self.node.side.head(slot) != wanted {
                break;
            }
            if self.order.level == 0 && change.ended.only() == Some(slot) {
                // The entry that an update ends has the same key.
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
                Some(read_key(self.node.forest, object)?.into()).cmp(&item.key)
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
