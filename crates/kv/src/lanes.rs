//! Lanes: several threads change single keys at a time, each in a lane of its own.
//!
//! # How
//! A change of one key commits by itself (`single.rs`), and the NV-Tree takes any number of them beside each
//! other. What the one writer knows and such a change needs stands in every lane once more: the trees, what
//! was retained some time ago; and what it leaves to be told stays there: counts, removals, what was
//! unlinked. Everything else, group commits first of all, is done by the one writer, who *closes* the lanes
//! while he has his lock: no change begins in a lane, none is under way, and what they have left is his.
//! After so many changes every lane goes by his lock once, so that nothing stays for long.
//!
//! # Whose a lane is
//! Most lanes have an owner, the thread of their [number](tembo_pmem::thread_number). After a few changes a lane is
//! lent to him ([`Latch::lend`]), and he comes in by a store: the fence of his last change is still under way,
//! and an atomic exchange would wait for it. Threads with greater numbers, and who comes to his lane while he is in
//! it, share the other lanes.
//!
//! # Why nothing is missed when the lanes are closed
//! A thread locks its lane, then looks whether the lanes are open. The writer shuts the gate, then locks each
//! lane in turn. Of the two locks of a lane one is first: if the thread's, the writer waits for the end of
//! its change; if the writer's, the thread finds the gate shut. Only lanes that have *joined* since the
//! last time are locked: a thread joins before it looks at the gate, and the writer asks who has joined after
//! he has shut it, all sequentially consistent; so he finds the lane, or the lane finds the gate shut.
//! A lane is lent after it was let in, and taken back as it is locked: so who comes in by a store has joined and
//! may go on, and needs not look at the gate.
//!
//! To take lanes back costs a call of the system, and where other threads run, some microseconds. So a lane is
//! lent only after as many changes as take about that time, and no lane calls for the writer very often.
//!
//! # One thread alone
//! If the writer finds that there were changes in one lane only since the last time, he opens that one: then
//! nobody has to be waited for, and each version is [visible](crate::visible) as soon as it is fenced. A
//! thread that comes to another lane goes by the writer's lock, and so closes and opens them all.

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use tembo_index::{IndexKind, Retained, Retired};
use tembo_pmem::{Latch, Latched, thread_number, wait_in_round};

use crate::inner::{Current, Inner};
use crate::visible::{Visible, bits};
use crate::writer::WriterState;

/// So many threads at a time; who comes then waits for one of them.
pub(crate) const LANE_COUNT: usize = 64;

/// Lanes from the first on that have owners.
const OWNED_COUNT: usize = 48;

/// Changes in a lane before it is lent to its owner, where it was worth it the last time.
const CHANGES_BEFORE_LENT: u32 = 32;

/// Changes in a lane for which lending it was worth it: to take it back costs as much as some hundred
/// atomic exchanges.
const CHANGES_WORTH_LENDING: u32 = 1024;

/// Changes in a lane before one goes by the writer's lock.
const CHANGES_MAX: u32 = 4096;

/// Bytes of unlinked objects in a lane before one goes by the writer's lock.
const UNLINKED_MAX: u64 = 128 << 10;

/// Looks at whether the lanes are open, before a thread sleeps until they are: about a hundred microseconds.
const ROUNDS_MAX: usize = 400;

/// Versions that lanes may draw while one of them looks whether there are enough.
pub(crate) const DRAWN_AT_ONCE: u64 = 16 * LANE_COUNT as u64;

/// Changes may begin in every lane. A number below: in that lane only.
const OPEN: u8 = LANE_COUNT as u8;
/// The writer is at work; it will not take long.
const CLOSED: u8 = OPEN + 1;
/// Not for now: changes are the writer's.
const BARRED: u8 = OPEN + 2;

/// The lanes of a store.
pub(crate) struct Lanes {
    gate: AtomicU8,
    /// Lanes that somebody was in, or wanted to be, since they were closed: a bit each.
    joined: AtomicU64,
    /// What the gate will say when the lanes are opened. Changed by the writer.
    next: AtomicU8,
    /// The durable limit of versions.
    limit: AtomicU64,
    lanes: Box<[Lane]>,
}

