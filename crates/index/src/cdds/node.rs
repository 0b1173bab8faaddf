//! A node as its readers and its writer see it.

mod bounds;
mod side;

use std::cmp::Ordering;

use tembo_pmem::{Fault, MediaBytes};
use tembo_pool::Object;

pub(crate) use self::bounds::{Bounds, FINGERPRINT_MASK, fingerprint, separator};
pub(crate) use self::side::{Order, Side, SideGuard};
use super::format::{
    CAPACITY_MAX, ENTRY_SIZE, Entry, GUARDED, NODE_HEADER, NODE_MAGIC, NodeHeader, UNBOUNDED_HEAD,
};
use crate::error::damaged;
use crate::key::KeyBytes;
use crate::record::{head, read_key, read_unverified, verify_once};
use crate::{DeadIntervals, Error, Forest, Retained, Stamp, View};

/// A node that has been checked once: it lies in the pool and has the magic of a node.
#[derive(Clone, Copy)]
pub(crate) struct Node<'f> {
    pub(crate) forest: &'f Forest,
    pub(crate) object: Object,
    pub(crate) side: &'f Side,
}

/// The stamps and the target of an entry, as one pass over the node finds them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) target: u64,
    pub(crate) start: Stamp,
    pub(crate) end: Stamp,
}

impl Seen {
    /// True if a retained version, or the one being made, sees the entry of a node that dies in
    /// version `death`.
    pub(crate) fn is_needed(&self, death: u64, dead: &DeadIntervals, retained: &Retained) -> bool {
        if self.start.is_none() || dead.contains(self.start) {
            return false;
        }
        let endless = self.end.is_none() || dead.contains(self.end);
        let end = if endless { u64::MAX } else { self.end.version() };
        retained.needs(self.start.version(), end.min(death))
    }
}

impl<'f> Node<'f> {
    #[inline]
    pub(crate) fn new(forest: &'f Forest, object: Object) -> Result<Node<'f>, Error> {
        match forest.sides.get(object.offset()) {
            Some(side) => Ok(Node { forest, object, side }),
            None => damaged(object.offset(), "a node's place"),
        }
    }

    pub(crate) fn header(&self) -> Result<&'f NodeHeader, Fault> {
        self.forest.region().get(self.object.offset())
    }

