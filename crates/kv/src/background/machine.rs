//! The state machine of the background.
//!
//! ```text
//!   open, rollback, abort,
//!   a released old version,
//!   an unfinished sweep
//!            │
//!            ▼    begin             found             last node, nothing more is dead
//!    ┌───► Owed ───────► Marking ─────────► Scrubbing ─────────► Done ◄─────────────┐
//!    │       ▲ ▲            │ failed,          │ more is          │ ▲ │             │
//!    │       │ └────────────┘ stopped          │ dead       begin │ │ │ begin       │ written
//!    │       └─────────────────────────────────┘                  ▼ │ ▼             │
//!    │                                                    Collecting  WritingHint ──┘
//!    └── something died (a collection is paused, a hint is written to its end) ┘
//! ```
//! *Marking* and *WritingHint* go on without the writer's lock, and batches of *Collecting* while the write slots are open
//! (`write/beside.rs`); all other steps are taken under it, and the state changes only there. While the state
//! is Marking or Scrubbing no space is given back. The [stop](super::Wake::stop) of the thread ends a marking, and
//! no step follows it.
//!
//! # Work that is no phase
//! Some background work needs no state, because nothing else has to wait for its end and it leaves nothing half done:
//! - *Erasing* the entries that a range tombstone covers (`erase.rs`): each batch is an ordinary commit, and the tombstone
//!   itself says on media what is left. Batches run while the state is Done or Collecting, before a batch of
//!   collection. So no entry is erased beneath a marking or a scrub.
//! - *Counts* for the next open (`counts.rs`): one commit, when they have drifted.
//! - *Private trees* of transactions that have ended: a thread that ends or spills a transaction, or the background before
//!   each step (`maintain.rs`), lists the objects of such a tree without a lock, and retires them in one step under the
//!   writer's lock. Until then the tree is registered, so that a marking reaches it; retired objects wait until the state
//!   lets space go.
//! - *Giving blocks back* to the file system (`maintain.rs`): it concerns only space that is free already. It comes last, when
//!   all else is idle, and holds no lock of the store.
//!
//! A marking *on behalf of another tenant's sweep* (`Ledger.foreign`) is the phase Marking with one more fact beside it: what
//! ends it. The state says that nothing may be given back; `Ledger.foreign` has the life of the other sweep, since that
//! may be given up by a thread that never comes back. Then `end_foreign` makes the state Owed again.

use super::collect::Collection;
use super::scrub::Scrubbing;

/// A state of the machine: what is due or under way.
pub(crate) enum Phase {
    /// A marking is due: space below the pool's sweep limit is unknown, or a count, or there are dead
    /// intervals to scrub.
    Owed,
    /// A marking is under way: nothing is given back until it ends.
    Marking,
    /// Nodes with dead stamps are being scrubbed.
    Scrubbing(Scrubbing),
    /// A keyspace of which much was removed is being collected.
    Collecting(Collection),
    /// The hint of an index is being written for the next open: no marking may begin.
    WritingHint,
    /// Nothing is left to do.
    Done,
}

impl Phase {
    /// The name of the state, for reports. It is empty if nothing is due.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Phase::Owed => "owed",
            Phase::Marking => "marking",
            Phase::Scrubbing(_) => "scrubbing",
            Phase::Collecting(_) => "collecting",
            Phase::WritingHint => "writing a hint",
            Phase::Done => "",
        }
    }
}

/// The state machine: its state, and the facts that decide about the next one.
pub(crate) struct Machine {
    phase: Phase,
    /// Whether a marking has ended since the open: until then its limit is that of the open, above which space may be in use.
    has_marked: bool,
    /// Whether a writer has once marked the pool itself, for want of space.
    has_hurried: bool,
    /// Whether another marking is needed: something was given up, or may have been, above the limit of this one or of the next.
    again: bool,
    /// A collection that waits until the state is Done.
    paused: Option<Collection>,
    /// Collections that have come to their end since the open.
    collections: u64,
    /// The version at which the writer looks again whether old versions were released.
    look_at: u64,
    /// Whether the background knows that a collection is due.
    is_called: bool,
}

