//! A node where it lies, and how entries get into it and out of it.

use tembo_pmem::{LINE, Region, Word};

use super::format::{COUNT, FLAG, HEADER_WORDS, KEY, NEXT, POSITIVE, VALUE};
use crate::Error;

/// A node.
#[derive(Clone, Copy)]
pub(super) struct Node<'r> {
    pub(super) offset: u64,
    header: &'r [Word],
    entries: &'r [Word],
    /// Words in an entry: two, or three (appended elements).
    width: usize,
}

/// The content of an entry.
pub(super) type Entry = (u64, u64);

impl<'r> Node<'r> {
    pub(super) fn at(
        region: &'r Region,
        offset: u64,
        size: u64,
        width: usize,
    ) -> Result<Node<'r>, Error> {
        let words = region.words(offset, (size / 8) as usize)?;
        let (header, entries) = words.split_at(HEADER_WORDS);
        Ok(Node { offset, header, entries, width })
    }

    pub(super) fn capacity(&self) -> usize {
        self.entries.len() / self.width
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        (self.header[COUNT].load() as usize).min(self.capacity())
    }

    pub(super) fn count_word(&self) -> &'r Word {
        &self.header[COUNT]
    }

    pub(super) fn next(&self) -> &'r Word {
        &self.header[NEXT]
    }

    #[inline]
    pub(super) fn word(&self, at: usize, word: usize) -> &'r Word {
        &self.entries[at * self.width + word]
    }

    #[inline]
    pub(super) fn key(&self, at: usize) -> u64 {
        self.word(at, KEY).load()
    }

    /// The offset of an entry, from the start of the region.
    pub(super) fn entry_offset(&self, at: usize) -> u64 {
        self.offset + LINE + (at * self.width * 8) as u64
    }

    /// Bytes of so many entries.
    pub(super) fn bytes(&self, entries: usize) -> u64 {
        (entries * self.width * 8) as u64
    }

    /// The first of the sorted entries whose key is greater than `key`.
    #[inline]
    pub(super) fn after(&self, key: u64) -> usize {
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.key(middle) <= key { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Copies an entry over another.
    pub(super) fn copy(&self, region: &Region, from: usize, to: usize) {
        for word in 0..self.width {
            region.store(self.word(to, word), self.word(from, word).load());
        }
    }

    /// Stores an entry.
    pub(super) fn set(&self, region: &Region, at: usize, (key, value): Entry) {
        region.store(self.word(at, KEY), key);
        region.store(self.word(at, VALUE), value);
        if self.width == 3 {
            region.store(self.word(at, FLAG), POSITIVE);
        }
    }

    /// Fills an empty node that is not linked yet.
    pub(super) fn fill(&self, region: &Region, entries: &[Entry], next: u64) {
        for (at, entry) in entries.iter().enumerate() {
            self.set(region, at, *entry);
        }
        region.store(self.count_word(), entries.len() as u64);
        region.store(self.next(), next);
    }
}
