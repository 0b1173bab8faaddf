//! Write slots: several threads change single keys at a time, each in a slot of its own.
//!
//! # How
//! A change of one key commits by itself (`single.rs`), and the NV-Tree takes any number of them beside each
//! other. Every slot has a copy of the writer's state that such a change needs: the trees, and what
//! was retained some time ago. The change leaves in the slot what the writer has to take over: the tally, and unlinked
//! objects. Everything else, group commits first of all, is done by the writer, which *closes* the slots
//! while it has its lock: no change begins in a slot, none is under way, and what they have left is the writer's.
//! After so many changes the thread of a slot takes the writer's lock once, so that nothing stays for long.
//!
//! ```text
//!   thread 1 ──► slot 1 ─┐  draw, write, one fence, land     OPEN
//!   thread 2 ──► slot 2 ─┤
//!   thread n ──► shared ─┘
//!                        └──► the writer closes: takes tallies and unlinked objects     CLOSED
//!   a tree for one writer, something dead, or something prepared: single changes take the writer's lock     BARRED
//! ```
//!
//! # The owner of a slot
//! Most slots have an owner, the thread of their [number](tembo_pmem::thread::number). After a few changes a slot is
//! biased towards it ([`Latch::bias`]), and it comes in by a store: the fence of its last change is still under way,
//! and an atomic exchange would wait for it. Threads with greater numbers, and a thread that comes to its slot while
//! it is in it, share the other slots.
//!
//! # Why nothing is missed when the slots are closed
//! A thread locks its slot, then looks whether the slots are open. The writer shuts the gate, then locks each
//! slot one after the other. Of the two locks of a slot one is first: if the thread's, the writer waits for the end of
//! its change; if the writer's, the thread finds the gate shut. Only slots that have *joined* since the
//! last time are locked: a thread joins before it looks at the gate, and the writer asks which have joined after
//! it has shut the gate, all sequentially consistent; so the writer finds the slot, or the thread finds the gate
//! shut. A slot is biased after its thread was let in, and the bias is revoked as it is locked: so a thread that comes in by a
//! store has joined and may go on, and need not look at the gate.
//!
//! To revoke a bias costs a call of the system, and where other threads run, some microseconds. So a slot is
//! biased only after as many changes as take about that time, and no slot calls for the writer very often.
//!
//! # One thread alone
//! If the writer finds that there were changes in one slot only since the last time, it opens that one: then
//! no other thread has to be waited for, and each version is visible (`version/visible.rs`) as soon as it is
//! fenced. A thread that comes to another slot takes the writer's lock, and so closes and opens them all.
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use tembo_index::{Retained, Retired};
use tembo_pmem::thread::{self, Latch, LatchGuard, wait};

use crate::ledger::DRAWN_AT_ONCE;
use crate::tally::Tally;
use crate::trees::Current;
use crate::version::{Visible, WRITE_SLOT_COUNT, bits};

/// Slots from the first on that have owners.
const OWNED_COUNT: usize = 48;

/// Changes in a slot before it is biased towards its owner, where it was worth it the last time.
const CHANGES_BEFORE_BIAS: u32 = 32;

/// Changes in a slot for which a bias was worth it: to revoke it costs as much as some hundred
/// atomic exchanges.
const CHANGES_WORTH_BIAS: u32 = 512;

/// Changes in a slot before one goes by the writer's lock.
const CHANGES_MAX: u32 = 4096;

/// Bytes of unlinked objects in a slot before one goes by the writer's lock: of objects of up to 256 bytes, no fewer than
/// the changes for which a bias was worth it.
const UNLINKED_MAX: u64 = 128 << 10;

/// How often a thread looks whether the slots are open, before it sleeps until they are: for about a hundred microseconds.
const ROUNDS_MAX: usize = 400;

