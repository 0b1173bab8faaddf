//! A collection beside the write slots.
//!
//! A collection changes leaves under their locks, as changes in write slots do, so it need not keep these out. While the
//! slots are open, the machine's collection is on *loan*: the background takes its batches without the writer's lock. The
//! thread that closes the slots takes the loan back, with what was unlinked.
//!
//! ```text
//!   the slots are open      lend ──► batch ──► batch ──► ...        by the background, beside changes in slots
//!   the slots are closed    take back ──► the machine, the ledger   by the writer
//! ```
//!
//! So the state of the machine changes in the writer's hands only, a marking never runs beside a batch, and what a batch has
//! unlinked is given back only while no thread is in a slot. A batch draws no version: one of several writers would have
//! to wait for it. What it unlinks may be seen up to the last version that was drawn when it was unlinked.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use tembo_index::{DeadIntervals, Index, Retained, Retired, Writer};
use tembo_pmem::thread::Latch;

use crate::background::Collection;
use crate::media::grouped;
use crate::shared::Shared;

/// Batches before a step takes the writer's lock: other work of the background waits for that.
const BATCHES_MAX: u32 = 64;

/// Unlinked objects before a step takes the writer's lock, so that they are given back.
const RETIRED_MAX: usize = 256;

static NOTHING_DEAD: DeadIntervals = DeadIntervals::NONE;

/// The loan, and what was unlinked under it.
#[derive(Default)]
pub(super) struct Beside(Latch<State>);

#[derive(Default)]
struct State {
    loan: Loan,
    batches: u32,
    retained: Retained,
    retired: Vec<Retired>,
}

/// A collection on loan.
#[derive(Default)]
pub(super) enum Loan {
    /// There is none.
    #[default]
    Nothing,
    /// A collection that goes on in that index.
    Going(Collection, Arc<Index>),
    /// A collection that has come to its end.
    Over,
}

impl Beside {
    /// Lends a collection. While it is on loan nothing is dead, and nothing is marked.
    pub(super) fn lend(&self, collection: Collection, index: Arc<Index>) {
        self.0.lock().loan = Loan::Going(collection, index);
    }

    /// Lets batches be taken again: a step of the background has the writer's lock.
    pub(super) fn allow(&self) {
        self.0.lock().batches = 0;
    }

    /// Takes the loan back, and what was unlinked. Waits for the end of a batch.
    pub(super) fn take_back(&self) -> (Loan, Vec<Retired>) {
        let mut state = self.0.lock();
        (std::mem::take(&mut state.loan), std::mem::take(&mut state.retired))
    }

    /// Takes a batch of the collection on loan. Returns false if the writer's lock is needed for the next step.
    pub(super) fn batch(&self, shared: &Shared) -> bool {
        let Some(mut state) = self.0.try_lock() else { return false };
        let State { loan, batches, retained, retired } = &mut *state;
        if *batches >= BATCHES_MAX || retired.len() >= RETIRED_MAX {
            return false;
        }
        *batches += 1;
        let Loan::Going(collection, index) = loan else { return false };
        let (clock, before) = (&shared.versions.clock, retired.len());
        shared.versions.pins.renew(retained);
        let _relief = shared.pool().relief();
        let mut writer =
            Writer { stamp: grouped(clock.last()), dead: &NOTHING_DEAD, retained, retired };
        let next = collection.clone().batch(index, &mut writer);
        // ORDER: every thread sees that the objects are unlinked before the clock is looked at: a reader of a later version
        // does not find them.
        fence(Ordering::SeqCst);
        let end = clock.last() + 1;
        retired[before..].iter_mut().for_each(|retired| retired.end = end);
        shared.region().hand_over();
        match next {
            Ok(Some(next)) => *collection = next,
            Ok(None) => *loan = Loan::Over,
            // The batch meets the error again under the lock, where it is reported.
            Err(_) => *batches = BATCHES_MAX,
        }
        true
    }
}
