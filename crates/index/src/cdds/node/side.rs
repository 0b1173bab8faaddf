//! The volatile side-car of a node: the order of its entries, a lock for its writer and a sequence
//! for its readers. Made on first touch from the node's entries; never on media.

use std::array::from_fn;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use tembo_pmem::prefetch;
use tembo_pmem::thread::wait;

use crate::cdds::format::CAPACITY_MAX;
use crate::simd;

const SLOT_BITS: usize = 5;
const SLOTS_PER_WORD: usize = 12;
const WORDS: usize = 3;
const _: () = assert!(SLOTS_PER_WORD * WORDS >= CAPACITY_MAX && 1 << SLOT_BITS > CAPACITY_MAX);

/// Bits of the slots in a word of the order.
const SLOTS_MASK: u64 = (1 << (SLOT_BITS * SLOTS_PER_WORD)) - 1;
/// The order in which each slot stands at the position of its own number.
const IN_A_ROW: [u64; WORDS] = in_a_row();

/// The head of a slot that is not in the order. No head that is sought is above it.
const HEAD_FREE: u64 = u64::MAX;

/// Lines of heads. Those behind the last slot are always [`HEAD_FREE`].
const HEAD_LINES: usize = CAPACITY_MAX.div_ceil(LINE_WORDS);
const LINE_WORDS: usize = 8;

const fn in_a_row() -> [u64; WORDS] {
    let mut words = [0; WORDS];
    let mut slot = 0;
    while slot < SLOTS_PER_WORD * WORDS {
        words[slot / SLOTS_PER_WORD] |=
            (slot as u64 & ((1 << SLOT_BITS) - 1)) << (slot % SLOTS_PER_WORD * SLOT_BITS);
        slot += 1;
    }
    words
}

/// The order of a node's entries and what else its side-car knows, as a value.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Order {
    pub(crate) slots: [u64; WORDS],
    /// Bit `slot` is set if the slot is in the order.
    pub(crate) used: u32,
    /// Bit `slot` is set if the slot is in the order and its entry has an end.
    pub(crate) ended: u32,
    /// The greatest version that ended one of these entries.
    pub(crate) ended_by: u64,
    pub(crate) count: u8,
    /// Whether the node is guarded: a search in it may be for a key that lacks the prefix.
    pub(crate) guarded: bool,
    /// The node's level, 0 for a leaf.
    pub(crate) level: u8,
    /// The node's prefix length.
    pub(crate) prefix_len: u16,
}

impl Order {
    /// The order of a leaf without a prefix whose entries lie in the first `count` slots, in the order of their keys.
    pub(crate) fn of_first(count: usize) -> Order {
        let count = count.min(CAPACITY_MAX);
        let slots = from_fn(|word| {
            let here = count.saturating_sub(word * SLOTS_PER_WORD).min(SLOTS_PER_WORD);
            IN_A_ROW[word] & ((1 << (here * SLOT_BITS)) - 1)
        });
        Order { slots, used: (1 << count) - 1, count: count as u8, ..Order::default() }
    }

    /// The slot of the entry at `position`.
    #[inline]
    pub(crate) fn slot(&self, position: usize) -> usize {
        let word = self.slots[(position / SLOTS_PER_WORD).min(WORDS - 1)];
        (word >> (position % SLOTS_PER_WORD * SLOT_BITS)) as usize & ((1 << SLOT_BITS) - 1)
    }

