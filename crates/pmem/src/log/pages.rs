//! Which pages the log has lines of, up to which group, and which of them the process holds copies of.
//!
//! A copy may be given back before the log is trimmed: the pool file has the page then, and the log its lines still, until a header
//! no longer names their groups. If that header cannot be written, a checkpoint writes them once more. So a page that was given
//! back keeps its group.

use std::ops::Range;

use crate::mapping::PAGE;

const LEAF: usize = 512;

/// Beside the sequence of a page: its copy was given back.
const GIVEN: u64 = 1 << 63;

/// Whether the process holds a copy of a page, by its word.
fn is_private(word: u64) -> bool {
    word != 0 && word & GIVEN == 0
}

/// For each page the sequence of the last group with a line of it, and whether it is private: the process has a copy of it.
#[derive(Debug, Default)]
pub(super) struct PageTable {
    leaves: Vec<Option<Box<[u64; LEAF]>>>,
    count: u64,
    /// The leaf that was looked through last.
    hand: usize,
}

impl PageTable {
    /// A group has a line of the page that holds `offset`. Sequences are never zero here: a page
    /// replayed from an empty log does not exist.
    pub(super) fn touch(&mut self, offset: u64, sequence: u64) {
        let page = (offset / PAGE) as usize;
        let (leaf, slot) = (page / LEAF, page % LEAF);
        if leaf >= self.leaves.len() {
            self.leaves.resize_with(leaf + 1, || None);
        }
        let slots = self.leaves[leaf].get_or_insert_with(|| Box::new([0; LEAF]));
        self.count += u64::from(!is_private(slots[slot]));
        slots[slot] = sequence.max(1);
    }

    /// The sequence of the last group with a line of the pages in `start..end`, private or not.
    pub(super) fn newest(&self, start: u64, end: u64) -> u64 {
        let pages = (start / PAGE) as usize..end.div_ceil(PAGE) as usize;
        let last =
            |page: usize| Some(self.leaves.get(page / LEAF)?.as_ref()?[page % LEAF] & !GIVEN);
        pages.filter_map(last).max().unwrap_or(0)
    }

    /// Pages that are private.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Takes up to `most` private pages whose last group is before `sequence`, which are private no more, going round the region:
    /// runs of them, start and end in bytes. Empty when a whole round finds none.
    pub(super) fn take_before(&mut self, sequence: u64, most: u64) -> Vec<(u64, u64)> {
        let (mut runs, mut taken) = (Vec::new(), 0);
        for _ in 0..self.leaves.len() {
            if taken >= most {
                break;
            }
            self.hand = (self.hand + 1) % self.leaves.len();
            taken += self.take_leaf((self.hand, 0..LEAF), sequence, &mut runs);
        }
        self.count -= taken;
        runs
    }

    /// Takes the private pages of `range`, of whole pages, whose last group is before `sequence`, and stops behind a piece in which
    /// it has taken `most` of them: runs of them, and where it goes on.
    pub(super) fn take_within(
        &mut self,
        range: Range<u64>,
        sequence: u64,
        most: u64,
    ) -> (Vec<(u64, u64)>, u64) {
        let (mut runs, mut taken) = (Vec::new(), 0);
        let (mut page, end) = ((range.start / PAGE) as usize, (range.end / PAGE) as usize);
        let end = end.min(self.leaves.len() * LEAF);
        while page < end && taken < most {
            let leaf = page / LEAF;
            let slots = page % LEAF..(end - leaf * LEAF).min(LEAF);
            page = leaf * LEAF + slots.end;
            taken += self.take_leaf((leaf, slots), sequence, &mut runs);
        }
        self.count -= taken;
        (runs, if page < end { page as u64 * PAGE } else { range.end })
    }

