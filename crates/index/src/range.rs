//! A range of keys, as the caller names it.

use std::ops::Bound;

/// From a bound to a bound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range<'k> {
    pub(crate) from: Bound<&'k [u8]>,
    pub(crate) to: Bound<&'k [u8]>,
}

impl Range<'_> {
    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        self.begins_at(key) && self.ends_after(key)
    }

    /// Whether the key is not below the range.
    pub(crate) fn begins_at(&self, key: &[u8]) -> bool {
        match self.from {
            Bound::Included(from) => key >= from,
            Bound::Excluded(from) => key > from,
            Bound::Unbounded => true,
        }
    }

    /// Whether the key is not above the range.
    pub(crate) fn ends_after(&self, key: &[u8]) -> bool {
        match self.to {
            Bound::Included(to) => key <= to,
            Bound::Excluded(to) => key < to,
            Bound::Unbounded => true,
        }
    }

    /// Whether its bounds leave no key.
    pub(crate) fn is_empty(&self) -> bool {
        match (self.from, self.to) {
            (Bound::Included(from), Bound::Included(to)) => from > to,
            (
                Bound::Included(from) | Bound::Excluded(from),
                Bound::Included(to) | Bound::Excluded(to),
            ) => from >= to,
            _ => false,
        }
    }
}