    /// Entries in the order.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        usize::from(self.count)
    }

    /// Entries in the order that have no end.
    pub(crate) fn live(&self) -> usize {
        self.len() - self.ended.count_ones() as usize
    }

    /// Notes that the entry in `slot` ends in this version.
    pub(crate) fn end(&mut self, slot: usize, version: u64) {
        self.ended |= 1 << slot;
        self.ended_by = self.ended_by.max(version);
    }

    /// Whether the entry in `slot` has ended in `version`, as far as the side-car knows.
    #[inline]
    pub(crate) fn is_over(&self, slot: usize, version: u64) -> bool {
        self.ended >> slot & 1 == 1 && self.ended_by <= version
    }

    /// The slots in order.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        (0..self.len()).map(|position| self.slot(position))
    }

    /// The slot that the next entry will most likely take.
    pub(crate) fn next_slot(&self, capacity: usize) -> usize {
        let free = self.used.trailing_ones() as usize;
        if free < capacity { free } else { self.ended.trailing_zeros() as usize }
    }

    /// The slots whose entries have an end.
    pub(crate) fn iter_ended(&self) -> impl Iterator<Item = usize> + use<> {
        let mut left = self.ended;
        std::iter::from_fn(move || {
            let slot = left.trailing_zeros() as usize;
            left &= left.checked_sub(1)?;
            Some(slot)
        })
    }

    /// Inserts `slot`, whose entry has no end, before the entry at `position`.
    pub(crate) fn insert(&mut self, position: usize, slot: usize) {
        let mut carried = slot as u64;
        let mut shift = position % SLOTS_PER_WORD * SLOT_BITS;
        for word in &mut self.slots[position / SLOTS_PER_WORD..] {
            let (below, above) = (*word & ((1 << shift) - 1), *word >> shift);
            let last = *word >> (SLOT_BITS * (SLOTS_PER_WORD - 1));
            *word = (below | carried << shift | above << shift << SLOT_BITS) & SLOTS_MASK;
            (carried, shift) = (last, 0);
        }
        self.count += 1;
        self.used |= 1 << slot;
        self.ended &= !(1 << slot);
    }

    /// Removes the entry at `position`.
    pub(crate) fn remove(&mut self, position: usize) {
        let slot = self.slot(position);
        let first = position / SLOTS_PER_WORD;
        let mut carried = 0;
        for (index, word) in self.slots.iter_mut().enumerate().skip(first).rev() {
            let shift = if index == first { position % SLOTS_PER_WORD * SLOT_BITS } else { 0 };
            let (below, above) = (*word & ((1 << shift) - 1), *word >> shift);
            let out = above & ((1 << SLOT_BITS) - 1);
            let last = carried << (SLOT_BITS * (SLOTS_PER_WORD - 1));
            *word = below | above >> SLOT_BITS << shift | last;
            carried = out;
        }
        self.count -= 1;
        self.used &= !(1 << slot);
        self.ended &= !(1 << slot);
    }

    /// Removes the entry in `slot`, if it is in the order.
    pub(crate) fn forget(&mut self, slot: usize) {
        if let Some(position) = (0..self.len()).find(|&position| self.slot(position) == slot) {
            self.remove(position);
        }
    }
}

/// The first line of a side-car, which a search reads first.
#[derive(Default)]
#[repr(align(64))]
struct Front {
    /// Odd while a writer changes the node.
    sequence: AtomicU32,
    /// The forest's dead epoch in which the order was made; another dead epoch: not valid.
    dead_epoch: AtomicU32,
    shape: AtomicU64,
    /// `used` and `ended` of the order.
    masks: AtomicU64,
    ended_by: AtomicU64,
    slots: [AtomicU64; WORDS],
}

const _: () = assert!(size_of::<Front>() == 64);

/// A node's side-car: one cache line, and the heads of the node's entries by slot in four more.
pub(crate) struct Side {
    front: Front,
    heads: [[AtomicU64; LINE_WORDS]; HEAD_LINES],
}

impl Default for Side {
    fn default() -> Side {
        let heads = from_fn(|_| from_fn(|_| AtomicU64::new(HEAD_FREE)));
        Side { front: Front::default(), heads }
    }
}

impl Side {
    /// Asks the processor for the lines that a search of the node will read.
    #[inline]
    pub(crate) fn prefetch(&self) {
        prefetch(&self.front);
        for line in &self.heads {
            prefetch(&line[0]);
        }
    }

    /// The head of the entry in `slot`.
    #[inline]
    pub(crate) fn head(&self, slot: usize) -> u64 {
        self.heads.as_flattened().get(slot).map_or(0, |head| head.load(Ordering::Relaxed))
    }

    /// How many entries have a head below `head`, in a node that has so many slots.
    #[inline]
    pub(crate) fn count_below(&self, head: u64, capacity: usize) -> usize {
        // All heads are counted, whatever their order: a binary search has branches that nothing can predict.
        let lines = capacity.div_ceil(LINE_WORDS).min(HEAD_LINES);
        simd::count_below(&self.heads[..lines], head)
    }

    /// The order and the sequence at which it was read; `None` if it must be made in this `dead_epoch`.
    #[inline(always)]
    pub(crate) fn read(&self, dead_epoch: u32) -> Option<(Order, u32)> {
        let mut round = 0;
        loop {
            let sequence = self.front.sequence.load(Ordering::Acquire);
            if sequence & 1 == 1 {
                wait(round);
                round += 1;
                continue;
            }
            if self.front.dead_epoch.load(Ordering::Relaxed) != dead_epoch {
                return None;
            }
            let order = self.load();
            if self.still(sequence) {
                return Some((order, sequence));
            }
        }
    }

    /// True if the node has not changed since `sequence` was read: what was loaded since is sound.
    #[inline]
    pub(crate) fn still(&self, sequence: u32) -> bool {
        fence(Ordering::Acquire);
        self.front.sequence.load(Ordering::Relaxed) == sequence
    }