    fn take_leaf(
        &mut self,
        (leaf, chosen): (usize, Range<usize>),
        sequence: u64,
        runs: &mut Vec<(u64, u64)>,
    ) -> u64 {
        let Some(slots) = &mut self.leaves[leaf] else {
            return 0;
        };
        let mut taken = 0;
        for (slot, last) in slots.iter_mut().enumerate().take(chosen.end).skip(chosen.start) {
            if !is_private(*last) || *last >= sequence {
                continue;
            }
            *last |= GIVEN;
            taken += 1;
            let start = (leaf * LEAF + slot) as u64 * PAGE;
            match runs.last_mut() {
                Some((_, end)) if *end == start => *end += PAGE,
                _ => runs.push((start, start + PAGE)),
            }
        }
        taken
    }

    /// The pages of `start..end` are the file's again, and no line of them counts any more.
    pub(super) fn forget(&mut self, start: u64, end: u64) {
        for page in (start / PAGE) as usize..(end / PAGE) as usize {
            if let Some(Some(slots)) = self.leaves.get_mut(page / LEAF) {
                self.count -= u64::from(is_private(slots[page % LEAF]));
                slots[page % LEAF] = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_that_is_old_enough_is_taken_once() {
        let mut table = PageTable::default();
        // Some pages, each with the number of its last group.
        let pages: Vec<(u64, u64)> = (0..3000).map(|at| (at * 7 % 5000, 1 + at % 50)).collect();
        pages.iter().for_each(|(page, sequence)| table.touch(page * PAGE, *sequence));
        table.forget(100 * PAGE, 200 * PAGE);
        let mut expected: Vec<u64> = pages
            .iter()
            .filter(|(page, sequence)| *sequence < 30 && !(100..200).contains(page))
            .map(|(page, _)| *page)
            .collect();
        expected.sort_unstable();
        let (before, mut found) = (table.count(), Vec::new());
        loop {
            let runs = table.take_before(30, 40);
            if runs.is_empty() {
                break;
            }
            runs.iter().for_each(|(start, end)| found.extend(start / PAGE..end / PAGE));
        }
        found.sort_unstable();
        assert_eq!(found, expected);
        assert_eq!(table.count(), before - expected.len() as u64);
    }

    #[test]
    fn a_page_that_was_given_back_keeps_its_group_until_it_is_forgotten() {
        let mut table = PageTable::default();
        [3, 4].into_iter().for_each(|page| table.touch(page * PAGE, 7 + page));
        assert_eq!(table.take_within(0..8 * PAGE, 11, 100).0, [(3 * PAGE, 4 * PAGE)]);
        assert_eq!((table.count(), table.newest(3 * PAGE, 4 * PAGE)), (1, 10));
        assert!(table.take_within(0..8 * PAGE, 11, 100).0.is_empty());
        // It is stored to again.
        table.touch(3 * PAGE, 12);
        assert_eq!((table.count(), table.newest(0, 8 * PAGE)), (2, 12));
        assert_eq!(table.take_before(13, 100), [(3 * PAGE, 5 * PAGE)]);
        table.forget(3 * PAGE, 5 * PAGE);
        assert_eq!((table.count(), table.newest(0, 8 * PAGE)), (0, 0));
    }

    #[test]
    fn of_a_range_every_page_is_taken_that_is_old_enough_and_no_other() {
        let mut table = PageTable::default();
        for page in (0..5000_u64).filter(|page| !page.is_multiple_of(3)) {
            table.touch(page * PAGE, 1 + page % 50);
        }
        let before = table.count();
        let (range, mut found, mut pieces) = (777 * PAGE..4001 * PAGE, Vec::new(), 0);
        let mut at = range.start;
        while at < range.end {
            let (runs, next) = table.take_within(at..range.end, 30, 100);
            assert!(next > at);
            runs.iter().for_each(|(start, end)| found.extend(start / PAGE..end / PAGE));
            (at, pieces) = (next, pieces + 1);
        }
        let is_old = |page: &u64| !page.is_multiple_of(3) && 1 + page % 50 < 30;
        let expected: Vec<u64> = (777..4001).filter(is_old).collect();
        assert!(found == expected && pieces > 5, "{pieces} pieces");
        assert_eq!(table.count(), before - expected.len() as u64);
        // Behind the last page that was ever touched there is nothing.
        assert_eq!(table.take_within(9000 * PAGE..9999 * PAGE, 99, 1).1, 9999 * PAGE);
    }
}
