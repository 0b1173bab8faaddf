//! Prefetches leaves before a walk comes to them; otherwise it would wait for each, one after the other. More than two at
//! once would make the processor wait for lines that are needed later before it has those that
//! are needed first, and would be fetched for nothing where a walk ends.
//!
//! Where pages come from a disk one by one, the disk reads many side by side, more than a leaf has records. So more
//! leaves are asked for there, and the records of those leaves that have arrived: none in the first leaves of a walk, which
//! may end soon, then those of more and more leaves.

use tembo_pool::Object;

use crate::nvtree::image::make;
use crate::nvtree::inner::LeafId;
use crate::nvtree::leaf::{Leaf, Slots, TOMB, place_of, read_element};
use crate::nvtree::leaves::Leaves;

/// Distance from the leaf of the walk to the last one that it has asked for.
const DISTANCE: usize = 2;

/// The same where pages come from a disk one by one.
const DISTANCE_ALONE: usize = 5;

/// Most leaves behind the leaf of the walk whose records are asked for. The last leaf asked for may not have arrived.
const RECORDS_NEXT: usize = DISTANCE_ALONE - 1;

/// Leaves through which a walk has to go before it asks for the records of one more leaf.
const PASSED: usize = 2;

/// Most bytes of records that are asked for at once in one leaf. If it has more, they are asked for as the walk comes to
/// them.
const RECORDS_MAX: u64 = 256 << 10;

/// Leaves that are looked up at once.
const KNOWN: usize = 8;

pub(super) struct Prefetcher<'f> {
    leaves: &'f Leaves,
    /// The next leaves, as the inner nodes know them. They may be outdated.
    known: [Option<LeafId>; KNOWN],
    /// How many of them were asked for.
    asked: usize,
    distance: usize,
    /// Leaves that the walk has gone through.
    passed: usize,
    /// Leaves all of whose records were asked for, and to which the walk has not come.
    whole: Vec<LeafId>,
}

impl<'f> Prefetcher<'f> {
    pub(super) fn new(leaves: &'f Leaves) -> Prefetcher<'f> {
        let reads_alone = leaves.forest.region().reads_alone();
        let distance = if reads_alone { DISTANCE_ALONE } else { DISTANCE };
        let (known, whole) = ([None; KNOWN], Vec::new());
        Prefetcher { leaves, known, asked: 0, distance, passed: 0, whole }
    }

    /// Begins a walk in a leaf that covers the key and was not asked for. Returns whether all its records were asked for.
    pub(super) fn begin(&mut self, leaf: &Leaf<'_>, key: &[u8]) -> bool {
        leaf.side.prefetch_rest();
        leaf.prefetch_all();
        self.look_up(key);
        self.come_to(leaf)
    }

    /// Goes on to the next leaf, which covers the key. Returns whether all its records were asked for.
    pub(super) fn go_on(&mut self, leaf: &Leaf<'_>, key: &[u8]) -> bool {
        if !self.ask() {
            self.look_up(key);
        }
        self.come_to(leaf)
    }

    fn come_to(&mut self, leaf: &Leaf<'_>) -> bool {
        if !self.reads_alone() {
            return false;
        }
        self.ask_for_records();
        self.passed += 1;
        let place = self.whole.iter().position(|id| *id == leaf.id);
        // The walk has passed the leaves before it.
        place.inspect(|&place| drop(self.whole.drain(..=place))).is_some()
    }

    fn look_up(&mut self, key: &[u8]) {
        let Ok(inner) = self.leaves.inner() else { return };
        (self.known, self.asked) = (inner.behind(key, &*self.leaves.forest), 0);
        (0..self.distance).for_each(|_| {
            self.ask();
        });
    }

    /// Whether pages come from a disk one by one.
    fn reads_alone(&self) -> bool {
        self.distance == DISTANCE_ALONE
    }

    /// Looks up the next leaf in the list of leaves, behind all that were asked for: an inner node does not know the leaves
    /// of the next node.
    fn know_next(&mut self) {
        let last = self.asked.checked_sub(1).and_then(|place| self.leaf(place));
        let next = last.and_then(|last| last.next().ok().flatten());
        if let (Some(known), Some(next)) = (self.known.get_mut(self.asked), next) {
            known.get_or_insert(next.id);
        }
    }

    fn leaf(&self, place: usize) -> Option<Leaf<'f>> {
        let id = self.known.get(place).copied().flatten()?;
        Leaf::at(&self.leaves.forest, id).ok()
    }

    /// Asks for the next leaf. Returns false if none is known.
    fn ask(&mut self) -> bool {
        if self.reads_alone() && self.known.get(self.asked) == Some(&None) {
            self.know_next();
        }
        let Some(leaf) = self.leaf(self.asked) else {
            return false;
        };
        leaf.will_read();
        leaf.side.prefetch();
        leaf.prefetch_all();
        self.asked += 1;
        true
    }

    /// Asks for the records of leaves that are near.
    fn ask_for_records(&mut self) {
        let next = self.asked.saturating_sub(self.distance);
        let count = (self.passed / PASSED).min(RECORDS_NEXT);
        for place in next..(next + count).min(self.asked.saturating_sub(1)) {
            let Some(leaf) = self.leaf(place) else { return };
            if !self.whole.contains(&leaf.id) && ask_for_all(&leaf) {
                self.whole.push(leaf.id);
            }
        }
    }
}

/// Asks for the records of a leaf. Returns whether these are all. While a writer changes the leaf this asks for none.
fn ask_for_all(leaf: &Leaf<'_>) -> bool {
    let begin = || leaf.side.begin_now(leaf.forest.dead_epoch());
    // The walk would make the side-car anyway, and meets an error itself.
    let made = || make(leaf).ok().and_then(|()| begin());
    let Some(moment) = begin().or_else(made) else { return false };
    let (bytes, _) = leaf.side.bytes();
    let Ok(lines) = leaf.all_lines() else { return false };
    let newest = Slots(leaf.all_slots() & !bytes.at_most(TOMB));
    let elements = newest.filter_map(|slot| {
        let (number, at) = place_of(slot);
        Some(read_element(lines.get(number)?, at))
    });
    let records: Vec<Object> = elements.filter_map(|element| element.record()).collect();
    if records.iter().map(|record| record.size()).sum::<u64>() > RECORDS_MAX {
        return false;
    }
    records.iter().for_each(|record| leaf.region().will_read(record.offset(), record.size()));
    leaf.side.still(moment)
}
