//! The visible version: every version up to it is fenced.
//!
//! Versions are drawn in one order and fenced in another. A version is *in flight* from before it is drawn
//! until it is fenced ([`Ticket`](tembo_index::Ticket)), and each [write slot](crate::write) has a word below which
//! its own are not. Up to the least of these words and of the last version drawn everything is fenced: so far
//! everything has *landed*. A thread that has made a change waits until its version has landed: for changes that
//! drew before it and have not fenced yet, as long as a fence takes, and never for later ones. Then it writes its
//! version into another word of its slot, and may report its change. The greatest of these words is the visible
//! version: what was reported is in every snapshot that begins afterwards, and it never
//! goes back, for no word does. A thread that finds nothing to remove has drawn no version, and waits for the last
//! one drawn: what it has read is of that version or before.
//!
//! There is no word that all threads write, on purpose. Behind a fence it would take an atomic exchange, which waits
//! for the flushes; so the processor looks for the next change's leaf while the fence of the last one lasts.
//!
//! The writer, with the write slots closed, and a thread that is alone in its slot have no other thread beside
//! them: what they have fenced is visible by a mere store.

use std::sync::atomic::{AtomicU64, Ordering};

use tembo_index::AT_REST;
use tembo_pmem::thread::wait;

/// Write slots that there can be: one bit of a word each.
pub(crate) const WRITE_SLOT_COUNT: usize = 64;

/// How far everything is fenced, by each writer that has seen it. Away from the lines of others.
#[repr(align(128))]
pub(crate) struct Visible {
    /// By the writer, and by a thread that is alone.
    stored: AtomicU64,
    /// Slots that are used beside others, a bit each: of the rest nothing counts.
    joined: AtomicU64,
    slots: Box<[Flight]>,
}

/// Of a write slot, written by the thread that is in it; away from the lines of others.
#[repr(align(128))]
struct Flight {
    /// Its versions in flight are above it.
    below: AtomicU64,
    /// So far it has seen all land.
    landed: AtomicU64,
}

/// The bits of a set.
pub(crate) fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (set != 0).then(|| set.trailing_zeros() as usize);
        set &= set.wrapping_sub(1);
        bit
    })
}

impl Visible {
    pub(crate) fn new(version: u64) -> Visible {
        let flight = || Flight { below: AtomicU64::new(AT_REST), landed: AtomicU64::new(0) };
        let slots = (0..WRITE_SLOT_COUNT).map(|_| flight()).collect();
        Visible { stored: AtomicU64::new(version), joined: AtomicU64::new(0), slots }
    }

    /// The visible version.
    #[inline]
    pub(crate) fn load(&self) -> u64 {
        // What slots say is stored before they leave: so the slots first.
        let mut visible = 0;
        for slot in bits(self.joined.load(Ordering::SeqCst)) {
            visible = self.slots[slot].landed.load(Ordering::SeqCst).max(visible);
        }
        visible.max(self.stored.load(Ordering::SeqCst))
    }

    /// Every version up to it is fenced. By the writer, or by a thread that is alone in its slot.
    #[inline]
    pub(crate) fn store(&self, version: u64) {
        self.stored.store(version, Ordering::Release);
    }

    /// Of a slot: its versions in flight are above it.
    #[inline]
    pub(crate) fn below(&self, slot: usize) -> &AtomicU64 {
        &self.slots[slot].below
    }

    /// Makes a version visible that was drawn by the thread in a slot, or loaded from the clock, and is fenced; waits
    /// for those before it. What was drawn after it becomes visible when it lands itself: to ask the clock for it
    /// would take the clock's line from the thread that draws next.
    #[inline]
    pub(crate) fn land(&self, slot: usize, version: u64) {
        for round in 0.. {
            if self.has_landed(version) {
                self.slots[slot].landed.store(version, Ordering::Release);
                return;
            }
            wait(round);
        }
    }

    /// Whether nothing up to the version, which was drawn before, is in flight. By a thread that is in a slot.
    #[inline]
    fn has_landed(&self, version: u64) -> bool {
        let below = |slot: usize| self.slots[slot].below.load(Ordering::Acquire);
        bits(self.joined.load(Ordering::SeqCst)).all(|slot| below(slot) >= version)
    }

    /// From here on the slot counts. By the thread that is in it.
    pub(crate) fn join(&self, slot: usize) {
        self.joined.fetch_or(1 << slot, Ordering::SeqCst);
    }

    /// The slot does not count any longer. By the writer, while no thread can be in it.
    pub(crate) fn leave(&self, slot: usize) {
        // Stored first: a reader that finds that the slot has left finds that too. A thread that is alone may
        // store at the same time.
        self.stored.fetch_max(self.slots[slot].landed.load(Ordering::SeqCst), Ordering::SeqCst);
        self.joined.fetch_and(!(1 << slot), Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use tembo_index::Clock;

    use super::*;

    /// Writers in slots, which are closed now and then, and a reader that looks at all times.
    #[test]
    fn what_is_visible_has_landed_and_what_has_landed_stays_visible() {
        const WRITERS: usize = 3;
        const CHANGES: u64 = 20_000;
        let (visible, clock) = (Visible::new(0), Clock::new(0));
        let flown: Vec<AtomicU64> =
            (0..=WRITERS as u64 * CHANGES).map(|_| AtomicU64::new(0)).collect();
        let (begin, ended) = (Barrier::new(WRITERS + 1), AtomicU64::new(0));
        let gate = std::sync::RwLock::new(());
        let write = &|slot: usize| {
            begin.wait();
            for change in 0..CHANGES {
                if change % 64 == 63 {
                    let _alone = gate.write().unwrap();
                    bits(visible.joined.load(Ordering::SeqCst))
                        .for_each(|slot| visible.leave(slot));
                }
                let _beside_others = gate.read().unwrap();
                visible.join(slot);
                let ticket = clock.ticket_of(visible.below(slot), clock.last());
                let version = ticket.draw();
                flown[version as usize].store(1, Ordering::Relaxed);
                drop(ticket);
                visible.land(slot, version);
                assert!(visible.load() >= version);
            }
            ended.fetch_add(1, Ordering::Relaxed);
        };
        std::thread::scope(|scope| {
            for slot in 0..WRITERS {
                scope.spawn(move || write(slot * 21));
            }
            begin.wait();
            let mut known = 0;
            while ended.load(Ordering::Relaxed) < WRITERS as u64 {
                let now = visible.load();
                assert!(now >= known, "{now} after {known}");
                for version in known + 1..=now {
                    assert_eq!(flown[version as usize].load(Ordering::Relaxed), 1, "{version}");
                }
                known = now;
            }
        });
        assert_eq!((visible.load(), clock.last()), (WRITERS as u64 * CHANGES, clock.last()));
    }

    #[test]
    fn the_bits_of_a_set_come_in_order() {
        for set in [0, 1, 1 << 63, 0b1011, u64::MAX] {
            let all: Vec<usize> = (0..64).filter(|bit| set >> bit & 1 == 1).collect();
            assert_eq!(bits(set).collect::<Vec<_>>(), all);
        }
    }
}