impl Machine {
    /// The machine as an open leaves it.
    pub(crate) fn new() -> Machine {
        Machine {
            phase: Phase::Owed,
            has_marked: false,
            has_hurried: false,
            again: false,
            paused: None,
            collections: 0,
            look_at: 0,
            is_called: false,
        }
    }

    pub(crate) fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Whether no recovery is due or under way, and no hint is being written.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self.phase, Phase::Done | Phase::Collecting(_))
    }

    /// Whether a marking or a scrub is due or under way.
    pub(crate) fn is_recovering(&self) -> bool {
        !self.is_done() && !matches!(self.phase, Phase::WritingHint)
    }

    /// Whether a step is under way without the writer's lock.
    pub(crate) fn is_unlocked(&self) -> bool {
        matches!(self.phase, Phase::Marking | Phase::WritingHint)
    }

    /// Whether no space may be given back, because a marking runs or nodes wait to be scrubbed.
    pub(crate) fn keeps_space(&self) -> bool {
        matches!(self.phase, Phase::Marking | Phase::Scrubbing(_))
    }

    /// Makes a marking due.
    pub(crate) fn owe(&mut self) {
        if self.is_done() {
            self.leave_collection();
            self.phase = Phase::Owed;
        } else {
            self.again |= !self.has_marked || matches!(self.phase, Phase::WritingHint);
        }
    }

    /// Lets a writer mark the pool itself, once. Returns false if one has done so before.
    pub(crate) fn hurry(&mut self) -> bool {
        !std::mem::replace(&mut self.has_hurried, true)
    }

    pub(crate) fn has_hurried(&self) -> bool {
        self.has_hurried
    }

    /// Begins a marking. `has_old_limit`: its sweep has the limit of one that was not finished, be it this store's or another's. Then
    /// something may have been given up since, above the limit. Before the first marking has ended, [`owe`](Machine::owe) notes
    /// whether that is so.
    pub(crate) fn begin_marking(&mut self, has_old_limit: bool) {
        self.leave_collection();
        self.phase = Phase::Marking;
        self.again |= has_old_limit && self.has_marked;
    }

    /// Notes that the marking was not finished.
    pub(crate) fn fail_marking(&mut self) {
        self.phase = Phase::Owed;
    }

    pub(crate) fn begin_scrubbing(&mut self, scrubbing: Scrubbing) {
        self.phase = Phase::Scrubbing(scrubbing);
        self.has_marked = true;
    }

    /// The scrub that is under way.
    pub(crate) fn scrubbing(&mut self) -> Option<&mut Scrubbing> {
        match &mut self.phase {
            Phase::Scrubbing(scrubbing) => Some(scrubbing),
            _ => None,
        }
    }

    /// Ends a scrub. Another marking is due if something is still dead.
    pub(crate) fn end_scrubbing(&mut self, is_more_dead: bool) {
        let again = std::mem::take(&mut self.again);
        self.phase = if again || is_more_dead { Phase::Owed } else { Phase::Done };
    }

    pub(crate) fn begin_hint(&mut self) {
        self.phase = Phase::WritingHint;
    }

    pub(crate) fn end_hint(&mut self) {
        let again = std::mem::take(&mut self.again);
        self.phase = if again { Phase::Owed } else { Phase::Done };
    }

    /// The paused collection, if the state is Done.
    pub(crate) fn take_collection(&mut self) -> Option<Collection> {
        self.is_called = false;
        self.leave_collection();
        self.paused.take()
    }

    /// Notes that a batch was collected. `None`: the collection has come to its end.
    pub(crate) fn collected(&mut self, next: Option<Collection>) {
        self.collections += u64::from(next.is_none());
        match next {
            Some(next) if self.is_done() => self.phase = Phase::Collecting(next),
            next => self.paused = next,
        }
    }

    /// Notes how far a collection has come beside the write slots. `None`: it has come to its end.
    pub(crate) fn collected_beside(&mut self, next: Option<Collection>) {
        self.leave_collection();
        self.paused = None;
        self.collected(next);
    }

    fn leave_collection(&mut self) {
        if let Phase::Collecting(_) = self.phase
            && let Phase::Collecting(paused) = std::mem::replace(&mut self.phase, Phase::Done)
        {
            self.paused = Some(paused);
        }
    }

    /// Collections that have come to their end since the open.
    pub(crate) fn collections(&self) -> u64 {
        self.collections
    }

    /// Notes that a collection is due. Returns whether the background has yet to be notified.
    pub(crate) fn call(&mut self) -> bool {
        !std::mem::replace(&mut self.is_called, true)
    }

    /// Whether the writer looks at this version for versions that were released. If so, it looks again `step` versions later.
    pub(crate) fn looks(&mut self, version: u64, step: u64) -> bool {
        let looks = version >= self.look_at;
        if looks {
            self.look_at = version + step;
        }
        looks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collection(cell: u64) -> Collection {
        Collection::begin(cell)
    }

    #[test]
    fn what_dies_is_marked_whatever_the_state_is() {
        let mut machine = Machine::new();
        assert!(machine.is_recovering() && !machine.keeps_space());
        machine.begin_marking(false);
        assert!(machine.keeps_space() && machine.is_unlocked());
        // Versions that die before the first marking has ended make another one due.
        machine.owe();
        machine.begin_scrubbing(Scrubbing::default());
        assert!(machine.keeps_space() && machine.scrubbing().is_some());
        machine.end_scrubbing(false);
        assert!(matches!(machine.phase(), Phase::Owed));
        machine.begin_marking(false);
        machine.fail_marking();
        machine.begin_marking(false);
        machine.begin_scrubbing(Scrubbing::default());
        // Versions that die later are found at the end of the scrub.
        machine.owe();
        machine.end_scrubbing(true);
        assert!(matches!(machine.phase(), Phase::Owed));
        machine.begin_marking(false);
        machine.begin_scrubbing(Scrubbing::default());
        machine.end_scrubbing(false);
        assert!(machine.is_done() && !machine.is_recovering());
        machine.begin_hint();
        machine.owe();
        assert!(machine.is_unlocked() && !machine.is_recovering());
        machine.end_hint();
        assert!(matches!(machine.phase(), Phase::Owed));
    }

    /// The limit of a sweep that was not finished stays, whichever store began it.
    #[test]
    fn what_was_given_up_beside_an_unfinished_sweep_is_marked_again() {
        let mut machine = Machine::new();
        machine.begin_marking(true);
        machine.begin_scrubbing(Scrubbing::default());
        machine.end_scrubbing(false);
        assert!(machine.is_done(), "nothing was given up since the open");
        machine.owe();
        machine.begin_marking(false);
        machine.owe();
        machine.fail_marking();
        for (has_old_limit, is_done) in [(true, false), (true, false), (false, true)] {
            machine.begin_marking(has_old_limit);
            machine.begin_scrubbing(Scrubbing::default());
            machine.end_scrubbing(false);
            assert_eq!(machine.is_done(), is_done);
        }
    }

    #[test]
    fn a_collection_goes_on_after_what_is_due_before_it() {
        let mut machine = Machine::new();
        machine.begin_marking(false);
        machine.begin_scrubbing(Scrubbing::default());
        machine.end_scrubbing(false);
        assert!(machine.take_collection().is_none());
        machine.collected(Some(collection(7)));
        assert!(matches!(machine.phase(), Phase::Collecting(_)) && machine.is_done());
        machine.owe();
        assert!(matches!(machine.phase(), Phase::Owed));
        machine.begin_marking(false);
        machine.begin_scrubbing(Scrubbing::default());
        machine.end_scrubbing(false);
        assert!(machine.take_collection().is_some_and(|paused| paused.cell() == 7));
        // If versions die while a batch is collected, a marking comes before the next batch.
        machine.owe();
        machine.collected(Some(collection(8)));
        assert!(matches!(machine.phase(), Phase::Owed));
        assert_eq!(machine.collections(), 0);
        machine.end_hint();
        assert!(machine.take_collection().is_some_and(|paused| paused.cell() == 8));
        machine.collected(None);
        assert!(machine.is_done() && machine.collections() == 1);
    }
}