/// Away from the lines of others.
#[repr(align(128))]
struct Lane(Latch<LaneState>);

/// What the thread in a lane knows, and has to tell the writer.
#[derive(Default)]
pub(crate) struct LaneState {
    has_joined: bool,
    /// What was drawn here is visible by the lane's own words.
    is_beside_others: bool,
    /// Changes since the lanes were closed.
    pub(crate) changes: u32,
    /// How often in a row it was lent for too few changes: each time it is lent later.
    vain: u32,
    /// The trees; none before the first change after the lanes were closed.
    pub(crate) known: Current,
    /// What was retained some time ago.
    pub(crate) retained: Retained,
    pub(crate) unlinked: Vec<Retired>,
    pub(crate) unlinked_bytes: u64,
    /// By keyspace.
    pub(crate) sums: Vec<Sum>,
    /// Hashes of keys that were removed, each with the version.
    pub(crate) gone: Vec<(u64, u64)>,
}

/// What the changes in a lane add up to.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sum {
    /// Keys added less keys removed.
    pub(crate) delta: i64,
    pub(crate) removed: u64,
}

/// A lane that a thread is in.
pub(crate) struct Entered<'l> {
    pub(crate) state: Latched<'l, LaneState>,
    /// The lane's number; `None`: nobody is in another one.
    pub(crate) number: Option<usize>,
}

/// Why there is no lane.
pub(crate) enum Refused {
    /// The writer is at work.
    ForNow,
    /// The change goes by the writer's lock.
    Barred,
}

impl Lanes {
    /// Barred until the writer opens them.
    pub(crate) fn new() -> Lanes {
        let owned = (0..OWNED_COUNT).map(|owner| Latch::of(owner, LaneState::default()));
        let shared = (OWNED_COUNT..LANE_COUNT).map(|_| Latch::default());
        let lanes = owned.chain(shared).map(Lane).collect();
        let (gate, next) = (AtomicU8::new(BARRED), AtomicU8::new(OPEN));
        Lanes { gate, joined: AtomicU64::new(0), next, limit: AtomicU64::new(0), lanes }
    }