/// State of the gate: changes may begin in every slot. A lower number: in the slot of that number only.
const OPEN: u8 = WRITE_SLOT_COUNT as u8;
/// State of the gate: the writer is at work, which will not take long.
const CLOSED: u8 = OPEN + 1;
/// State of the gate: changes need the writer's lock.
const BARRED: u8 = OPEN + 2;

/// The write slots of a store. They have lines of their own, away from what other threads read.
#[repr(align(128))]
pub(crate) struct WriteSlots {
    gate: AtomicU8,
    /// A bit for each slot that a thread has entered, or tried to, since the slots were closed.
    joined: AtomicU64,
    /// The state of the gate when the slots are opened next. The writer changes it.
    next: AtomicU8,
    /// The durable limit of versions.
    limit: AtomicU64,
    slots: Box<[WriteSlot]>,
}

/// A slot, in lines of its own.
#[repr(align(128))]
struct WriteSlot(Latch<SlotState>);

/// The state of a slot: what its thread knows, and what it has to hand over to the writer.
#[derive(Default)]
pub(crate) struct SlotState {
    has_joined: bool,
    /// Whether other slots are in use, so that versions drawn here become visible by the slot's own words.
    is_beside_others: bool,
    /// Changes since the slots were closed.
    pub(crate) changes: u32,
    /// How often in a row it was biased for too few changes: each time it is biased later.
    short_biases: u32,
    /// The trees. It is empty before the first change after the slots were closed.
    pub(crate) known: Current,
    /// What was retained some time ago.
    pub(crate) retained: Retained,
    pub(crate) unlinked: Vec<Retired>,
    pub(crate) unlinked_bytes: u64,
    pub(crate) tally: Tally,
}

/// A slot that a thread is in.
pub(crate) struct Entered<'l> {
    pub(crate) state: LatchGuard<'l, SlotState>,
    /// The number of the slot. `None`: no other slot is in use.
    pub(crate) number: Option<usize>,
}

/// Why a thread gets no slot.
pub(crate) enum Refused {
    /// The writer is at work.
    ForNow,
    /// The change needs the writer's lock.
    Barred,
}

impl WriteSlots {
    /// Slots that are barred until the writer opens them.
    pub(crate) fn new() -> WriteSlots {
        let owned = (0..OWNED_COUNT).map(|owner| Latch::of(owner, SlotState::default()));
        let shared = (OWNED_COUNT..WRITE_SLOT_COUNT).map(|_| Latch::default());
        let slots = owned.chain(shared).map(WriteSlot).collect();
        let (gate, next) = (AtomicU8::new(BARRED), AtomicU8::new(OPEN));
        WriteSlots { gate, joined: AtomicU64::new(0), next, limit: AtomicU64::new(0), slots }
    }

