//! Notes which records were verified.
//!
//! A record that was written in this life of the process came from no disk. One that was there before is
//! verified when it is first read; a bit in memory notes that. A pool that was made in this life of the process has no such
//! records, and pays one comparison.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tembo_pmem::Table;
use tembo_pool::Object;

/// Objects begin at multiples of so many bytes.
const GRANULE: u64 = 16;

/// The records below the frontier at which the pool was opened.
pub(crate) struct Verified {
    /// Records from this offset on were written after the opening.
    old_end: u64,
    /// A bit for each granule, made when the first record is verified.
    bits: OnceLock<Option<Table<AtomicU64>>>,
}

impl Verified {
    pub(crate) fn below(old_end: u64) -> Verified {
        Verified { old_end, bits: OnceLock::new() }
    }

    /// Whether the record was there at the opening and was not verified since.
    #[inline]
    pub(crate) fn is_owed(&self, record: Object) -> bool {
        record.offset() < self.old_end && !self.is_noted(record)
    }

    #[inline(never)]
    fn is_noted(&self, record: Object) -> bool {
        let (index, bit) = place(record);
        let bits = self.bits.get().and_then(Option::as_ref).and_then(|bits| bits.get(index));
        bits.is_some_and(|bits| bits.load(Ordering::Relaxed) & bit != 0)
    }

    /// Notes that the record is sound. If there is no memory for the note, it is verified again.
    pub(crate) fn note(&self, record: Object) {
        let (index, bit) = place(record);
        let bits =
            self.bits.get_or_init(|| Table::new(self.old_end.div_ceil(64 * GRANULE) as usize).ok());
        if let Some(bits) = bits.as_ref().and_then(|bits| bits.get(index)) {
            bits.fetch_or(bit, Ordering::Relaxed);
        }
    }
}

fn place(record: Object) -> (usize, u64) {
    let granule = record.offset() / GRANULE;
    ((granule / 64) as usize, 1 << (granule % 64))
}
