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
//! # Why nothing is missed when the lanes are closed
//! A thread locks its lane, then looks whether the lanes are open. The writer shuts the gate, then locks each
//! lane in turn. Of the two locks of a lane one is first: if the thread's, the writer waits for the end of
//! its change; if the writer's, the thread finds the gate shut. Only lanes that have *joined* since the
//! last time are locked: a thread joins before it looks at the gate, and the writer asks who has joined after
//! he has shut it, all sequentially consistent; so he finds the lane, or the lane finds the gate shut.
//!
//! # What is visible
//! Versions are drawn in one order and fenced in another. A version is *in flight* from before it is drawn
//! until it is fenced (`Turn`), and each lane has a word that says below which its own are. The least of
//! these words and of the last version drawn is a version up to which everything is fenced: whoever has made
//! a change moves `visible` on to that, and goes on when it has come to his own version. So he waits for
//! those that drew before him and have not fenced yet, for as long as a fence takes, and nobody waits for
//! who comes later. What he was told is in every snapshot that begins afterwards. Who finds nothing to
//! remove has drawn no version, and waits for the last one drawn: what he has read is of that or before.

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

use tembo_index::{AT_REST, Retained, Retired};
use tembo_pmem::lock;

use crate::inner::{Current, Inner};
use crate::reading::thread_number;
use crate::writer::WriterState;

/// So many threads at a time; who comes then waits for one of them.
const LANE_COUNT: usize = 64;

/// Changes in a lane before one goes by the writer's lock.
const CHANGES_MAX: u32 = 256;

/// Unlinked objects in a lane before one goes by the writer's lock.
const UNLINKED_MAX: usize = 32;

/// Versions that lanes may draw while one of them looks whether there are enough.
const DRAWN_AT_ONCE: u64 = 16 * LANE_COUNT as u64;

/// Looks at what others have in flight before a thread lets them have its processor.
const SPINS: usize = 200;

/// Changes may begin.
const OPEN: u8 = 0;
/// The writer is at work; it will not take long.
const CLOSED: u8 = 1;
/// Not for now: changes are the writer's.
const BARRED: u8 = 2;

/// The lanes of a store.
pub(crate) struct Lanes {
    gate: AtomicU8,
    /// Which lanes there were changes in since they were closed: a bit each.
    joined: AtomicU64,
    /// The durable limit of versions.
    limit: AtomicU64,
    lanes: Box<[Lane]>,
}

/// Away from the lines of others.
#[derive(Default)]
#[repr(align(128))]
struct Lane {
    state: Mutex<LaneState>,
    in_flight: InFlight,
}

/// The versions in flight are above it.
#[repr(align(128))]
struct InFlight(AtomicU64);

impl Default for InFlight {
    fn default() -> InFlight {
        InFlight(AtomicU64::new(AT_REST))
    }
}

/// What the thread in a lane knows, and has to tell the writer.
#[derive(Default)]
pub(crate) struct LaneState {
    has_joined: bool,
    /// Changes since the lanes were closed.
    pub(crate) changes: u32,
    /// The trees; none before the first change after the lanes were closed.
    pub(crate) known: Current,
    /// What was retained some time ago, and how many changes may still use it.
    pub(crate) retained: Retained,
    pub(crate) retained_uses: u32,
    pub(crate) unlinked: Vec<Retired>,
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
    pub(crate) state: MutexGuard<'l, LaneState>,
    pub(crate) in_flight: &'l AtomicU64,
}

/// Why there is no lane.
pub(crate) enum Refused {
    /// The writer is at work.
    ForNow,
    /// Changes go by the writer's lock.
    Barred,
}

impl Lanes {
    /// Barred until the writer opens them.
    pub(crate) fn new() -> Lanes {
        let lanes = (0..LANE_COUNT).map(|_| Lane::default()).collect();
        let (gate, joined, limit) = (AtomicU8::new(BARRED), AtomicU64::new(0), AtomicU64::new(0));
        Lanes { gate, joined, limit, lanes }
    }

