//! How many bytes the data takes, as far as `maxmemory` is concerned.
//!
//! What is removed goes on taking space in the pool until the store has collected it, or while a version is retained that sees
//! it. So the pool alone cannot say whether enough was evicted. The footprint is an estimate beside it: it rises and falls at
//! once with what changes add and remove, and is never above what the pool has in use. When the store has nothing left to
//! collect it is not below half of that, so that an estimate that has drifted cannot let the pool grow without bound. That the
//! event loop finds no background work is not enough: another thread may be at it.

use tembo_kv::Report;

use crate::dataset::written::Written;

/// Bytes that an entry takes beside its key and value, about.
const ENTRY_SIZE: usize = 32;
/// After changes of so many bytes the pool is asked again.
const ASKED_AGAIN: u64 = 64 << 10;

/// Bytes that an entry of the store takes, about.
#[inline]
pub(super) fn entry_size(key: usize, value: usize) -> u64 {
    (ENTRY_SIZE + key + value) as u64
}

/// The estimate, while there is one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Footprint {
    /// Changes are counted.
    pub(super) is_counted: bool,
    /// The store's own recovery is over: what the pool has in use is known.
    is_known: bool,
    /// The estimate when the pool was last asked.
    bytes: u64,
    /// What was written until then.
    at: Written,
}

impl Footprint {
    /// Counts from here on, or does not.
    pub(super) fn count(&mut self, is_wanted: bool, report: &Report, written: Written) {
        if is_wanted != self.is_counted {
            let bytes = report.used_bytes;
            let is_known = !report.recovering;
            *self = Footprint { is_counted: is_wanted, is_known, bytes, at: written };
        }
    }

    /// Bytes that an entry with so many in its key and value takes, about; 0 while changes are not counted.
    #[inline]
    pub(super) fn size_if_counted(&self, size: usize) -> u64 {
        if self.is_counted { entry_size(size, 0) } else { 0 }
    }

    /// The estimate.
    #[inline]
    pub(super) fn bytes(&self, written: Written) -> u64 {
        // What was written since may have been taken back.
        let added = written.added.saturating_sub(self.at.added);
        (self.bytes + added).saturating_sub(written.removed.saturating_sub(self.at.removed))
    }

    /// Whether so much was changed that the pool is to be asked.
    #[inline]
    pub(super) fn is_old(&self, written: Written) -> bool {
        let added = written.added.saturating_sub(self.at.added);
        added + written.removed.saturating_sub(self.at.removed) >= ASKED_AGAIN
    }

    /// Takes over what the pool says.
    pub(super) fn adjust(&mut self, report: &Report, written: Written) {
        let estimate = self.bytes(written);
        let least = if report.collected { report.used_bytes / 2 } else { 0 };
        self.bytes = if self.is_known {
            estimate.max(least).min(report.used_bytes)
        } else {
            report.used_bytes
        };
        self.is_known |= !report.recovering;
        self.at = written;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(used_bytes: u64) -> Report {
        Report { used_bytes, ..Report::default() }
    }

    fn collected(used_bytes: u64) -> Report {
        Report { collected: true, ..report(used_bytes) }
    }

    fn written(added: u64, removed: u64) -> Written {
        Written { added, removed, ..Written::default() }
    }

    #[test]
    fn what_was_removed_does_not_count_before_the_pool_has_collected_it() {
        let mut footprint = Footprint::default();
        footprint.count(true, &report(1000), written(0, 0));
        assert_eq!(footprint.bytes(written(200, 0)), 1200);
        footprint.adjust(&report(1200), written(200, 0));
        // Removed, and still in the pool, however often that is asked.
        assert_eq!(footprint.bytes(written(200, 500)), 700);
        for _ in 0..3 {
            footprint.adjust(&report(1200), written(200, 500));
            assert_eq!(footprint.bytes(written(200, 500)), 700);
        }
        // What the pool gives back was counted already.
        footprint.adjust(&collected(700), written(200, 500));
        assert_eq!(footprint.bytes(written(200, 500)), 700);
    }

    #[test]
    fn the_estimate_stays_between_half_of_the_pool_and_all_of_it() {
        let mut footprint = Footprint::default();
        footprint.count(true, &report(1000), written(0, 0));
        footprint.adjust(&report(1000), written(5000, 0));
        assert_eq!(footprint.bytes(written(5000, 0)), 1000);
        footprint.adjust(&report(1000), written(5000, 900));
        assert_eq!(footprint.bytes(written(5000, 900)), 100);
        footprint.adjust(&collected(1000), written(5000, 900));
        assert_eq!(footprint.bytes(written(5000, 900)), 500);
    }

    #[test]
    fn before_recovery_is_over_the_pool_is_believed() {
        let mut footprint = Footprint::default();
        let recovering = |used_bytes| Report { recovering: true, ..report(used_bytes) };
        footprint.count(true, &recovering(100), written(0, 0));
        footprint.adjust(&recovering(200), written(0, 0));
        footprint.adjust(&report(9000), written(0, 0));
        assert_eq!(footprint.bytes(written(0, 0)), 9000);
        footprint.adjust(&recovering(9000), written(0, 4000));
        assert_eq!(footprint.bytes(written(0, 4000)), 5000);
    }
}
