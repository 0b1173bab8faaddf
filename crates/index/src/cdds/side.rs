//! The volatile side-car of a node: the order of its entries, a lock for its writer and a sequence
//! for its readers. Made on first touch from the node's entries; never on media.

use std::array::from_fn;
use std::hint::spin_loop;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use tembo_pmem::prefetch;

use super::format::CAPACITY_MAX;

const SLOT_BITS: usize = 5;
const SLOTS_PER_WORD: usize = 12;
const WORDS: usize = 3;
const _: () = assert!(SLOTS_PER_WORD * WORDS >= CAPACITY_MAX && 1 << SLOT_BITS > CAPACITY_MAX);

/// What a node's side-car knows, as a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) slots: [u64; WORDS],
    /// Entries in the order.
    pub(crate) count: u8,
    /// Entries of these that have no end.
    pub(crate) live: u8,
    /// Whether keys that lack the prefix may be looked for.
    pub(crate) guarded: bool,
    /// The node's level, 0 for a leaf.
    pub(crate) level: u8,
    /// The node's prefix length.
    pub(crate) prefix_len: u16,
}

impl Order {
    /// The slot of the entry at `position`.
    #[inline]
    pub(crate) fn slot(&self, position: usize) -> usize {
        let word = self.slots[(position / SLOTS_PER_WORD).min(WORDS - 1)];
        (word >> (position % SLOTS_PER_WORD * SLOT_BITS)) as usize & ((1 << SLOT_BITS) - 1)
    }

    fn set(&mut self, position: usize, slot: usize) {
        let shift = position % SLOTS_PER_WORD * SLOT_BITS;
        let word = &mut self.slots[position / SLOTS_PER_WORD];
        *word = *word & !(((1 << SLOT_BITS) - 1) << shift) | (slot as u64) << shift;
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        usize::from(self.count)
    }

    /// The slots in order.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        (0..self.len()).map(|position| self.slot(position))
    }

    /// Inserts `slot` before the entry at `position`.
    pub(crate) fn insert(&mut self, position: usize, slot: usize) {
        for after in (position..self.len()).rev() {
            self.set(after + 1, self.slot(after));
        }
        self.set(position, slot);
        self.count += 1;
    }

    /// Removes the entry at `position`.
    pub(crate) fn remove(&mut self, position: usize) {
        for after in position + 1..self.len() {
            self.set(after - 1, self.slot(after));
        }
        self.count -= 1;
    }

    /// Removes the entry in `slot`, if it is in the order.
    pub(crate) fn forget(&mut self, slot: usize) {
        if let Some(position) = (0..self.len()).find(|&position| self.slot(position) == slot) {
            self.remove(position);
        }
    }

    /// Bit `slot` is set if the slot is in the order.
    pub(crate) fn used(&self) -> u32 {
        self.iter().fold(0, |mask, slot| mask | 1 << slot)
    }
}

/// One cache line, and the heads of the node's entries by slot in four more.
#[repr(align(64))]
pub(crate) struct Side {
    /// Odd while a writer changes the node.
    sequence: AtomicU32,
    /// The forest's era in which `order` was made; another era: not valid.
    era: AtomicU32,
    shape: AtomicU64,
    order: [AtomicU64; WORDS],
    heads: [AtomicU64; CAPACITY_MAX],
}