    #[inline]
    pub(crate) fn entry(&self, slot: usize) -> Result<&'f Entry, Fault> {
        self.forest.region().get(self.object.offset() + NODE_HEADER + slot as u64 * ENTRY_SIZE)
    }

    #[inline]
    pub(crate) fn seen(&self, slot: usize) -> Result<Seen, Fault> {
        let entry = self.entry(slot)?;
        Ok(Seen {
            start: Stamp::from_bits(entry.start.load()),
            end: Stamp::from_bits(entry.end.load()),
            target: entry.target.load(),
        })
    }

    /// Calls `flush` with the offset of each line in which one of the slots lies, once.
    #[inline]
    pub(crate) fn flush_changed(&self, mut slots: u32, flush: impl Fn(u64)) -> Result<(), Error> {
        while slots != 0 {
            let first = slots.trailing_zeros() as usize & !1;
            flush(self.forest.region().offset_of(&self.entry(first)?.head));
            slots &= !(0b11 << first);
        }
        Ok(())
    }

    /// The content of every slot, as it is between two changes by the writer.
    pub(crate) fn all_seen(&self) -> Result<Vec<Seen>, Error> {
        loop {
            let (_, sequence) = self.order()?;
            let all = (0..self.capacity()).map(|slot| self.seen(slot)).collect::<Result<_, _>>()?;
            if self.side.still(sequence) {
                return Ok(all);
            }
        }
    }

    pub(crate) fn bounds(&self) -> Result<Bounds<'f>, Error> {
        match Object::from_bits(self.header()?.bounds.load()) {
            none if none.to_bits() == 0 => Ok(Bounds::default()),
            object => Bounds::read(self.forest.region(), object),
        }
    }

    /// The version that replaced the node; `u64::MAX`: none.
    pub(crate) fn death(&self, dead: &DeadIntervals) -> Result<u64, Error> {
        let death = Stamp::from_bits(self.header()?.death.load());
        Ok(if death.is_none() || dead.contains(death) { u64::MAX } else { death.version() })
    }

    /// The version in which the node was made.
    pub(crate) fn birth(&self) -> Result<Stamp, Error> {
        Ok(Stamp::from_bits(self.header()?.birth.load()))
    }

    /// The order of the node and the sequence that it belongs to.
    #[inline(always)]
    pub(crate) fn order(&self) -> Result<(Order, u32), Error> {
        loop {
            if let Some(read) = self.side.read(self.forest.dead_epoch()) {
                return Ok(read);
            }
            self.make_order()?;
        }
    }

    /// Keeps readers out, and returns the order.
    pub(crate) fn lock(&self) -> Result<(SideGuard<'f>, Order), Error> {
        let guard = self.side.lock();
        let order = match guard.order(self.forest.dead_epoch()) {
            Some(order) => order,
            None => self.forest.with_horizon(|dead, retained| self.sort(dead, retained))?,
        };
        for slot in 0..CAPACITY_MAX {
            if order.used >> slot & 1 == 1 {
                guard.set_head(slot, self.entry(slot)?.head.load());
            } else {
                guard.free_head(slot);
            }
        }
        Ok((guard, order))
    }

    /// Makes the order anew. The node is a new one in the place of an old one.
    pub(crate) fn reset(&self) -> Result<(), Error> {
        let guard = self.side.lock();
        (0..CAPACITY_MAX).for_each(|slot| guard.free_head(slot));
        guard.set(self.forest.dead_epoch(), &self.check_shape()?);
        Ok(())
    }

    #[cold]
    fn make_order(&self) -> Result<(), Error> {
        // This is read first: versions may die meanwhile, and then the order may contain entries that are dead by now.
        let dead_epoch = self.forest.dead_epoch();
        let (guard, order) = self.lock()?;
        guard.set(dead_epoch, &order);
        Ok(())
    }

    /// Makes the order from the entries on media. Leaves out dead entries and those that no retained version can see. The
    /// caller holds the side-car's lock.
    fn sort(&self, dead: &DeadIntervals, retained: &Retained) -> Result<Order, Error> {
        let mut order = self.check_shape()?;
        let mut entries: Vec<(usize, u64, Seen)> = Vec::with_capacity(self.capacity());
        let death = self.death(dead)?;
        for slot in 0..self.capacity() {
            let seen = self.seen(slot)?;
            if seen.is_needed(death, dead, retained) {
                self.forest.pool().valid(Object::from_bits(seen.target))?;
                let head = self.entry(slot)?.head.load();
                let at = self.position_by_key(order.level, &entries, (head, &seen))?;
                entries.insert(at, (slot, head, seen));
            }
        }
        for (position, (slot, _, seen)) in entries.iter().enumerate() {
            order.insert(position, *slot);
            if !seen.end.is_none() && !dead.contains(seen.end) {
                order.end(*slot, seen.end.version());
            }
        }
        Ok(order)
    }

    /// Where an entry goes among others in the order of keys and versions: behind those that are equal. This is no library's
    /// sort: that may panic if the keys of a damaged node have no order.
    fn position_by_key(
        &self,
        level: u8,
        entries: &[(usize, u64, Seen)],
        (head, seen): (u64, &Seen),
    ) -> Result<usize, Error> {
        let (mut from, mut to) = (0, entries.len());
        while from < to {
            let middle = (from + to) / 2;
            let (_, other_head, other) = &entries[middle];
            let mut order = other_head.cmp(&head);
            if order.is_eq() {
                order = self.compare_targets(level, other.target, seen.target)?;
            }
            if order.then(other.start.version().cmp(&seen.start.version())).is_gt() {
                to = middle;
            } else {
                from = middle + 1;
            }
        }
        Ok(from)
    }

    /// An empty order with the node's level and prefix.
    pub(crate) fn check_shape(&self) -> Result<Order, Error> {
        let shape = self.header()?.shape.load();
        if (shape >> 32) as u32 != NODE_MAGIC || (shape >> 8) as u8 as usize != self.capacity() {
            return damaged(self.object.offset(), "a node of this geometry");
        }
        Ok(Order {
            level: (shape & (GUARDED - 1)) as u8,
            guarded: shape & GUARDED != 0,
            prefix_len: (shape >> 16) as u16,
            ..Order::default()
        })
    }

    /// Entries that fit into the node.
    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        self.forest.capacity
    }

    fn compare_targets(&self, level: u8, a: u64, b: u64) -> Result<Ordering, Error> {
        let [a, b] = [Object::from_bits(a), Object::from_bits(b)];
        Ok(if level == 0 {
            let (a, b) = (read_key(self.forest, a)?, read_key(self.forest, b)?);
            KeyBytes::from(a).cmp(&b.into())
        } else {
            compare_high(self.high_of(a)?, self.high_of(b)?)
        })
    }

    /// The high key of a child.
    pub(crate) fn high_of(&self, child: Object) -> Result<Option<KeyBytes<'f>>, Error> {
        Ok(Node::new(self.forest, child)?.bounds()?.high)
    }

    /// The first position whose head is at least `head`.
    #[inline]
    pub(crate) fn lower_bound(&self, head: u64) -> usize {
        self.side.count_below(head, self.capacity())
    }

    /// The head to look for in the node. If a key lacks the prefix of a guarded node, the head lies before or behind those
    /// of the keys that have it. The flag says whether an entry with that head can have the key.
    #[inline(always)]
    pub(crate) fn wanted(&self, order: &Order, key: &[u8]) -> Result<(u64, bool), Error> {
        if order.guarded
            && let Some(outside) = self.outside(key)?
        {
            return Ok((outside, false));
        }
        Ok((head(key, order.prefix_len), true))
    }

    /// The head that stands for a key without the prefix of a guarded node. `None`: the key has the prefix.
    #[inline(never)]
    fn outside(&self, key: &[u8]) -> Result<Option<u64>, Error> {
        let prefix = self.bounds()?.prefix;
        if prefix.is_prefix_of(key) {
            return Ok(None);
        }
        Ok(Some(if prefix.compare(key).is_gt() { 0 } else { UNBOUNDED_HEAD }))
    }

    /// The position of the child of an inner node that covers `key` in the view. `None`: the node has changed meanwhile;
    /// if it has not, it is damaged.
    #[inline(always)]
    pub(crate) fn child_position(
        &self,
        order: &Order,
        sequence: u32,
        key: Option<&[u8]>,
        view: View<'_>,
    ) -> Result<Option<usize>, Error> {
        let wanted = match key {
            Some(key) => self.wanted(order, key)?.0,
            None => UNBOUNDED_HEAD,
        };
        self.child_from(self.lower_bound(wanted), (order, sequence), (key, wanted), view)
    }

    /// As `child_position`, for a caller that knows the first position whose head is at least `wanted`.
    #[inline(always)]
    pub(crate) fn child_from(
        &self,
        first: usize,
        (order, sequence): (&Order, u32),
        (key, wanted): (Option<&[u8]>, u64),
        view: View<'_>,
    ) -> Result<Option<usize>, Error> {
        for position in first..order.len() {
            let slot = order.slot(position);
            if order.is_over(slot, view.version) {
                continue;
            }
            let seen = self.seen(slot)?;
            if !view.sees(seen.start, seen.end) {
                continue;
            }
            if self.side.head(slot) == wanted {
                if !self.side.still(sequence) {
                    return Ok(None);
                }
                if self.ends_below(Object::from_bits(seen.target), key)? {
                    continue;
                }
            }
            return Ok(Some(position));
        }
        Ok(None)
    }

    /// Whether the key lies above all that a child covers.
    #[inline(never)]
    fn ends_below(&self, child: Object, key: Option<&[u8]>) -> Result<bool, Error> {
        Ok(compare_high(self.high_of(child)?, key.map(KeyBytes::from)).is_lt())
    }

    /// The position and the record of the entry of `key` in a leaf, in the view. A writer also finds an entry whose value is
    /// corrupt, and can replace or end it.
    #[inline(always)]
    pub(crate) fn find(
        &self,
        order: &Order,
        sequence: u32,
        (key, print): (&[u8], u64),
        view: View<'_>,
    ) -> Result<Find<'f>, Error> {
        let (wanted, possible) = self.wanted(order, key)?;
        let first = if possible { self.lower_bound(wanted) } else { order.len() };
        for position in first..order.len() {
            let slot = order.slot(position);
            if self.side.head(slot) != wanted {
                break;
            }
            if order.is_over(slot, view.version) {
                continue;
            }
            let seen = self.seen(slot)?;
            if seen.target & FINGERPRINT_MASK != print || !view.sees(seen.start, seen.end) {
                continue;
            }
            if !self.side.still(sequence) {
                return Ok(Find::Changed);
            }
            let record = Object::from_bits(seen.target);
            let (found, value) = read_unverified(self.forest, record)?;
            if found.eq_bytes(key) {
                return Ok(Find::At { position, record, value });
            }
            // A key that is corrupt need not be absent.
            verify_once(self.forest, record)?;
        }
        Ok(if self.side.still(sequence) { Find::Absent } else { Find::Changed })
    }
}

/// The result of a search for a key in a leaf.
pub(crate) enum Find<'f> {
    /// The key is there. Its value is not verified: its reader does that.
    At { position: usize, record: Object, value: MediaBytes<'f> },
    /// The key is not there.
    Absent,
    /// A writer has changed the leaf meanwhile. The caller has to look again.
    Changed,
}

/// Compares high keys. `None` (no bound) is the greatest.
pub(crate) fn compare_high(a: Option<KeyBytes<'_>>, b: Option<KeyBytes<'_>>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => a.cmp(&b),
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
    }
}
