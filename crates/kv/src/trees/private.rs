//! Trees that nothing on media names: each belongs to one transaction, and is lost with the process.
//!
//! A private tree lies in the pool like any other, so a marking has to reach it: else a sweep would give its space to
//! others. So it is registered here from its making, under the writer's lock, until its space is given back.
//!
//! ```text
//!   made ──► used ──► given up (commit, drop) ──► its objects are collected ──► among the retired ──► free
//!              │             │                        │
//!              └─────────────┴── marked, checked ─────┘              crash: nothing names it, the sweep frees it
//! ```
//! All entries have one stamp, that of the version in which every store is made. It is committed, no rollback and no
//! abort makes it void, and every view sees it: so a private tree has no history, and what is replaced is free at once. To
//! the index its writer is one that has not committed, which changes a key again in place: nothing is retained before its
//! version.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tembo_index::{Index, Stamp};
use tembo_pmem::thread::lock;
use tembo_pool::Object;

use crate::media::grouped;

/// The version of all entries.
pub(crate) const PRIVATE_VERSION: u64 = 1;

/// The stamp of all entries.
pub(crate) fn private_stamp() -> Stamp {
    grouped(PRIVATE_VERSION)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Used,
    GivenUp,
    /// A thread collects its objects, or has collected them.
    Taken,
}

/// What a tree consists of that was given up. `None`: too much, or damage.
pub(crate) type PrivateObjects = Option<Vec<Object>>;

/// All private trees of a store, by cell.
#[derive(Default)]
pub(crate) struct PrivateTrees {
    all: Mutex<BTreeMap<u64, (Arc<Index>, Use)>>,
    /// Whether some are given up, their objects collected or not.
    has_given_up: AtomicBool,
    /// The cells and objects of those that wait for the writer. Locked while objects are collected.
    collected: Mutex<Vec<(u64, PrivateObjects)>>,
}

impl PrivateTrees {
    /// Registers a tree that was made. Only the writer calls this.
    pub(crate) fn register(&self, index: &Arc<Index>) {
        let cell = index.object().to_bits();
        lock(&self.all).insert(cell, (index.clone(), Use::Used));
    }

    /// Notes that the transaction of a tree has ended.
    pub(crate) fn give_up(&self, index: &Index) {
        if let Some((_, state)) = lock(&self.all).get_mut(&index.object().to_bits()) {
            *state = Use::GivenUp;
            self.has_given_up.store(true, Ordering::Release);
        }
    }

    /// Whether some are given up and not forgotten.
    pub(crate) fn has_given_up(&self) -> bool {
        self.has_given_up.load(Ordering::Acquire)
    }

    /// Lets `collect` say what the trees consist of that are given up. The writer calls this if it needs the space, and other threads,
    /// before they wait for the writer's lock: it waits for a thread that is at it.
    pub(crate) fn collect(&self, collect: impl Fn(&Index) -> PrivateObjects) {
        let mut collected = lock(&self.collected);
        for (cell, index) in self.take_given_up() {
            collected.push((cell, collect(&index)));
        }
    }

    fn take_given_up(&self) -> Vec<(u64, Arc<Index>)> {
        let mut all = lock(&self.all);
        let given_up = all.iter_mut().filter(|(_, (_, state))| *state == Use::GivenUp);
        let take = |(cell, (index, state)): (&u64, &mut (Arc<Index>, Use))| {
            *state = Use::Taken;
            (*cell, index.clone())
        };
        given_up.map(take).collect()
    }

    /// Forgets the trees whose objects are collected, by whichever thread. The caller gives their space back, or leaves it to a sweep.
    /// Only the writer calls this.
    pub(crate) fn take_collected(&self) -> Vec<PrivateObjects> {
        let collected = std::mem::take(&mut *lock(&self.collected));
        let mut all = lock(&self.all);
        collected.iter().for_each(|(cell, _)| drop(all.remove(cell)));
        let is_any_given_up = all.values().any(|(_, state)| *state == Use::GivenUp);
        self.has_given_up.store(is_any_given_up, Ordering::Release);
        collected.into_iter().map(|(_, objects)| objects).collect()
    }

    /// Whether the space of some waits to be given back.
    pub(crate) fn is_giving_back(&self) -> bool {
        lock(&self.all).values().any(|(_, state)| *state != Use::Used)
    }

    /// All trees that a marking has to reach.
    pub(crate) fn all(&self) -> Vec<(u64, Arc<Index>)> {
        lock(&self.all).iter().map(|(&cell, (index, _))| (cell, index.clone())).collect()
    }
}