    /// A lane for the thread, as good as its own.
    #[inline]
    pub(crate) fn enter(&self) -> Result<Entered<'_>, Refused> {
        match self.gate.load(Ordering::Relaxed) {
            OPEN => {}
            CLOSED => return Err(Refused::ForNow),
            _ => return Err(Refused::Barred),
        }
        let (number, state) = self.some_lane();
        self.join(number, &state);
        self.admit(number, state)
    }

    #[inline]
    fn join(&self, number: usize, state: &LaneState) {
        if !state.has_joined {
            self.joined.fetch_or(1 << number, Ordering::SeqCst);
        }
    }

    /// Lets in who has joined, if the lanes are open.
    #[inline]
    fn admit<'l>(
        &'l self,
        number: usize,
        mut state: MutexGuard<'l, LaneState>,
    ) -> Result<Entered<'l>, Refused> {
        if self.gate.load(Ordering::SeqCst) != OPEN {
            return Err(Refused::ForNow);
        }
        state.has_joined = true;
        Ok(Entered { state, in_flight: &self.lanes[number].in_flight.0 })
    }

    /// A lane that nobody is in, and its number.
    #[inline]
    fn some_lane(&self) -> (usize, MutexGuard<'_, LaneState>) {
        let first = thread_number() % LANE_COUNT;
        for number in (first..LANE_COUNT).chain(0..first) {
            match self.lanes[number].state.try_lock() {
                Ok(state) => return (number, state),
                Err(TryLockError::Poisoned(poisoned)) => return (number, poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => {}
            }
        }
        (first, lock(&self.lanes[first].state))
    }

    /// Whether a change may draw its version; by who is in a lane.
    #[inline]
    pub(crate) fn allow(&self, last: u64) -> bool {
        last + DRAWN_AT_ONCE <= self.limit.load(Ordering::Relaxed)
    }

    /// The greatest version up to which nothing is in flight, given the last one drawn, which was loaded
    /// before. By who is in a lane.
    #[inline]
    pub(crate) fn landed(&self, last: u64) -> u64 {
        let mut joined = self.joined.load(Ordering::SeqCst);
        let mut landed = last;
        while joined != 0 {
            let lane = &self.lanes[joined.trailing_zeros() as usize];
            landed = landed.min(lane.in_flight.0.load(Ordering::Acquire));
            joined &= joined - 1;
        }
        landed
    }

    /// Nothing is done in a lane from here on; `tell` gets what was left in each. By who has the writer's
    /// lock.
    pub(crate) fn close(&self, mut tell: impl FnMut(&mut LaneState)) {
        self.gate.store(CLOSED, Ordering::SeqCst);
        let mut left = self.joined.load(Ordering::SeqCst);
        while left != 0 {
            let number = left.trailing_zeros();
            let mut state = lock(&self.lanes[number as usize].state);
            tell(&mut state);
            state.has_joined = false;
            // With the lane's lock: who has it next may join before the gate is open, and look at the gate
            // after it.
            self.joined.fetch_and(!(1 << number), Ordering::SeqCst);
            left &= left - 1;
        }
    }

    /// Opens the lanes, or bars them; versions up to `limit` may be drawn.
    pub(crate) fn open(&self, limit: u64, is_barred: bool) {
        self.limit.store(limit, Ordering::Relaxed);
        self.gate.store(if is_barred { BARRED } else { OPEN }, Ordering::Release);
    }
}

impl LaneState {
    /// Whether the writer should hear of what was done.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.changes >= CHANGES_MAX || self.unlinked.len() >= UNLINKED_MAX
    }

    /// As after the lanes were closed: what was left is the writer's.
    fn tell(&mut self, inner: &Inner, writer: &mut WriterState) {
        self.known = Current::default();
        self.retained_uses = 0;
        self.changes = 0;
        writer.retired.extend(&mut self.unlinked);
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
        self.lanes.close(|lane| lane.tell(self, state));
    }

    /// Opens the lanes, if changes can be made there. By who is about to give back the writer's lock.
    pub(crate) fn open_lanes(&self, state: &WriterState) {
        if state.is_taken {
            return;
        }
        let is_barred = !self.has_lanes || state.broken || self.forest.has_dead();
        self.lanes.open(state.limit, is_barred);
    }

    /// Makes a version visible that was drawn in a lane and is fenced; waits for those before it.
    #[inline]
    pub(crate) fn land(&self, version: u64) {
        for turn in 0.. {
            let landed = self.lanes.landed(self.clock.last());
            if self.pins.move_on(landed) >= version {
                return;
            }
            if turn < SPINS {
                tembo_pmem::wait();
            } else {
                std::thread::yield_now();
            }
        }
    }
}
