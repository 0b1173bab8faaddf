//! Dead intervals: the versions that never happened.

use crate::Stamp;

/// Versions in `(from, to]` that are void: what was in flight at a crash, was aborted, or was rolled
/// back. Recovery, undo and rollback are this one mechanism: an O(1) note that makes entries
/// empty space and ends no ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadInterval {
    /// Versions above this one.
    pub from: u64,
    /// Versions up to and including this one.
    pub to: u64,
    /// Only stamps of this lane that commit with a group; `None`: every stamp (a rollback).
    pub lane: Option<u8>,
}

impl DeadInterval {
    fn covers(&self, stamp: Stamp) -> bool {
        let version = stamp.version();
        self.from < version
            && version <= self.to
            && self.lane.is_none_or(|lane| stamp.is_grouped() && stamp.lane() == lane)
    }
}

/// The dead intervals in force. This is the volatile image of the store's durable table.
///
/// It has lines of its own, away from the counts of an `Arc`, which each snapshot changes: each read looks here.
#[derive(Clone, Debug, Default)]
#[repr(align(128))]
pub struct DeadIntervals {
    intervals: Vec<DeadInterval>,
    from_min: u64,
    to_max: u64,
}

impl DeadIntervals {
    /// The set of these intervals.
    pub fn new(intervals: Vec<DeadInterval>) -> DeadIntervals {
        let from_min = intervals.iter().map(|i| i.from).min().unwrap_or(0);
        let to_max = intervals.iter().map(|i| i.to).max().unwrap_or(0);
        DeadIntervals { intervals, from_min, to_max }
    }

    /// Nothing is void.
    pub const NONE: DeadIntervals = DeadIntervals { intervals: Vec::new(), from_min: 0, to_max: 0 };

    /// True if `stamp` is void.
    #[inline]
    pub fn contains(&self, stamp: Stamp) -> bool {
        let version = stamp.version();
        version > self.from_min && version <= self.to_max && self.search(stamp)
    }

    #[cold]
    fn search(&self, stamp: Stamp) -> bool {
        self.intervals.iter().any(|interval| interval.covers(stamp))
    }

    /// The intervals.
    pub fn intervals(&self) -> &[DeadInterval] {
        &self.intervals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_kills_the_groups_of_its_lane_and_a_rollback_kills_all() {
        let dead = DeadIntervals::new(vec![
            DeadInterval { from: 10, to: 20, lane: Some(3) },
            DeadInterval { from: 30, to: 31, lane: None },
        ]);
        for version in 0..40 {
            let crashed = (11..=20).contains(&version);
            let rolled_back = version == 31;
            assert_eq!(dead.contains(Stamp::grouped(version, 3)), crashed || rolled_back);
            assert_eq!(dead.contains(Stamp::grouped(version, 4)), rolled_back);
            assert_eq!(dead.contains(Stamp::single(version, 3)), rolled_back);
        }
    }
}
