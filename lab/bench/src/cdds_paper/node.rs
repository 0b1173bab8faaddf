//! A node where it lies.

use tembo_pmem::{LINE, Region, Word};

use super::format::{
    COUNT, EMPTY, END, ENTRY_WORDS, HALF_WRITTEN, HEADER_WORDS, KEY, LEVEL, LIVE, START, VALUE,
};
use crate::Error;

/// A key with its value, or with the object of a child.
pub(super) type Pair = (u64, u64);

/// A node.
#[derive(Clone, Copy)]
pub(super) struct Node<'r> {
    pub(super) offset: u64,
    header: &'r [Word],
    entries: &'r [Word],
}

impl<'r> Node<'r> {
    pub(super) fn at(region: &'r Region, offset: u64, size: u64) -> Result<Node<'r>, Error> {
        let words = region.words(offset, (size / 8) as usize)?;
        let (header, entries) = words.split_at(HEADER_WORDS);
        Ok(Node { offset, header, entries })
    }

    pub(super) fn capacity(&self) -> usize {
        self.entries.len() / ENTRY_WORDS
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        (self.header[COUNT].load() as usize).min(self.capacity())
    }

    pub(super) fn set_count(&self, region: &Region, count: usize) {
        region.store(&self.header[COUNT], count as u64);
    }

    /// Slots up to the first without an entry: what the count is after a crash.
    #[cfg(test)]
    pub(super) fn counted(&self) -> usize {
        (0..self.capacity()).take_while(|at| self.start(*at) != EMPTY).count()
    }

    pub(super) fn level(&self) -> u64 {
        self.header[LEVEL].load()
    }

    pub(super) fn is_leaf(&self) -> bool {
        self.level() == 0
    }

    #[inline]
    fn word(&self, at: usize, word: usize) -> &'r Word {
        &self.entries[at * ENTRY_WORDS + word]
    }

    #[inline]
    pub(super) fn key(&self, at: usize) -> u64 {
        self.word(at, KEY).load()
    }

    #[inline]
    pub(super) fn value(&self, at: usize) -> u64 {
        self.word(at, VALUE).load()
    }

    #[cfg(test)]
    pub(super) fn start(&self, at: usize) -> u64 {
        self.word(at, START).load()
    }

    pub(super) fn end(&self, at: usize) -> u64 {
        self.word(at, END).load()
    }

    #[inline]
    pub(super) fn is_live(&self, at: usize) -> bool {
        self.end(at) == LIVE
    }

    /// The offset of an entry, from the start of the region.
    pub(super) fn entry_offset(&self, at: usize) -> u64 {
        self.offset + LINE + (at * ENTRY_WORDS * 8) as u64
    }

    /// Bytes of an entry.
    pub(super) const ENTRY_BYTES: u64 = (ENTRY_WORDS * 8) as u64;

    /// The first of the sorted entries whose key is not less than `key`.
    #[inline]
    pub(super) fn lower_bound(&self, key: u64) -> usize {
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.key(middle) < key { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// The first of the sorted entries whose key is greater than `key`.
    pub(super) fn upper_bound(&self, key: u64) -> usize {
        let first = self.lower_bound(key);
        (first..self.count()).find(|at| self.key(*at) != key).unwrap_or(self.count())
    }

    /// The live entry of a key that is sorted in, or of the next greater one: algorithm 1's `find`.
    #[inline]
    pub(super) fn find_from(&self, key: u64) -> Option<usize> {
        (self.lower_bound(key)..self.count()).find(|at| self.is_live(*at))
    }

    pub(super) fn live_slots(&self) -> impl Iterator<Item = usize> + use<'r, '_> {
        (0..self.count()).filter(|at| self.is_live(*at))
    }

    pub(super) fn live_count(&self) -> usize {
        self.live_slots().count()
    }

    /// Live entries in the order of their keys.
    pub(super) fn live_entries(&self) -> Vec<Pair> {
        let mut live: Vec<Pair> =
            self.live_slots().map(|at| (self.key(at), self.value(at))).collect();
        // Of unordered leaves; sorted ones cost little.
        live.sort_unstable();
        live
    }

    /// Writes an entry over what is in its slot: never the half of it, for its start comes last.
    pub(super) fn write(&self, region: &Region, at: usize, entry: [u64; ENTRY_WORDS]) {
        region.store(self.word(at, START), HALF_WRITTEN);
        for word in [KEY, VALUE, END] {
            region.store(self.word(at, word), entry[word]);
        }
        region.store(self.word(at, START), entry[START]);
    }

    pub(super) fn read(&self, at: usize) -> [u64; ENTRY_WORDS] {
        std::array::from_fn(|word| self.word(at, word).load())
    }

    pub(super) fn set_end(&self, region: &Region, at: usize, version: u64) {
        region.store(self.word(at, END), version);
    }

    pub(super) fn clear(&self, region: &Region, at: usize) {
        region.store(self.word(at, START), EMPTY);
    }

    /// Fills a node that nothing names yet: sorted entries, the rest empty.
    pub(super) fn fill(&self, region: &Region, level: u64, entries: &[[u64; ENTRY_WORDS]]) {
        for (at, entry) in entries.iter().enumerate() {
            for (word, value) in entry.iter().enumerate() {
                region.store(self.word(at, word), *value);
            }
        }
        for at in entries.len()..self.capacity() {
            self.clear(region, at);
        }
        region.store(&self.header[LEVEL], level);
        self.set_count(region, entries.len());
    }
}
