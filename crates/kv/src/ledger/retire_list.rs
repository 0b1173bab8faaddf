//! Physical collection: what was unlinked waits here until no version sees it.

use std::collections::{BTreeMap, VecDeque};

use tembo_index::{Retained, Retired};
use tembo_pool::{Object, Pool};

/// Objects that have been unlinked.
#[derive(Default)]
pub(crate) struct RetireList {
    /// In the order of their ends; not yet looked at.
    fresh: VecDeque<Retired>,
    /// Those that the window holds back, in the order of their ends.
    recent: VecDeque<Retired>,
    /// Those that a pin holds back, by the oldest pin that does.
    held: BTreeMap<u64, Vec<Retired>>,
    held_count: usize,
}

impl RetireList {
    /// Takes what a committed transaction has unlinked.
    pub(crate) fn extend(&mut self, retired: &mut Vec<Retired>) {
        self.fresh.extend(retired.drain(..));
    }

    /// Gives back what no retained version sees. What a pin holds is looked at again only when that
    /// pin is dropped.
    pub(crate) fn reclaim(&mut self, retained: &Retained, pool: &Pool) {
        let mut free = Vec::new();
        let dropped: Vec<u64> =
            self.held.keys().copied().filter(|pin| !retained.pins().contains(pin)).collect();
        for pin in dropped {
            let held = self.held.remove(&pin).unwrap_or_default();
            self.held_count -= held.len();
            for retired in held {
                free.extend(self.unless_kept(retired, retained));
            }
        }
        while let Some(&retired) = self.fresh.front()
            && retired.end <= retained.visible()
        {
            self.fresh.pop_front();
            self.recent.push_back(retired);
        }
        while let Some(&retired) = self.recent.front()
            && retired.end <= retained.window()
        {
            self.recent.pop_front();
            free.extend(self.unless_kept(retired, retained));
        }
        pool.free_all(free);
    }

    fn unless_kept(&mut self, retired: Retired, retained: &Retained) -> Option<Object> {
        if !retained.needs(retired.start, retired.end) {
            return Some(retired.object);
        }
        let pins = retained.pins();
        let oldest = pins.get(pins.partition_point(|&pin| pin < retired.start)).copied();
        self.held.entry(oldest.unwrap_or(0)).or_default().push(retired);
        self.held_count += 1;
        None
    }

    /// Forgets what was unlinked after `version`: it is linked again, or garbage for a sweep.
    pub(crate) fn forget_after(&mut self, version: u64) {
        self.fresh.retain(|retired| retired.end <= version);
        self.recent.retain(|retired| retired.end <= version);
        for held in self.held.values_mut() {
            held.retain(|retired| retired.end <= version);
        }
        self.held_count = self.held.values().map(Vec::len).sum();
    }

    pub(crate) fn objects(&self) -> impl Iterator<Item = Object> + '_ {
        let all = self.fresh.iter().chain(&self.recent).chain(self.held.values().flatten());
        all.map(|retired| retired.object)
    }

    /// How many have not been looked at.
    pub(crate) fn fresh_count(&self) -> usize {
        self.fresh.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.fresh.len() + self.recent.len() + self.held_count
    }
}
