//! Counters of the workload (section 5.2, tables 2 and 3). Volatile, and apart from the leaves, for no
//! struct here is both: a leaf is known by its slot.

use std::cell::Cell;

use super::block::{Place, Shape};

/// `nReads` and `nWrites` of a leaf, or of the tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    /// Searches.
    pub(super) reads: u64,
    /// Elements appended, not operations.
    pub(super) writes: u64,
}

impl Load {
    pub(super) fn plus(self, other: Load) -> Load {
        Load { reads: self.reads + other.reads, writes: self.writes + other.writes }
    }

    /// What each of the two leaves that come of a split inherits.
    pub(super) fn half(self) -> Load {
        Load { reads: self.reads / 2, writes: self.writes / 2 }
    }
}

/// The counters of a tree.
#[derive(Debug, Default)]
pub(super) struct Profile {
    total: Cell<Load>,
    leaves: Vec<Cell<Load>>,
    first: u64,
    per_unit: usize,
}

impl Profile {
    /// The tree has a new block; the total goes on.
    pub(super) fn lay_out(&mut self, shape: Shape) {
        (self.first, self.per_unit) = (shape.first, shape.leaves_per_unit());
        self.leaves = vec![Cell::default(); shape.units as usize * self.per_unit];
    }

    pub(super) fn total(&self) -> Load {
        self.total.get()
    }

    fn index(&self, place: Place) -> usize {
        (place.pln - self.first) as usize * self.per_unit + place.slot
    }

    pub(super) fn leaf(&self, place: Place) -> Load {
        self.leaves[self.index(place)].get()
    }

    pub(super) fn set(&self, place: Place, load: Load) {
        self.leaves[self.index(place)].set(load);
    }

    /// A search, or elements appended.
    #[inline]
    pub(super) fn add(&self, place: Place, load: Load) {
        self.total.set(self.total.get().plus(load));
        let leaf = &self.leaves[self.index(place)];
        leaf.set(leaf.get().plus(load));
    }

    /// A slot of a PLN with `count` keys becomes two; each inherits half of its `load`.
    pub(super) fn split(&self, place: Place, count: usize, load: Load) {
        let at = self.index(place);
        let end = at - place.slot + count + 2;
        for to in (at + 2..end).rev() {
            self.leaves[to].set(self.leaves[to - 1].get());
        }
        self.leaves[at].set(load.half());
        self.leaves[at + 1].set(load.half());
    }

    /// A slot of a PLN with `count` keys and the next become one, which has what both had.
    pub(super) fn join(&self, place: Place, count: usize) {
        let at = self.index(place);
        let end = at - place.slot + count + 1;
        self.leaves[at].set(self.leaves[at].get().plus(self.leaves[at + 1].get()));
        for to in at + 1..end - 1 {
            self.leaves[to].set(self.leaves[to + 1].get());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(slot: usize) -> Place {
        Place { pln: 1, slot, leaf: 0 }
    }

    fn load(reads: u64, writes: u64) -> Load {
        Load { reads, writes }
    }

    /// Table 3: both leaves of a split have half of what the full one had, and the total stays.
    #[test]
    fn a_split_halves_and_keeps_the_neighbours() {
        let mut profile = Profile::default();
        profile.lay_out(Shape::new(64, 2));
        for slot in 0..3 {
            profile.add(place(slot), load(10 * slot as u64, 6 + slot as u64));
        }
        assert_eq!(profile.total(), load(30, 21));
        profile.split(place(1), 2, profile.leaf(place(1)));
        let found: Vec<Load> = (0..4).map(|slot| profile.leaf(place(slot))).collect();
        assert_eq!(found, [load(0, 6), load(5, 3), load(5, 3), load(20, 8)]);
        profile.join(place(0), 3);
        let found: Vec<Load> = (0..3).map(|slot| profile.leaf(place(slot))).collect();
        assert_eq!(found, [load(5, 9), load(5, 3), load(20, 8)]);
        assert_eq!(profile.total(), load(30, 21));
    }
}
