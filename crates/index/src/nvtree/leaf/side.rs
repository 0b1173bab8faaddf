//! The volatile side-car of a leaf: a lock for its writers, a sequence for its readers, and fingerprints, by which a search
//! finds a key without looking at all of the leaf. It is made on first touch, and is never on media.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use tembo_pmem::prefetch;
use tembo_pmem::thread::wait;
use zerocopy::FromZeros;

use super::order::Order;
use super::prints::{Prints, STALE, WORDS};
use crate::nvtree::format::SLOTS_MAX;
use crate::simd::{Bytes48, RANKED};

/// Bits of the sequence in a moment. The dead epoch stands above them.
const SEQUENCE_BITS: u32 = 32;
const LOCKED: u64 = 1;
/// Where the [`Traits`] begin in the last word of the prints.
const TRAITS_SHIFT: u32 = 40;
/// The bit of [`Traits::shared`] in the traits.
const SHARED_SHIFT: u32 = 19;
/// Bit of the last word of the order: an order was made. Below it stand the rest of the order and the sequence. Without it the
/// word is a set of slots: see [`Side::unneeded`].
const ORDER_MADE: u64 = 1 << 63;
const ORDER_REST_SHIFT: u32 = 32;
const _: () = assert!(Order::REST_BITS < 63 - ORDER_REST_SHIFT);
const _: () = assert!(SLOTS_MAX <= 45 && WORDS == 6 && RANKED == 8 * WORDS);

/// A moment of a leaf: the sequence and the dead epoch at which a thread has read something. A moment that has passed never
/// comes back. So a thread that reads in several steps and asks at the end whether the moment still is finds out about any
/// change in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment(u64);

impl Moment {
    /// A number that differs for any two moments of a leaf.
    #[inline]
    pub(crate) fn to_bits(self) -> u64 {
        self.0
    }
}

/// The traits of a leaf: bits that change only with its side-car.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Traits {
    /// Length of the prefix.
    pub(crate) prefix_len: u16,
    /// Whether a key that belongs to the leaf may lack the prefix.
    pub(crate) guarded: bool,
    /// The number of the base from which new elements count.
    pub(crate) base: usize,
    /// Whether there is a history.
    pub(crate) older: bool,
    /// Whether a removal may share the record of what it ended. While none does, and there is no history, each record has
    /// one slot.
    pub(crate) shared: bool,
}

impl Traits {
    #[inline]
    fn to_bits(self) -> u64 {
        u64::from(self.prefix_len)
            | u64::from(self.guarded) << 16
            | (self.base as u64) << 17
            | u64::from(self.older) << 18
            | u64::from(self.shared) << SHARED_SHIFT
    }

    #[inline]
    fn from_bits(bits: u64) -> Traits {
        Traits {
            prefix_len: bits as u16,
            guarded: bits >> 16 & 1 == 1,
            base: (bits >> 17 & 1) as usize,
            older: bits >> 18 & 1 == 1,
            shared: bits >> SHARED_SHIFT & 1 == 1,
        }
    }
}

/// A side-car: two cache lines for each leaf. The first has what a search needs.
#[derive(FromZeros)]
#[repr(align(128))]
pub(crate) struct Side {
    /// The dead epoch in which the side-car was made, and below it the sequence, which is odd while a writer changes the
    /// leaf.
    moment: AtomicU64,
    /// The newest version in the leaf: no element is of a later one.
    newest: AtomicU64,
    /// Fingerprints by slot, and the traits in the bits that are left.
    prints: [AtomicU64; WORDS],
    /// The places of the newest elements in the order of their keys, and the sequence for which they hold. So a thread that
    /// changes the leaf need not touch them. A group that changes the leaf puts the unneeded slots in place of the sequence.
    order: [AtomicU64; WORDS + 1],
    /// The base of new elements.
    base: AtomicU64,
}

impl Side {
    /// Asks the processor for the side-car.
    #[inline]
    pub(crate) fn prefetch(&self) {
        self.prefetch_first();
        self.prefetch_rest();
    }

    /// Asks the processor for the line that every search needs.
    #[inline]
    pub(crate) fn prefetch_first(&self) {
        prefetch(&self.moment);
    }

    /// Asks the processor for the line that only scans and writers need.
    #[inline]
    pub(crate) fn prefetch_rest(&self) {
        prefetch(&self.order[0]);
    }

