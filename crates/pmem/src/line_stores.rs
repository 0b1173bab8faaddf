//! Stores into one line, and its flush: what a region does for each store, done for all of them at once.
#![allow(unsafe_code)]

use crate::backend::Backend;
use crate::region::Region;
use crate::{Counters, LINE, Observer, Word};

/// Stores into one line. They become durable in the order in which they are made, after
/// [`flush`](Self::flush) and a fence.
#[must_use = "stores that are not flushed need not become durable"]
pub struct LineStores<'r> {
    region: &'r Region,
    observer: Option<&'r dyn Observer>,
    count: u64,
}

impl Region {
    /// For stores into a line of it.
    #[inline(always)]
    pub fn line_stores(&self) -> LineStores<'_> {
        debug_assert!(self.may_store(), "a store outside a section");
        LineStores { region: self, observer: self.observer(), count: 0 }
    }
}

impl LineStores<'_> {
    /// As [`Region::store`].
    #[inline(always)]
    pub fn store(&mut self, word: &Word, value: u64) {
        self.put(None, word, value);
    }

    /// As [`Region::commit`].
    #[inline(always)]
    pub fn commit(&mut self, name: &'static str, word: &Word, value: u64) {
        self.put(Some(name), word, value);
    }

    #[inline(always)]
    fn put(&mut self, name: Option<&'static str>, word: &Word, value: u64) {
        self.count += 1;
        match self.observer {
            None => word.put(value),
            Some(observer) => self.region.put_observed(observer, name, word, value),
        }
    }

    /// Flushes the line that a word of the region lies in: durable after the thread's next fence.
    #[inline(always)]
    pub fn flush(self, name: &'static str, word: &Word) {
        Counters::stored_in_line(self.count);
        match (self.region.backend(), self.observer) {
            (Backend::Flush(instruction), None) => {
                // SAFETY: a word is mapped; the region's domain has the instruction.
                unsafe { instruction.flush_line(std::ptr::from_ref(word).cast()) };
            }
            (Backend::Volatile | Backend::Eadr, None) => {}
            _ => self.region.flush_observed(name, self.region.offset_of(word) / LINE * LINE),
        }
    }
}