impl Side {
    fn new() -> Side {
        Side {
            sequence: AtomicU32::new(0),
            era: AtomicU32::new(0),
            shape: AtomicU64::new(0),
            order: from_fn(|_| AtomicU64::new(0)),
            heads: from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Says that the node will be searched soon.
    #[inline]
    pub(crate) fn prefetch(&self) {
        prefetch(&self.sequence);
        for line in self.heads.chunks(8) {
            prefetch(&line[0]);
        }
    }

    /// The head of the entry in `slot`.
    #[inline]
    pub(crate) fn head(&self, slot: usize) -> u64 {
        self.heads.get(slot).map_or(0, |head| head.load(Ordering::Relaxed))
    }

    /// The order and the sequence at which it was read; `None` if it must be made in this `era`.
    #[inline]
    pub(crate) fn read(&self, era: u32) -> Option<(Order, u32)> {
        loop {
            let sequence = self.sequence.load(Ordering::Acquire);
            if sequence & 1 == 1 {
                spin_loop();
                continue;
            }
            if self.era.load(Ordering::Relaxed) != era {
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
        self.sequence.load(Ordering::Relaxed) == sequence
    }

    /// Keeps readers out until the guard is dropped.
    pub(crate) fn lock(&self) -> SideGuard<'_> {
        loop {
            let sequence = self.sequence.load(Ordering::Relaxed);
            if sequence & 1 == 0
                && self
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
            spin_loop();
        }
    }

    fn load(&self) -> Order {
        let shape = self.shape.load(Ordering::Relaxed);
        Order {
            slots: from_fn(|i| self.order[i].load(Ordering::Relaxed)),
            count: shape as u8,
            live: (shape >> 8) as u8,
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
    /// The order, if it was made in this era.
    pub(crate) fn order(&self, era: u32) -> Option<Order> {
        (self.side.era.load(Ordering::Relaxed) == era).then(|| self.side.load())
    }

    /// Sets the head of the entry in `slot`.
    pub(crate) fn set_head(&self, slot: usize, head: u64) {
        if let Some(place) = self.side.heads.get(slot) {
            place.store(head, Ordering::Relaxed);
        }
    }

    /// Replaces the order.
    pub(crate) fn set(&self, era: u32, order: &Order) {
        for (word, value) in self.side.order.iter().zip(order.slots) {
            word.store(value, Ordering::Relaxed);
        }
        let shape = u64::from(order.count)
            | u64::from(order.live) << 8
            | u64::from(order.level) << 16
            | u64::from(order.guarded) << 24
            | u64::from(order.prefix_len) << 32;
        self.side.shape.store(shape, Ordering::Relaxed);
        self.side.era.store(era, Ordering::Relaxed);
    }
}

impl Drop for SideGuard<'_> {
    fn drop(&mut self) {
        let sequence = self.side.sequence.load(Ordering::Relaxed);
        self.side.sequence.store(sequence.wrapping_add(1), Ordering::Release);
    }
}

/// The side-cars of all nodes of a pool, by offset; made a chunk of nodes at a time, on first touch.
pub(crate) struct SideTable {
    /// Nodes lie at multiples of two to this power.
    granule_bits: u32,
    directory: Box<[OnceLock<Directory>]>,
}

type Directory = Box<[OnceLock<Box<[Side]>>]>;

/// Side-cars made at once: those of 64 KiB of full-size nodes.
const CHUNK_SIDES: u64 = 64;
/// Chunks in a directory.
const DIRECTORY_CHUNKS: u64 = 1024;

impl SideTable {
    /// For nodes at multiples of two to the power of `granule_bits`, below `size_max` bytes.
    pub(crate) fn new(granule_bits: u32, size_max: u64) -> SideTable {
        let directories = size_max.div_ceil((CHUNK_SIDES * DIRECTORY_CHUNKS) << granule_bits);
        SideTable { granule_bits, directory: (0..directories).map(|_| OnceLock::new()).collect() }
    }

    /// The side-car of the node at `offset`; `None` if no node can lie there.
    #[inline]
    pub(crate) fn get(&self, offset: u64) -> Option<&Side> {
        let index = offset >> self.granule_bits;
        let chunk = index / CHUNK_SIDES;
        let directory = self
            .directory
            .get((chunk / DIRECTORY_CHUNKS) as usize)?
            .get_or_init(|| (0..DIRECTORY_CHUNKS).map(|_| OnceLock::new()).collect());
        let sides = directory
            .get((chunk % DIRECTORY_CHUNKS) as usize)?
            .get_or_init(|| (0..CHUNK_SIDES).map(|_| Side::new()).collect());
        sides.get((index % CHUNK_SIDES) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_a_sequence_of_slots() {
        let mut order = Order::default();
        let mut model: Vec<usize> = Vec::new();
        for slot in 0..CAPACITY_MAX {
            let position = slot * 7 % (model.len() + 1);
            order.insert(position, slot);
            model.insert(position, slot);
            assert_eq!(order.iter().collect::<Vec<_>>(), model);
        }
        assert_eq!(order.used(), (1 << CAPACITY_MAX) - 1);
        while !model.is_empty() {
            let position = model.len() * 5 % model.len().max(2) % model.len();
            order.remove(position);
            model.remove(position);
            assert_eq!(order.iter().collect::<Vec<_>>(), model);
        }
    }
}
