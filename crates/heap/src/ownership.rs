//! Ownership records: which transaction changes an object, and when it was changed last. In memory only.
//!
//! A record stands for the objects whose offsets hash to it. It holds the version of the last commit that changed or made one of them, and
//! whether a transaction owns it. A transaction owns the records of what it changes from its first change on (writes conflict at once), and notes the
//! records of what it reads. It looks at them again when it commits, unless no other has committed since it began, and whenever it meets
//! a version that is newer than its beginning: so it never sees two states at a time. (NV-heaps §4.3.5; the clock is that of TL2,
//! Dice et al. 2006.)

use crate::sync::atomic::{AtomicU64, Ordering, fence};

/// Records in the table.
pub(crate) const RECORDS: usize = 1 << 12;

/// Below the version.
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

    /// The version of a record that the caller owns: that before, or of a commit that has made one of its objects since.
    #[inline]
    pub(crate) fn version_of_own(&self, index: usize) -> u64 {
        self.records[index].load(Ordering::SeqCst) >> 1
    }

    /// Whether a record still has that version, after what was read under it. A word of a later version was stored behind a release: a
    /// `Word` by itself, the contents of a new object behind a fence. So what has seen it sees here that the record is owned, or has that
    /// version, and what looks at the clock then sees that a commit has begun.
    #[inline]
    pub(crate) fn is_still(&self, index: usize, version: u64) -> bool {
        fence(Ordering::Acquire);
        self.version(index) == Some(version)
    }

    /// Takes a record of that version.
    pub(crate) fn take(&self, index: usize, version: u64) -> bool {
        let (record, free) = (&self.records[index], version << 1);
        record.compare_exchange(free, free | OWNED, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Gives a record back with a version. The caller has locked the ledger.
    pub(crate) fn give(&self, index: usize, version: u64) {
        self.records[index].store(version << 1, Ordering::SeqCst);
    }

    /// Gives a record back, with the version that it has.
    pub(crate) fn give_back(&self, index: usize) {
        self.records[index].fetch_and(!OWNED, Ordering::SeqCst);
    }

    /// Gives a version to a record of an object that was made, also while another transaction owns it. The caller has locked the ledger.
    pub(crate) fn raise(&self, index: usize, version: u64) {
        let raised = |word: u64| Some(version << 1 | word & OWNED);
        let _ = self.records[index].fetch_update(Ordering::SeqCst, Ordering::SeqCst, raised);
    }

    /// The version of a commit, or of its beginning.
    pub(crate) fn next(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst) + 1
    }
}
