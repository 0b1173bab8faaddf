//! Which pages the process holds copies of, and since which group.

use crate::mapping::PAGE;

const LEAF: usize = 512;

/// For each private page the sequence of the last group with a line of it.
#[derive(Debug, Default)]
pub(super) struct PageTable {
    leaves: Vec<Option<Box<[u64; LEAF]>>>,
    count: u64,
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
        self.count += u64::from(slots[slot] == 0);
        slots[slot] = sequence.max(1);
    }

    /// Pages that are private.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Takes out the runs of pages whose last group is before `sequence`: start and end in bytes.
    pub(super) fn take_before(&mut self, sequence: u64) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for (leaf, slots) in self.leaves.iter_mut().enumerate() {
            let Some(slots) = slots else {
                continue;
            };
            for (slot, last) in slots.iter_mut().enumerate() {
                if *last == 0 || *last >= sequence {
                    continue;
                }
                *last = 0;
                self.count -= 1;
                let start = (leaf * LEAF + slot) as u64 * PAGE;
                match runs.last_mut() {
                    Some((_, end)) if *end == start => *end += PAGE,
                    _ => runs.push((start, start + PAGE)),
                }
            }
        }
        runs
    }

    /// The pages of `start..end` are the file's again.
    pub(super) fn forget(&mut self, start: u64, end: u64) {
        for page in (start / PAGE) as usize..(end / PAGE) as usize {
            if let Some(Some(slots)) = self.leaves.get_mut(page / LEAF) {
                self.count -= u64::from(slots[page % LEAF] != 0);
                slots[page % LEAF] = 0;
            }
        }
    }
}
