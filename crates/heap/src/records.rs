//! Ownership records that a transaction has met.

use crate::ownership::RECORDS;

/// Records, each once, with the version that it had.
#[derive(Default)]
pub(crate) struct Records {
    /// A bit for each record of the table; empty until there is one.
    is_in: Vec<u64>,
    all: Vec<(usize, u64)>,
}

impl Records {
    #[inline]
    pub(crate) fn contains(&self, index: usize) -> bool {
        self.is_in.get(index / 64).is_some_and(|bits| bits >> (index % 64) & 1 != 0)
    }

    /// Adds a record, unless it is there.
    #[inline]
    pub(crate) fn insert(&mut self, index: usize, version: u64) {
        if self.is_in.is_empty() {
            self.is_in.resize(RECORDS / 64, 0);
        }
        let (bits, bit) = (&mut self.is_in[index / 64], 1 << (index % 64));
        if *bits & bit == 0 {
            *bits |= bit;
            self.all.push((index, version));
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, u64)> {
        self.all.iter().copied()
    }

    pub(crate) fn clear(&mut self) {
        for (index, _) in self.all.drain(..) {
            self.is_in[index / 64] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_in_it_once_and_with_its_first_version() {
        let mut records = Records::default();
        assert!(!records.contains(0) && !records.contains(RECORDS - 1));
        for (index, version) in [(5, 1), (RECORDS - 1, 2), (5, 3), (64, 4)] {
            records.insert(index, version);
        }
        assert!(records.contains(5) && records.contains(64) && !records.contains(6));
        assert_eq!(records.iter().collect::<Vec<_>>(), [(5, 1), (RECORDS - 1, 2), (64, 4)]);
        records.clear();
        assert!(!records.contains(5) && !records.contains(RECORDS - 1) && !records.contains(64));
        assert_eq!(records.iter().count(), 0);
    }
}
