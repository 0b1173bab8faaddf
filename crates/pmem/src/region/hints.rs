//! Hints: what will be touched soon. None changes a byte.

use super::Region;
use crate::prefetch::prefetch;

impl Region {
    /// Says that `len` bytes at `offset`, which have not been used yet, will soon be stored to: their pages
    /// come together, not one by one. A hint, which changes nothing.
    pub fn prefault(&self, offset: u64, len: u64) {
        if self.range(offset, len).is_ok() {
            self.mapping.prefault(offset, offset + len);
        }
    }

    /// Says that `len` bytes at `offset` will soon be stored to: what a file has of their pages comes together, without what lies
    /// around them. A hint, of any range.
    pub fn will_store(&self, offset: u64, len: u64) {
        self.mapping.will_store(offset, offset.saturating_add(len));
    }

    /// Makes large pages of `len` bytes at `offset`, as far as whole ones lie there, if the region is a file in
    /// memory: what is looked up there is found quicker, by a third in gigabytes. Takes milliseconds a page, and
    /// a thread that touches one meanwhile waits: so before it is used. A hint, which changes nothing.
    pub fn make_large_pages(&self, offset: u64, len: u64) {
        if self.emulated && self.range(offset, len).is_ok() {
            self.mapping.make_large_pages(offset, offset + len);
        }
    }

    /// Says that `len` bytes at `offset` will soon be read: where the pool is larger than memory, their pages are asked for,
    /// and come while the thread goes on. A hint, of any range.
    #[inline]
    pub fn will_read(&self, offset: u64, len: u64) {
        self.mapping.will_read(offset, offset.saturating_add(len));
    }

    /// As [`will_read`](Region::will_read), of a range that is read at once: the pages in which it lies come together. One page
    /// comes as soon without being asked for.
    #[inline]
    pub fn will_read_now(&self, offset: u64, len: u64) {
        self.mapping.will_touch(offset, offset.saturating_add(len));
    }

    /// Whether pages come from the disk one by one, so that [`will_read`](Region::will_read) has a use.
    #[inline]
    pub fn reads_alone(&self) -> bool {
        self.mapping.reads_alone()
    }

    /// Says that the line at `offset` will be looked at soon. A hint, of any offset.
    #[inline]
    pub fn prefetch(&self, offset: u64) {
        prefetch(self.base.at(offset));
    }
}