    /// Stores to the side-car's memory without changing it.
    pub(crate) fn touch(&self) {
        // The processor stores whether the exchange succeeds or not.
        let _ = self.moment.compare_exchange(0, 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The moment at which reading begins. `None`: the side-car must first be made in this `dead_epoch`.
    #[inline]
    pub(crate) fn begin(&self, dead_epoch: u32) -> Option<Moment> {
        let mut round = 0;
        loop {
            let moment = self.moment.load(Ordering::Acquire);
            if moment & LOCKED == 0 {
                return ((moment >> SEQUENCE_BITS) as u32 == dead_epoch).then_some(Moment(moment));
            }
            wait(round);
            round += 1;
        }
    }

    /// As `begin`; also `None` while a writer changes the leaf.
    #[inline]
    pub(crate) fn begin_now(&self, dead_epoch: u32) -> Option<Moment> {
        let moment = self.moment.load(Ordering::Acquire);
        (moment >> SEQUENCE_BITS == u64::from(dead_epoch) && moment & LOCKED == 0)
            .then_some(Moment(moment))
    }

    /// Whether the leaf has not changed since that moment, so that everything loaded since is sound.
    #[inline]
    pub(crate) fn still(&self, moment: Moment) -> bool {
        fence(Ordering::Acquire);
        self.moment.load(Ordering::Relaxed) == moment.0
    }

    #[inline]
    pub(crate) fn newest(&self) -> u64 {
        self.newest.load(Ordering::Relaxed)
    }

    /// The base of new elements.
    #[inline]
    pub(crate) fn base(&self) -> u64 {
        self.base.load(Ordering::Relaxed)
    }

    /// The fingerprints and the traits.
    #[inline]
    pub(crate) fn prints(&self) -> (Prints, Traits) {
        let words = std::array::from_fn(|at| self.prints[at].load(Ordering::Relaxed));
        (Prints(words), Traits::from_bits(words[WORDS - 1] >> TRAITS_SHIFT))
    }

    /// The traits of the leaf.
    #[inline]
    pub(crate) fn traits(&self) -> Traits {
        Traits::from_bits(self.prints[WORDS - 1].load(Ordering::Relaxed) >> TRAITS_SHIFT)
    }

    /// The fingerprints as bytes, for a search.
    #[inline]
    pub(crate) fn bytes(&self) -> (Bytes48, Traits) {
        let last = self.prints[WORDS - 1].load(Ordering::Relaxed);
        (Bytes48::load(&self.prints), Traits::from_bits(last >> TRAITS_SHIFT))
    }

    /// The order of the newest elements at that moment, if some thread has made it.
    #[inline]
    pub(crate) fn order(&self, moment: Moment) -> Option<Order> {
        let tail = self.order[WORDS].load(Ordering::Acquire);
        (tail & ORDER_MADE != 0 && tail as u32 == moment.0 as u32).then(|| {
            let words = std::array::from_fn(|at| self.order[at].load(Ordering::Relaxed));
            Order::from_words(words, (tail & !ORDER_MADE) >> ORDER_REST_SHIFT)
        })
    }

    /// Slots that are free, or whose elements were ended and are not needed by any version that can be read: those that a
    /// group has found so. What nothing needs is never needed again, so they stay so until they are used. There may be more.
    #[inline]
    pub(crate) fn unneeded(&self) -> u64 {
        match self.order[WORDS].load(Ordering::Relaxed) {
            tail if tail & ORDER_MADE == 0 => tail,
            _ => 0,
        }
    }

    /// Locks the leaf, if it has not changed since that moment.
    #[inline]
    pub(crate) fn lock_at(&self, moment: Moment) -> Option<Guard<'_>> {
        self.moment
            .compare_exchange(moment.0, moment.0 | LOCKED, Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        fence(Ordering::Release);
        Some(Guard { side: self })
    }

    /// Locks the leaf.
    pub(crate) fn lock(&self) -> Guard<'_> {
        let mut round = 0;
        loop {
            let moment = self.moment.load(Ordering::Relaxed);
            if moment & LOCKED == 0
                && let Some(guard) = self.lock_at(Moment(moment))
            {
                return guard;
            }
            wait(round);
            round += 1;
        }
    }
}

/// The right to change a leaf and its side-car.
pub(crate) struct Guard<'s> {
    side: &'s Side,
}

