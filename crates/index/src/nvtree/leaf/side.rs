//! The volatile side-car of a leaf: a lock for its writers, a sequence for its readers, and what
//! finds a key without looking at all of the leaf. Made on first touch; never on media.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use tembo_pmem::prefetch;
use tembo_pmem::thread::wait;
use zerocopy::FromZeros;

use super::order::Order;
use super::prints::{Prints, STALE, WORDS};
use crate::nvtree::format::SLOTS_MAX;
use crate::simd::{Bytes48, RANKED};

/// The sequence's own bits; the dead epoch is above them.
const SEQUENCE_BITS: u32 = 32;
const LOCKED: u64 = 1;
/// In the last word of the prints: see [`Traits`].
const TRAITS_SHIFT: u32 = 40;
/// In the traits: see [`Traits::shared`].
const SHARED_SHIFT: u32 = 19;
/// The last word of the order: the sequence below, the rest of the order above it, and whether there ever was one.
const ORDER_MADE: u64 = 1 << 63;
const ORDER_REST_SHIFT: u32 = 32;
const _: () = assert!(Order::REST_BITS < 63 - ORDER_REST_SHIFT);
const _: () = assert!(SLOTS_MAX <= 45 && WORDS == 6 && RANKED == 8 * WORDS);

/// Sequence and dead epoch at which something was read. One that has passed never comes back: the thread that has found in
/// between that it is not, and has left something out for that, finds it out in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment(u64);

impl Moment {
    /// Different for any two moments of a leaf.
    #[inline]
    pub(crate) fn to_bits(self) -> u64 {
        self.0
    }
}

/// What a leaf is like: bits that change only with its side-car.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Traits {
    /// Length of the prefix.
    pub(crate) prefix_len: u16,
    /// Whether a key that belongs here may lack the prefix.
    pub(crate) guarded: bool,
    /// Which base new elements are counted from.
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

/// Two cache lines a leaf: what a search needs in the first.
#[derive(FromZeros)]
#[repr(align(128))]
pub(crate) struct Side {
    /// The dead epoch in which it was made above a sequence that is odd while a writer changes the leaf.
    moment: AtomicU64,
    /// No element is of a later version.
    newest: AtomicU64,
    /// Fingerprints by slot, and the traits in what the slots leave.
    prints: [AtomicU64; WORDS],
    /// The places of the newest elements in the order of their keys, and the sequence at which that is so: the thread that
    /// changes the leaf need not touch it.
    order: [AtomicU64; WORDS + 1],
    /// The base of new elements.
    base: AtomicU64,
}

impl Side {
    /// Says that it will be looked at soon.
    #[inline]
    pub(crate) fn prefetch(&self) {
        self.prefetch_first();
        self.prefetch_rest();
    }

    /// Says that what every search needs will be looked at soon.
    #[inline]
    pub(crate) fn prefetch_first(&self) {
        prefetch(&self.moment);
    }

    /// Says that what only scans and writers need will be looked at soon.
    #[inline]
    pub(crate) fn prefetch_rest(&self) {
        prefetch(&self.order[0]);
    }

