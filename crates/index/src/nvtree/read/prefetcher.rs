//! Leaves that a walk will come to, asked for before it does: one after the other each would have to be waited
//! for. More than two at once make the processor wait for lines that are needed later before it has those that
//! are needed now, and are for nothing where a walk ends.

use crate::nvtree::inner::LeafId;
use crate::nvtree::leaf::Leaf;
use crate::nvtree::leaves::Leaves;

/// Leaves between that in which a walk is and the last that it has asked for.
const DISTANCE: usize = 2;

/// Leaves that are looked up at once.
const KNOWN: usize = 8;

pub(super) struct Prefetcher<'f> {
    leaves: &'f Leaves,
    /// What the inner nodes say comes next; may be outdated.
    known: [Option<LeafId>; KNOWN],
    /// So many of them were asked for.
    asked: usize,
}

impl<'f> Prefetcher<'f> {
    pub(super) fn new(leaves: &'f Leaves) -> Prefetcher<'f> {
        Prefetcher { leaves, known: [None; KNOWN], asked: 0 }
    }

    /// Nothing has asked for the leaf, which covers the key.
    pub(super) fn begin(&mut self, leaf: &Leaf<'_>, key: &[u8]) {
        leaf.side.prefetch_rest();
        leaf.prefetch_all();
        self.look_up(key);
    }

    /// The walk is in the next leaf, which covers the key.
    pub(super) fn go_on(&mut self, key: &[u8]) {
        if !self.ask() {
            self.look_up(key);
        }
    }

    fn look_up(&mut self, key: &[u8]) {
        let Ok(inner) = self.leaves.inner() else { return };
        (self.known, self.asked) = (inner.behind(key), 0);
        (0..DISTANCE).for_each(|_| {
            self.ask();
        });
    }

    /// False: there is none that is known.
    fn ask(&mut self) -> bool {
        let known = self.known.get(self.asked).copied().flatten();
        let Some(leaf) = known.and_then(|id| Leaf::at(&self.leaves.forest, id).ok()) else {
            return false;
        };
        leaf.will_read();
        leaf.side.prefetch();
        leaf.prefetch_all();
        self.asked += 1;
        true
    }
}