    /// The thread's own lane, if it was lent to it.
    #[inline]
    pub(crate) fn reenter(&self) -> Option<Entered<'_>> {
        let own = thread_number();
        let state = self.lanes.get(own)?.0.reenter()?;
        let number = state.is_beside_others.then_some(own);
        Some(Entered { state, number })
    }

    /// A lane for the thread.
    pub(crate) fn enter(&self, visible: &Visible) -> Result<Entered<'_>, Refused> {
        match self.gate.load(Ordering::Relaxed) {
            CLOSED => return Err(Refused::ForNow),
            BARRED => return Err(Refused::Barred),
            _ => {}
        }
        let (number, state) = self.some_lane();
        if !state.has_joined {
            self.join(number);
        }
        let mut entered = self.admit(visible, number, state)?;
        if entered.state.changes >= CHANGES_BEFORE_LENT << entered.state.vain {
            entered.state = self.lanes[number].0.lend(entered.state);
        }
        Ok(entered)
    }

    /// Waits while the writer is at work; whether that was not long. To sleep and be woken takes longer than
    /// most of what he does.
    pub(crate) fn open_soon(&self) -> bool {
        (0..ROUNDS_MAX).any(|round| {
            let is_closed = self.gate.load(Ordering::Relaxed) == CLOSED;
            if is_closed {
                wait_in_round(round);
            }
            !is_closed
        })
    }

    fn join(&self, number: usize) {
        self.joined.fetch_or(1 << number, Ordering::SeqCst);
    }

    /// Lets in who has joined, if the lanes are open.
    fn admit<'l>(
        &self,
        visible: &Visible,
        number: usize,
        mut state: Latched<'l, LaneState>,
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

    /// A lane that nobody is in, and its number: the thread's own, or one that is shared.
    fn some_lane(&self) -> (usize, Latched<'_, LaneState>) {
        let own = thread_number();
        let shared = OWNED_COUNT + own % (LANE_COUNT - OWNED_COUNT);
        let own = (own < OWNED_COUNT).then_some(own);
        let mut places = own.into_iter().chain(shared..LANE_COUNT).chain(OWNED_COUNT..shared);
        let free = places.find_map(|number| Some((number, self.lanes[number].0.try_lock()?)));
        free.unwrap_or_else(|| (shared, self.lanes[shared].0.lock()))
    }

    /// Whether a change may draw its version; by who is in a lane.
    #[inline]
    pub(crate) fn allow(&self, last: u64) -> bool {
        last + DRAWN_AT_ONCE <= self.limit.load(Ordering::Relaxed)
    }

    /// Nothing is done in a lane from here on; `tell` gets what was left in each. By who has the writer's
    /// lock.
    pub(crate) fn close(&self, visible: &Visible, mut tell: impl FnMut(&mut LaneState)) {
        self.gate.store(CLOSED, Ordering::SeqCst);
        let joined = self.joined.load(Ordering::SeqCst);
        if joined == 0 {
            return;
        }
        let lanes = bits(joined).map(|number| (number, &self.lanes[number].0));
        Latch::lock_each(lanes, |number, state| {
            tell(state);
            if std::mem::take(&mut state.is_beside_others) {
                visible.leave(number);
            }
            state.has_joined = false;
            // While nobody can be in the lane: who is next may join before the gate is open, and look at
            // the gate after it.
            self.joined.fetch_and(!(1 << number), Ordering::SeqCst);
        });
        let is_one = joined.is_power_of_two();
        let next = if is_one { joined.trailing_zeros() as u8 } else { OPEN };
        self.next.store(next, Ordering::Relaxed);
    }

    /// Opens the lanes, or bars them; versions up to `limit` may be drawn.
    pub(crate) fn open(&self, limit: u64, is_barred: bool) {
        self.limit.store(limit, Ordering::Relaxed);
        let next = self.next.load(Ordering::Relaxed);
        self.gate.store(if is_barred { BARRED } else { next }, Ordering::Release);
    }
}

impl LaneState {
    /// Whether the writer should hear of what was done.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.changes >= CHANGES_MAX || self.unlinked_bytes >= UNLINKED_MAX
    }

    /// As after the lanes were closed: what was left is the writer's.
    fn tell(&mut self, inner: &Inner, writer: &mut WriterState) {
        self.known = Current::default();
        if self.changes >= CHANGES_WORTH_LENDING {
            self.vain = 0;
        } else if self.changes >= CHANGES_BEFORE_LENT << self.vain {
            self.vain += 1;
        }
        self.changes = 0;
        // What was written in lanes, an older answer holds for needed.
        writer.retained_uses = 0;
        writer.retired.extend(&mut self.unlinked);
        self.unlinked_bytes = 0;
        for (id, sum) in self.sums.drain(..).enumerate() {
            writer.trees[id].delta += sum.delta;
            if sum.removed > 0 {
                inner.note_removed(writer, id, sum.removed);
            }
        }
        for (hash, version) in self.gone.drain(..) {
            writer.removals.note(hash, version);
        }
    }
}

impl Inner {
    /// Lets nobody into a lane, and takes what they have left. By who has just got the writer's lock.
    pub(crate) fn close_lanes(&self, state: &mut WriterState) {
        self.lanes.close(&self.pins.visible, |lane| lane.tell(self, state));
    }

    /// Opens the lanes, if changes can be made there. By who is about to give back the writer's lock.
    pub(crate) fn open_lanes(&self, state: &WriterState) {
        if state.is_taken {
            return;
        }
        let takes_one = self.catalogue.tree().kind() == IndexKind::Cdds;
        let is_barred = takes_one || state.broken || self.forest.has_dead();
        self.lanes.open(state.limit, is_barred);
    }

    /// Makes a version visible that was drawn in a lane and is fenced.
    #[inline]
    pub(crate) fn land(&self, lane: Option<usize>, version: u64) {
        match lane {
            Some(lane) => self.pins.visible.land(lane, version, &self.clock),
            None => self.pins.publish(version),
        }
    }
}