    /// Stores to its memory without changing it.
    pub(crate) fn touch(&self) {
        // Succeeds or not: the processor stores in any case.
        let _ = self.moment.compare_exchange(0, 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// When what is read next is read; `None` if it must first be made in this `dead_epoch`.
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

    /// As `begin`, also `None` while a writer is at it.
    #[inline]
    pub(crate) fn begin_now(&self, dead_epoch: u32) -> Option<Moment> {
        let moment = self.moment.load(Ordering::Acquire);
        (moment >> SEQUENCE_BITS == u64::from(dead_epoch) && moment & LOCKED == 0)
            .then_some(Moment(moment))
    }

    /// True if nothing has changed since: what was loaded since is sound.
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

    /// The fingerprints, and what the leaf is like.
    #[inline]
    pub(crate) fn prints(&self) -> (Prints, Traits) {
        let words = std::array::from_fn(|at| self.prints[at].load(Ordering::Relaxed));
        (Prints(words), Traits::from_bits(words[WORDS - 1] >> TRAITS_SHIFT))
    }

    /// What the leaf is like.
    #[inline]
    pub(crate) fn traits(&self) -> Traits {
        Traits::from_bits(self.prints[WORDS - 1].load(Ordering::Relaxed) >> TRAITS_SHIFT)
    }

    /// As `prints`, for a search.
    #[inline]
    pub(crate) fn bytes(&self) -> (Bytes48, Traits) {
        let last = self.prints[WORDS - 1].load(Ordering::Relaxed);
        (Bytes48::load(&self.prints), Traits::from_bits(last >> TRAITS_SHIFT))
    }

    /// The newest elements in the order of their keys at that moment, if something has made it.
    #[inline]
    pub(crate) fn order(&self, moment: Moment) -> Option<Order> {
        let tail = self.order[WORDS].load(Ordering::Acquire);
        (tail & ORDER_MADE != 0 && tail as u32 == moment.0 as u32).then(|| {
            let words = std::array::from_fn(|at| self.order[at].load(Ordering::Relaxed));
            Order::from_words(words, (tail & !ORDER_MADE) >> ORDER_REST_SHIFT)
        })
    }

    /// Keeps others out, if nothing has changed since.
    #[inline]
    pub(crate) fn lock_at(&self, moment: Moment) -> Option<Guard<'_>> {
        self.moment
            .compare_exchange(moment.0, moment.0 | LOCKED, Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        fence(Ordering::Release);
        Some(Guard { side: self })
    }

    /// Keeps others out.
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
    }

    /// Replaces a fingerprint.
    #[inline]
    pub(crate) fn set_print(&self, slot: usize, print: u8) {
        let Some(word) = self.side.prints.get(slot / 8) else { return };
        let shift = slot % 8 * 8;
        let rest = word.load(Ordering::Relaxed) & !(0xff << shift);
        word.store(rest | u64::from(print) << shift, Ordering::Relaxed);
    }

    /// Notes an element of that version in a slot, with the fingerprint, which ends what is in `old`.
    #[inline(always)]
    pub(crate) fn note(&self, old: Option<usize>, (slot, print): (usize, u8), version: u64) {
        if let Some(old) = old {
            self.set_print(old, STALE);
        }
        self.set_print(slot, print);
        self.set_newest(version);
    }

    /// Says that a removal shares the record of what it ends.
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

    /// Says in which order the keys are, and lets go; the moment from which on that holds.
    pub(crate) fn set_order(self, order: &Order) -> Moment {
        let (words, rest) = order.to_words();
        for (word, places) in self.side.order.iter().zip(words) {
            word.store(places, Ordering::Relaxed);
        }
        let next = self.next();
        let tail = ORDER_MADE | rest << ORDER_REST_SHIFT | u64::from(next.0 as u32);
        // A reader that finds the sequence finds the places: they are of no other sequence.
        self.side.order[WORDS].store(tail, Ordering::Release);
        next
    }

    /// Lets go; the moment from which on the leaf is as it is.
    #[inline]
    pub(crate) fn unlock(self) -> Moment {
        self.next()
    }

    /// When the lock is given back.
    #[inline]
    fn next(&self) -> Moment {
        let moment = self.side.moment.load(Ordering::Relaxed);
        let sequence = (moment as u32).wrapping_add(1);
        Moment(moment >> SEQUENCE_BITS << SEQUENCE_BITS | u64::from(sequence))
    }

    /// Lets go of a leaf that turned out to be damaged, so that its reader can say of this moment that it
    /// is. The one way in which a moment comes back: of such a leaf nothing is promised anything.
    pub(crate) fn unchanged(self) {
        let moment = self.side.moment.load(Ordering::Relaxed);
        self.side.moment.store(moment & !LOCKED, Ordering::Release);
        std::mem::forget(self);
    }

    /// It is to be made anew.
    pub(crate) fn forget(&self) {
        self.made(0, 0);
    }

    /// It is valid in this dead epoch: to be said last.
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
            // From here on sequences come again.
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
        // The last even one.
        side.moment.store(u64::from(u32::MAX - 1), Ordering::Relaxed);
        (0..2).for_each(|_| drop(side.lock()));
        assert_eq!(side.begin(0), Some(moment));
        assert_eq!(side.order(moment), None);
    }
}