impl Guard<'_> {
    /// Whether the side-car was made in this dead epoch.
    pub(crate) fn is_made(&self, dead_epoch: u32) -> bool {
        (self.side.moment.load(Ordering::Relaxed) >> SEQUENCE_BITS) as u32 == dead_epoch
    }

    pub(crate) fn prints(&self) -> (Prints, Traits) {
        self.side.prints()
    }

    /// The fingerprint of a slot.
    #[inline]
    pub(crate) fn print(&self, slot: usize) -> u8 {
        let word = self.side.prints.get(slot / 8).map(|word| word.load(Ordering::Relaxed));
        (word.unwrap_or(0) >> (slot % 8 * 8)) as u8
    }

    /// Replaces the fingerprints.
    #[inline]
    pub(crate) fn set_prints(&self, prints: &Prints, traits: Traits) {
        for (at, word) in self.side.prints.iter().enumerate() {
            let tail = if at == WORDS - 1 { traits.to_bits() << TRAITS_SHIFT } else { 0 };
            word.store(prints.word(at) | tail, Ordering::Relaxed);
        }
        self.note_unneeded(0);
    }

    /// Replaces a fingerprint.
    #[inline]
    pub(crate) fn set_print(&self, slot: usize, print: u8) {
        let Some(word) = self.side.prints.get(slot / 8) else { return };
        let shift = slot % 8 * 8;
        let rest = word.load(Ordering::Relaxed) & !(0xff << shift);
        word.store(rest | u64::from(print) << shift, Ordering::Relaxed);
    }

    /// Notes a new element of that version, with its slot and fingerprint. It ends the element in `old`.
    #[inline(always)]
    pub(crate) fn note(&self, old: Option<usize>, (slot, print): (usize, u8), version: u64) {
        if let Some(old) = old {
            self.set_print(old, STALE);
        }
        self.set_print(slot, print);
        self.set_newest(version);
        let tail = self.side.order[WORDS].load(Ordering::Relaxed);
        // A set of slots that is not empty: neither an order nor zero.
        if tail as i64 > 0 {
            self.note_unneeded(tail & !(1 << slot));
        }
    }

    /// Notes which slots are unneeded: see [`Side::unneeded`]. The leaf has changed, so there is no order to keep.
    #[inline]
    pub(crate) fn note_unneeded(&self, slots: u64) {
        self.side.order[WORDS].store(slots, Ordering::Relaxed);
    }

    /// Notes that a removal shares the record of the element that it ends.
    #[inline]
    pub(crate) fn note_shared(&self) {
        let word = &self.side.prints[WORDS - 1];
        let bits = word.load(Ordering::Relaxed) | 1 << (TRAITS_SHIFT + SHARED_SHIFT);
        word.store(bits, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn set_newest(&self, version: u64) {
        if version > self.side.newest() {
            self.side.newest.store(version, Ordering::Relaxed);
        }
    }

    pub(crate) fn set_base(&self, base: u64) {
        self.side.base.store(base, Ordering::Relaxed);
    }

    /// Notes the order of the keys, and unlocks. Returns the moment for which the order holds.
    pub(crate) fn set_order(self, order: &Order) -> Moment {
        let (words, rest) = order.to_words();
        for (word, places) in self.side.order.iter().zip(words) {
            word.store(places, Ordering::Relaxed);
        }
        let next = self.next();
        let tail = ORDER_MADE | rest << ORDER_REST_SHIFT | u64::from(next.0 as u32);
        // A reader that finds this sequence also finds these places.
        self.side.order[WORDS].store(tail, Ordering::Release);
        next
    }

    /// Unlocks the leaf. Returns the moment that begins.
    #[inline]
    pub(crate) fn unlock(self) -> Moment {
        self.next()
    }

    /// The moment that begins when the lock is released.
    #[inline]
    fn next(&self) -> Moment {
        let moment = self.side.moment.load(Ordering::Relaxed);
        let sequence = (moment as u32).wrapping_add(1);
        Moment(moment >> SEQUENCE_BITS << SEQUENCE_BITS | u64::from(sequence))
    }

    /// Unlocks a leaf that turned out to be damaged, with the sequence that it had, so that its reader can report the damage
    /// for that moment. Only here a moment comes back; that does no harm, since a damaged leaf gives no guarantees.
    pub(crate) fn unchanged(self) {
        let moment = self.side.moment.load(Ordering::Relaxed);
        self.side.moment.store(moment & !LOCKED, Ordering::Release);
        std::mem::forget(self);
    }

    /// Marks the side-car as one that has to be made anew.
    pub(crate) fn forget(&self) {
        self.made(0, 0);
    }

    /// Marks the side-car as made in this dead epoch. The caller does this last.
    pub(crate) fn made(&self, dead_epoch: u32, newest: u64) {
        self.side.newest.store(newest, Ordering::Relaxed);
        let sequence = self.side.moment.load(Ordering::Relaxed) as u32;
        let moment = u64::from(dead_epoch) << SEQUENCE_BITS | u64::from(sequence);
        self.side.moment.store(moment, Ordering::Relaxed);
    }
}

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        let Moment(next) = self.next();
        if next as u32 == 0 {
            // From here on sequences repeat, so the order is forgotten.
            self.side.order[WORDS].store(0, Ordering::Relaxed);
        }
        self.side.moment.store(next, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(slots: &[usize]) -> Order {
        Order::of(slots.iter().copied())
    }

    #[test]
    fn an_order_is_valid_at_its_moment_and_at_no_other() {
        let side = Side::new_zeroed();
        let now = || side.begin(0).unwrap();
        assert_eq!(side.order(now()), None);
        let before = side.lock_at(now()).unwrap().set_order(&order(&[2, 0, 44]));
        assert_eq!(now(), before);
        assert_eq!(side.order(now()), Some(order(&[2, 0, 44])));
        side.lock().note(Some(2), (3, 77), 9);
        assert_eq!((side.order(now()), side.newest()), (None, 9));
        side.lock().set_order(&order(&[3, 0]));
        assert_eq!((side.order(now()), side.order(before)), (Some(order(&[3, 0])), None));
    }

    #[test]
    fn no_order_comes_back_when_the_sequence_does() {
        let side = Side::new_zeroed();
        let moment = side.lock().set_order(&order(&[1]));
        assert!(side.order(moment).is_some());
        // The last even sequence.
        side.moment.store(u64::from(u32::MAX - 1), Ordering::Relaxed);
        (0..2).for_each(|_| drop(side.lock()));
        assert_eq!(side.begin(0), Some(moment));
        assert_eq!(side.order(moment), None);
    }
}
