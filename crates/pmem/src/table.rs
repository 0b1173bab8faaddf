//! A long array of zeros that takes memory only where it is touched: what belongs to the pieces of a
//! region by their numbers, and is volatile.
#![allow(unsafe_code)]

use std::marker::PhantomData;

use zerocopy::FromZeros;

use crate::Error;
use crate::mapping::{Backing, Base, Mapping};

/// Values that begin as zeros and never move; those not touched cost address space only.
pub struct Table<T> {
    base: Base,
    len: usize,
    _mapping: Mapping,
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
    /// [`Error::Io`]: the system has no such address space.
    pub fn new(len: usize) -> Result<Table<T>, Error> {
        const {
            assert!(align_of::<T>() <= 4096 && !std::mem::needs_drop::<T>());
        }
        let size = (len as u64).saturating_mul(size_of::<T>() as u64).max(1);
        let mapping = Mapping::reserve(size, size)
            .and_then(|mapping| mapping.map(Backing::Anonymous, 0, size).map(|()| mapping))
            .map_err(|error| Error::io("map", std::path::Path::new("memory"), error))?;
        mapping.want_large_pages();
        Ok(Table { base: mapping.base(), len, _mapping: mapping, _values: PhantomData })
    }

    /// The value of that number; `None` beyond the end.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&T> {
        if index >= self.len {
            return None;
        }
        let at = self.base.at((index * size_of::<T>()) as u64);
        // SAFETY: in bounds, aligned (the mapping is, to 2 MiB), and zeros are a `T`; it is never moved or
        // dropped before the mapping.
        Some(unsafe { &*at.cast::<T>() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

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
        assert!(Table::<AtomicU64>::new(1 << 58).is_err());
    }
}
