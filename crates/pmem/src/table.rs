//! A long array of zeros that takes memory only where it is touched: what belongs to the pieces of a
//! region by their numbers, and is volatile.
//!
//! # Large pages
//! Where much of the table is in use, looking something up is quicker with pages of 2 MiB. But the first thread
//! that touches one waits until the system has made all of it: milliseconds in a guest whose memory its host gives
//! piece by piece. So no thread that works with the values is to be the first. Numbers are used about in their
//! order; a thread that uses one for the first time says so ([`Table::reach`]), and a thread with time to spare
//! [prefaults](Table::prefault) what comes next. Only there pages are large: a thread that comes to where nothing was
//! prefaulted touches a small page, because the system has not been asked for large ones.
//!
//! No memory is taken that is of no use: the first large page's worth is always of small ones, and where
//! few of the values are used, as when most of a region belongs to something else, all of them are small.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

use zerocopy::FromZeros;

use crate::Error;
use crate::mapping::{Backing, Base, LARGE_PAGE, Mapping, PAGE, SIZE_MAX};

/// So many bytes behind what is in use are to be ready.
const MARGIN: u64 = LARGE_PAGE / 2;

/// Of so many values at least one must be in use for large pages to be worth their memory.
const SPARSE: u64 = 4;

/// Values that begin as zeros and never move; those not touched cost address space only.
pub struct Table<T> {
    base: Base,
    len: usize,
    mapping: Mapping,
    /// What is in use begins before this byte.
    reached: AtomicU64,
    /// Where that was when pages were last prefaulted, or where it began; and bytes of values that have come
    /// into use since.
    before: AtomicU64,
    since: AtomicU64,
    /// Pages before this byte are ready, or were passed before they were.
    ready: AtomicU64,
    _values: PhantomData<T>,
}

// SAFETY: it owns its values and lends them shared.
unsafe impl<T: Send> Send for Table<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Table<T> {}

impl<T: FromZeros> Table<T> {
    /// A table of `len` values.
    ///
    /// # Errors
    /// [`Error::Io`]: the system has no such address space; [`Error::Oversize`]: no system has.
    pub fn new(len: usize) -> Result<Table<T>, Error> {
        const {
            assert!(align_of::<T>() <= 4096 && !std::mem::needs_drop::<T>() && size_of::<T>() > 0);
        }
        let size = (len as u64).saturating_mul(size_of::<T>() as u64).max(1);
        if size > SIZE_MAX {
            return Err(Error::Oversize { size, size_max: SIZE_MAX });
        }
        let mapping = Mapping::reserve(size, size)
            .and_then(|mapping| mapping.map(Backing::Anonymous, 0, size).map(|()| mapping))
            .map_err(|error| Error::io("map", std::path::Path::new("memory"), error))?;
        mapping.want_small_pages();
        Ok(Table {
            base: mapping.base(),
            len,
            mapping,
            reached: AtomicU64::new(0),
            before: AtomicU64::new(0),
            since: AtomicU64::new(0),
            ready: AtomicU64::new(LARGE_PAGE),
            _values: PhantomData,
        })
    }

    /// The value of that number; `None` beyond the end.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&T> {
        self.as_slice().get(index)
    }

    /// All values.
    #[inline]
    pub fn as_slice(&self) -> &[T] {
        // SAFETY: the mapping has room for so many and is aligned, to 2 MiB; zeros are a `T`; they are never
        // moved, or dropped before the mapping.
        unsafe { std::slice::from_raw_parts(self.base.at(0).cast::<T>(), self.len) }
    }

    /// Says that `count` of the values before `end` are in use by now, and may be touched in any order: if
    /// that is not too few, pages will be large there.
    pub fn expect(&self, count: usize, end: usize) {
        let bytes = |values: usize| (values.min(self.len) * size_of::<T>()) as u64;
        if bytes(count) * SPARSE >= bytes(end) {
            self.mapping.want_large_pages(LARGE_PAGE, bytes(end));
        }
    }

    /// Says that the value of that number comes into use. Whether [`prefault`](Table::prefault) has
    /// something to do.
    #[inline]
    pub fn reach(&self, index: usize) -> bool {
        let at = (index.min(self.len) * size_of::<T>()) as u64;
        let reached = self.reached.load(Ordering::Relaxed);
        if at > reached {
            if reached == 0 {
                self.before.store(at, Ordering::Relaxed);
            }
            self.reached.fetch_max(at, Ordering::Relaxed);
            self.since.fetch_add(size_of::<T>() as u64, Ordering::Relaxed);
        }
        self.is_short()
    }

    /// Whether too little is ready behind what is in use.
    #[inline]
    pub fn is_short(&self) -> bool {
        self.ready.load(Ordering::Relaxed) < self.wanted()
    }

    /// So far pages are to be ready.
    #[inline]
    fn wanted(&self) -> u64 {
        let near = self.reached.load(Ordering::Relaxed) + MARGIN;
        let end = (self.len * size_of::<T>()) as u64;
        (near / LARGE_PAGE * LARGE_PAGE + LARGE_PAGE).min(end / LARGE_PAGE * LARGE_PAGE)
    }

    /// Makes ready what comes behind what is in use, by large pages where the system has them. `touch`
    /// stores to a value without changing it, which others may do something with meanwhile.
    pub fn prefault(&self, touch: impl Fn(&T)) {
        let (ready, wanted) = (self.ready.load(Ordering::Relaxed), self.wanted());
        if ready >= wanted {
            return;
        }
        let reached = self.reached.load(Ordering::Relaxed);
        let passed = reached - self.before.swap(reached, Ordering::Relaxed).min(reached);
        let is_dense = self.since.swap(0, Ordering::Relaxed) * SPARSE >= passed;
        // What has small pages already keeps them.
        let from = ready.max(reached.next_multiple_of(LARGE_PAGE));
        if is_dense && from < wanted {
            self.mapping.want_large_pages(from, wanted);
            // By touching and not by asking the system, which would keep the whole address space locked
            // until it is done: others want to map.
            let (first, last) =
                (from.div_ceil(size_of::<T>() as u64), wanted / size_of::<T>() as u64);
            let values = first as usize..last as usize;
            let per_page = (PAGE as usize / size_of::<T>()).max(1);
            values.step_by(per_page).filter_map(|index| self.get(index)).for_each(touch);
        }
        self.ready.fetch_max(wanted, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_begin_as_zeros_and_stay_where_they_are() {
        // More than there is memory for.
        let table = Table::<AtomicU64>::new(1 << 36).unwrap();
        for index in [0, 1, 511, 512, (1 << 36) - 1] {
            assert_eq!(table.get(index).unwrap().fetch_add(index as u64 + 1, Ordering::Relaxed), 0);
        }
        for index in [0, 1, 511, 512, (1 << 36) - 1] {
            assert_eq!(table.get(index).unwrap().load(Ordering::Relaxed), index as u64 + 1);
        }
        assert!(table.get(1 << 36).is_none());
        assert!(Table::<AtomicU64>::new(0).unwrap().get(0).is_none());
    }

    #[test]
    fn what_cannot_be_reserved_is_an_error() {
        for bits in 46..64 {
            assert!(Table::<AtomicU64>::new(1 << bits).is_err(), "2^{bits}");
            assert!(Table::<AtomicU64>::new(usize::MAX - (1 << (bits - 4))).is_err());
        }
        let too_many = Table::<AtomicU64>::new(1 << 61);
        assert!(matches!(too_many, Err(Error::Oversize { .. })));
    }
}
