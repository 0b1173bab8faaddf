//! Leaves that a walk will come to, asked for before it does: one after the other each would have to be waited
//! for. More than two at once make the processor wait for lines that are needed later before it has those that
//! are needed now, and are for nothing where a walk ends.
//!
//! Where pages come from a disk one by one, it reads many side by side, and a leaf has fewer records than that. So there more
//! leaves are asked for, and of those that are there by then the records: of none in the first leaves of a walk, which may end
//! soon, then of more and more of them.

use tembo_pool::Object;

use crate::nvtree::image::make;
use crate::nvtree::inner::LeafId;
use crate::nvtree::leaf::{Leaf, Slots, TOMB, place_of, read_element};
use crate::nvtree::leaves::Leaves;

/// Leaves between that in which a walk is and the last that it has asked for.
const DISTANCE: usize = 2;

/// As many where pages come from a disk one by one.
const DISTANCE_ALONE: usize = 5;

/// Leaves behind that in which a walk is of which the records are asked for, at most: the last one asked for may not be there
/// yet.
const RECORDS_NEXT: usize = DISTANCE_ALONE - 1;

/// Leaves that a walk goes through for each of these.
const PASSED: usize = 2;

/// Bytes of records that are asked for of one leaf. Of one that has more they are asked for as the walk comes to them.
const RECORDS_MAX: u64 = 256 << 10;

/// Leaves that are looked up at once.
const KNOWN: usize = 8;

pub(super) struct Prefetcher<'f> {
    leaves: &'f Leaves,
    /// What the inner nodes say comes next; may be outdated.
    known: [Option<LeafId>; KNOWN],
    /// So many of them were asked for.
    asked: usize,
    distance: usize,
    /// Leaves that the walk has gone through.
    passed: usize,
    /// Leaves of which all records were asked for, and to which it has not come.
    whole: Vec<LeafId>,
}

impl<'f> Prefetcher<'f> {
    pub(super) fn new(leaves: &'f Leaves) -> Prefetcher<'f> {
        let reads_alone = leaves.forest.region().reads_alone();
        let distance = if reads_alone { DISTANCE_ALONE } else { DISTANCE };
        let (known, whole) = ([None; KNOWN], Vec::new());
        Prefetcher { leaves, known, asked: 0, distance, passed: 0, whole }
    }

    /// Nothing has asked for the leaf, which covers the key. Whether all its records were asked for.
    pub(super) fn begin(&mut self, leaf: &Leaf<'_>, key: &[u8]) -> bool {
        leaf.side.prefetch_rest();
        leaf.prefetch_all();
        self.look_up(key);
        self.come_to(leaf)
    }

    /// The walk is in the next leaf, which covers the key. Whether all its records were asked for.
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
        // What lies before it the walk has passed by.
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

    /// Looks up, in the list of leaves, the one that comes behind all that were asked for: an inner node does not know those of
    /// the next.
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

    /// False: there is none that is known.
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

/// Asks for the records of a leaf; whether these are all. A leaf that a writer is at has others a moment later.
fn ask_for_all(leaf: &Leaf<'_>) -> bool {
    let begin = || leaf.side.begin_now(leaf.forest.dead_epoch());
    // The walk would make the side-car, and what goes wrong there is met by it.
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