    /// Enters the thread's own slot, if that is biased towards it.
    #[inline]
    pub(crate) fn reenter(&self) -> Option<Entered<'_>> {
        let own = thread::number();
        let state = self.slots.get(own)?.0.enter()?;
        let number = state.is_beside_others.then_some(own);
        Some(Entered { state, number })
    }

    /// Enters a slot.
    pub(crate) fn enter(&self, visible: &Visible) -> Result<Entered<'_>, Refused> {
        match self.gate.load(Ordering::Relaxed) {
            CLOSED => return Err(Refused::ForNow),
            BARRED => return Err(Refused::Barred),
            _ => {}
        }
        let (number, state) = self.some_slot();
        if !state.has_joined {
            self.join(number);
        }
        let mut entered = self.admit(visible, number, state)?;
        if entered.state.changes >= CHANGES_BEFORE_BIAS << entered.state.short_biases {
            entered.state = self.slots[number].0.bias(entered.state);
        }
        Ok(entered)
    }

    /// Waits a short time while the writer is at work. Returns whether it has ended. To sleep and be woken takes longer
    /// than most of the writer's work.
    pub(crate) fn open_soon(&self) -> bool {
        (0..ROUNDS_MAX).any(|round| {
            let is_closed = self.gate.load(Ordering::Relaxed) == CLOSED;
            if is_closed {
                wait(round);
            }
            !is_closed
        })
    }

    fn join(&self, number: usize) {
        self.joined.fetch_or(1 << number, Ordering::SeqCst);
    }

    /// Lets in a thread that has joined, if the slots are open.
    fn admit<'l>(
        &self,
        visible: &Visible,
        number: usize,
        mut state: LatchGuard<'l, SlotState>,
    ) -> Result<Entered<'l>, Refused> {
        let others = match self.gate.load(Ordering::SeqCst) {
            OPEN => Some(number),
            CLOSED => return Err(Refused::ForNow),
            gate if usize::from(gate) == number => None,
            _ => return Err(Refused::Barred),
        };
        state.has_joined = true;
        if others.is_some() && !state.is_beside_others {
            visible.join(number);
            state.is_beside_others = true;
        }
        Ok(Entered { state, number: others })
    }

    /// Locks a free slot, the thread's own or a shared one. Returns it with its number.
    fn some_slot(&self) -> (usize, LatchGuard<'_, SlotState>) {
        let own = thread::number();
        let shared = OWNED_COUNT + own % (WRITE_SLOT_COUNT - OWNED_COUNT);
        let own = (own < OWNED_COUNT).then_some(own);
        let mut places = own.into_iter().chain(shared..WRITE_SLOT_COUNT).chain(OWNED_COUNT..shared);
        let free = places.find_map(|number| Some((number, self.slots[number].0.try_lock()?)));
        free.unwrap_or_else(|| (shared, self.slots[shared].0.lock()))
    }

    /// Whether a change of a thread in a slot may draw its version.
    #[inline]
    pub(crate) fn allow(&self, last: u64) -> bool {
        last + DRAWN_AT_ONCE <= self.limit.load(Ordering::Relaxed)
    }

    /// Closes the slots: no change is made in one from here on. Calls `take` with the state of each. The caller has the
    /// writer's lock.
    pub(crate) fn close(&self, visible: &Visible, mut take: impl FnMut(&mut SlotState)) {
        self.gate.store(CLOSED, Ordering::SeqCst);
        let joined = self.joined.load(Ordering::SeqCst);
        if joined == 0 {
            return;
        }
        let slots = bits(joined).map(|number| (number, &self.slots[number].0));
        Latch::lock_each(slots, |number, state| {
            take(state);
            if std::mem::take(&mut state.is_beside_others) {
                visible.leave(number);
            }
            state.has_joined = false;
            // While no thread can be in the slot: the next one may join before the gate is open, and look at
            // the gate after it.
            self.joined.fetch_and(!(1 << number), Ordering::SeqCst);
        });
        let is_one = joined.is_power_of_two();
        let next = if is_one { joined.trailing_zeros() as u8 } else { OPEN };
        self.next.store(next, Ordering::Relaxed);
    }

    /// Opens the slots, or bars them. Versions up to `limit` may be drawn.
    pub(crate) fn open(&self, limit: u64, is_barred: bool) {
        self.limit.store(limit, Ordering::Relaxed);
        let next = self.next.load(Ordering::Relaxed);
        self.gate.store(if is_barred { BARRED } else { next }, Ordering::Release);
    }
}

impl SlotState {
    /// Whether the writer should take over the state of the slot.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.changes >= CHANGES_MAX || self.unlinked_bytes >= UNLINKED_MAX
    }

    /// Resets the state, after the writer has taken it over.
    pub(super) fn reset(&mut self) {
        self.known = Current::default();
        if self.changes >= CHANGES_WORTH_BIAS {
            self.short_biases = 0;
        } else if self.changes >= CHANGES_BEFORE_BIAS << self.short_biases {
            self.short_biases += 1;
        }
        self.changes = 0;
        self.unlinked_bytes = 0;
    }
}