    /// Keeps readers out until the guard is dropped.
    pub(crate) fn lock(&self) -> SideGuard<'_> {
        let mut round = 0;
        loop {
            let sequence = self.front.sequence.load(Ordering::Relaxed);
            if sequence & 1 == 0
                && self
                    .front
                    .sequence
                    .compare_exchange_weak(
                        sequence,
                        sequence.wrapping_add(1),
                        Ordering::Acquire,
                        Ordering::Relaxed,
                    )
                    .is_ok()
            {
                fence(Ordering::Release);
                return SideGuard { side: self };
            }
            wait(round);
            round += 1;
        }
    }

    #[inline(always)]
    fn load(&self) -> Order {
        let shape = self.front.shape.load(Ordering::Relaxed);
        let masks = self.front.masks.load(Ordering::Relaxed);
        Order {
            slots: from_fn(|i| self.front.slots[i].load(Ordering::Relaxed)),
            used: masks as u32,
            ended: (masks >> 32) as u32,
            ended_by: self.front.ended_by.load(Ordering::Relaxed),
            count: shape as u8,
            level: (shape >> 16) as u8,
            guarded: shape >> 24 & 1 == 1,
            prefix_len: (shape >> 32) as u16,
        }
    }
}

/// The right to change a node and its order.
pub(crate) struct SideGuard<'s> {
    side: &'s Side,
}

impl SideGuard<'_> {
    /// The order, if it was made in this dead epoch.
    pub(crate) fn order(&self, dead_epoch: u32) -> Option<Order> {
        (self.side.front.dead_epoch.load(Ordering::Relaxed) == dead_epoch).then(|| self.side.load())
    }

    /// Sets the head of the entry in `slot`.
    pub(crate) fn set_head(&self, slot: usize, head: u64) {
        if let Some(place) = self.side.heads.as_flattened()[..CAPACITY_MAX].get(slot) {
            place.store(head, Ordering::Relaxed);
        }
    }

    /// Marks the head of a slot that is not in the order any more.
    pub(crate) fn free_head(&self, slot: usize) {
        self.set_head(slot, HEAD_FREE);
    }

    /// Replaces the order. Slots that are not in it have been freed.
    pub(crate) fn set(&self, dead_epoch: u32, order: &Order) {
        for (word, value) in self.side.front.slots.iter().zip(order.slots) {
            word.store(value, Ordering::Relaxed);
        }
        let shape = u64::from(order.count)
            | u64::from(order.level) << 16
            | u64::from(order.guarded) << 24
            | u64::from(order.prefix_len) << 32;
        let masks = u64::from(order.used) | u64::from(order.ended) << 32;
        self.side.front.shape.store(shape, Ordering::Relaxed);
        self.side.front.masks.store(masks, Ordering::Relaxed);
        self.side.front.ended_by.store(order.ended_by, Ordering::Relaxed);
        self.side.front.dead_epoch.store(dead_epoch, Ordering::Relaxed);
    }
}

impl Drop for SideGuard<'_> {
    fn drop(&mut self) {
        let sequence = self.side.front.sequence.load(Ordering::Relaxed);
        self.side.front.sequence.store(sequence.wrapping_add(1), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_a_sequence_of_slots() {
        let mut order = Order::default();
        let mut model: Vec<usize> = Vec::new();
        let same = |order: &Order, model: &[usize]| {
            assert_eq!(order.iter().collect::<Vec<_>>(), model);
            assert_eq!(order.used, model.iter().fold(0, |mask, slot| mask | 1 << slot));
        };
        for slot in 0..CAPACITY_MAX {
            let position = slot * 7 % (model.len() + 1);
            order.insert(position, slot);
            model.insert(position, slot);
            same(&order, &model);
        }
        order.ended = 1 | 1 << 7 | 1 << (CAPACITY_MAX - 1);
        assert_eq!(order.iter_ended().collect::<Vec<_>>(), [0, 7, CAPACITY_MAX - 1]);
        assert_eq!(order.live(), CAPACITY_MAX - 3);
        while !model.is_empty() {
            let position = model.len() * 5 % model.len().max(2) % model.len();
            order.remove(position);
            model.remove(position);
            same(&order, &model);
        }
        assert_eq!((order.ended, order.live()), (0, 0));
    }

    #[test]
    fn the_first_slots_are_in_order_as_if_inserted_one_after_another() {
        let mut order = Order::default();
        for count in 0..=CAPACITY_MAX {
            let first = Order::of_first(count);
            assert_eq!(first.iter().collect::<Vec<_>>(), (0..count).collect::<Vec<_>>());
            assert_eq!(
                (first.slots, first.used, first.count),
                (order.slots, order.used, order.count)
            );
            assert_eq!((first.ended, first.ended_by), (0, 0));
            if count < CAPACITY_MAX {
                order.insert(count, count);
            }
        }
    }

    #[test]
    fn a_lower_bound_does_not_depend_on_the_slots() {
        let side = Side::default();
        let guard = side.lock();
        (0..CAPACITY_MAX).for_each(|slot| guard.free_head(slot));
        for (slot, head) in [(3, 30), (29, 10), (0, u64::MAX), (11, 20), (12, 20)] {
            guard.set_head(slot, head);
        }
        let below =
            [0, 10, 11, 20, 21, 31, u64::MAX].map(|head| side.count_below(head, CAPACITY_MAX));
        assert_eq!(below, [0, 0, 1, 1, 3, 4, 4]);
    }
}
