//! Physical collection: what was unlinked waits here until nobody can see it.

use std::collections::VecDeque;

use tembo_index::{Retained, Retired};
use tembo_pool::{Object, Pool};

/// Objects that have been unlinked, oldest first.
#[derive(Default)]
pub(crate) struct RetireList {
    /// In the order of their ends.
    fresh: VecDeque<Retired>,
    /// Those that a pin held back when they were last looked at ...
    held: Vec<Retired>,
    /// ... when the pins had changed so often.
    pins_seen: u64,
}

impl RetireList {
    /// Takes what a committed transaction has unlinked.
    pub(crate) fn extend(&mut self, retired: &mut Vec<Retired>) {
        self.fresh.extend(retired.drain(..));
    }

    /// Gives back what no retained version sees. `pin_changes`: how often the pins have changed.
    pub(crate) fn reclaim(&mut self, retained: &Retained, pin_changes: u64, pool: &Pool) {
        if self.pins_seen != pin_changes {
            self.pins_seen = pin_changes;
            self.held.retain(|retired| keep(retired, retained, pool));
        }
        while let Some(retired) = self.fresh.front() {
            if retired.end > retained.visible() {
                break;
            }
            if keep(retired, retained, pool) {
                self.held.push(*retired);
            }
            self.fresh.pop_front();
        }
    }

    /// Forgets what was unlinked after `version`: it is linked again, or garbage for a sweep.
    pub(crate) fn forget_after(&mut self, version: u64) {
        self.fresh.retain(|retired| retired.end <= version);
        self.held.retain(|retired| retired.end <= version);
    }

    pub(crate) fn objects(&self) -> impl Iterator<Item = Object> + '_ {
        self.fresh.iter().chain(&self.held).map(|retired| retired.object)
    }

    pub(crate) fn len(&self) -> usize {
        self.fresh.len() + self.held.len()
    }
}

fn keep(retired: &Retired, retained: &Retained, pool: &Pool) -> bool {
    let needed = retained.needs(retired.start, retired.end);
    if !needed {
        pool.free(retired.object);
    }
    needed
}
