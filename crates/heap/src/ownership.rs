//! Ownership records: which transaction changes an object, and when it was changed last. In memory only.
//!
//! A record stands for the objects whose offsets hash to it. It holds a version, or, while a transaction owns it, that transaction's
//! number. A transaction owns the records of what it changes from its first change on (writes conflict at once), and notes the
//! records of what it reads. It looks at them again when it commits, unless no other has committed since it began, and whenever it meets
//! a version that is newer than its beginning: so it never sees two states at a time. (NV-heaps §4.3.5; the clock is that of TL2,
//! Dice et al. 2006.)

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Records in the table.
pub(crate) const RECORDS: usize = 1 << 12;

const OWNED: u64 = 1;

/// The table.
pub(crate) struct Ownership {
    records: Box<[AtomicU64]>,
    /// The version of the last commit, or of the one that is being made.
    clock: AtomicU64,
}

impl Ownership {
    pub(crate) fn new() -> Ownership {
        let records = (0..RECORDS).map(|_| AtomicU64::new(0)).collect();
        Ownership { records, clock: AtomicU64::new(0) }
    }

    /// The record of an object.
    #[inline]
    pub(crate) fn index(bits: u64) -> usize {
        (bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize % RECORDS
    }

    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.clock.load(Ordering::SeqCst)
    }

    /// The version of a record that no transaction owns.
    #[inline]
    pub(crate) fn version(&self, index: usize) -> Option<u64> {
        let word = self.records[index].load(Ordering::SeqCst);
        (word & OWNED == 0).then_some(word >> 1)
    }

    /// Whether a record still has that version, after what was read under it. Words of the region are loaded to acquire, and stored to
    /// release what was stored before: so a word of a later version shows that the record is owned, or has that version.
    #[inline]
    pub(crate) fn is_still(&self, index: usize, version: u64) -> bool {
        fence(Ordering::Acquire);
        self.version(index) == Some(version)
    }

    /// Takes a record of that version.
    pub(crate) fn take(&self, index: usize, version: u64) -> bool {
        let record = &self.records[index];
        record.compare_exchange(version << 1, OWNED, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Gives a record back with a version.
    pub(crate) fn give(&self, index: usize, version: u64) {
        self.records[index].store(version << 1, Ordering::SeqCst);
    }

    /// The version of a commit, or of its beginning.
    pub(crate) fn next(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst) + 1
    }
}
