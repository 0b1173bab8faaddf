//! Whether the pool has room for changes, as far as commands must know beforehand.

use tembo_kv::Report;

use crate::dataset::written::Written;

/// How long changes of several keys are refused after there was no room for as many.
const REFUSAL_MS: u64 = 100;
/// Of the free bytes, this share is written before the pool is asked again.
const SHARE: u64 = 16;
/// A share of fewer bytes is not plenty.
const PLENTY_MIN: u64 = 1 << 20;
/// A pool of so many bytes grows before less than [`FREE_MIN`] of it is free; it begins with as many, unless the options say otherwise.
const GROWS_EARLY_MIN: u64 = 64 << 20;
/// See [`GROWS_EARLY_MIN`].
const FREE_MIN: u64 = (PLENTY_MIN * SHARE) / 2 * 3;
/// Where there is not plenty, the pool is asked again after so many bytes.
const TIGHT: u64 = 64 << 10;
/// Bytes that a change takes beside its value, at most.
const CHANGE_SIZE: u64 = 512;

/// What is known of the pool's room.
pub(super) struct Capacity {
    /// A size from which on changes are refused, and until when.
    refused: (usize, u64),
    /// There is plenty, or there is not, until so much was written.
    known: (bool, u64),
}

impl Capacity {
    /// Nothing is known.
    pub(super) fn new() -> Capacity {
        Capacity { refused: (usize::MAX, 0), known: (false, 0) }
    }

    /// There was no room for changes of `size` bytes. Those of half that size or more are refused for [`REFUSAL_MS`]: each
    /// that is taken back leaves a dead interval, of which the store holds few until the background work has erased them.
    pub(super) fn refuse(&mut self, size: usize, steady_ms: u64) {
        self.refused = (size / 2, steady_ms + REFUSAL_MS);
        self.known = (false, 0);
    }

    /// Whether changes of `size` bytes are refused at the moment.
    pub(super) fn is_refused(&self, size: usize, steady_ms: u64) -> bool {
        let (size_min, until_ms) = self.refused;
        size >= size_min && steady_ms < until_ms
    }

    /// Whether there is so much room that small changes find it; `report` is what the store says, `spare` makes the pool
    /// grow until it has so many bytes to spare, if it can.
    #[inline]
    pub(super) fn is_plenty(
        &mut self,
        written: Written,
        report: impl Fn() -> Report,
        spare: impl FnOnce(u64),
    ) -> bool {
        let (is_plenty, until) = self.known;
        let cost = written.bytes + CHANGE_SIZE * written.changes;
        if cost < until { is_plenty } else { self.ask(cost, report, spare) }
    }

    #[cold]
    fn ask(&mut self, cost: u64, report: impl Fn() -> Report, spare: impl FnOnce(u64)) -> bool {
        let Report { recovering, pool_bytes, used_bytes, .. } = report();
        if pool_bytes >= GROWS_EARLY_MIN && pool_bytes.saturating_sub(used_bytes) < FREE_MIN {
            spare(FREE_MIN);
        }
        let Report { pool_bytes, used_bytes, .. } = report();
        let share = pool_bytes.saturating_sub(used_bytes) / SHARE;
        let is_plenty = !recovering && share >= PLENTY_MIN;
        self.known = (is_plenty, cost + if is_plenty { share } else { TIGHT });
        is_plenty
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_asked_again_when_a_share_was_written() {
        let with =
            |used_bytes: u64| Report { pool_bytes: 64 << 20, used_bytes, ..Report::default() };
        let written = |bytes| Written { bytes, ..Written::default() };
        let nothing = |_| {};
        let mut capacity = Capacity::new();
        assert!(capacity.is_plenty(written(0), || with(0), nothing));
        assert!(capacity.is_plenty(written((4 << 20) - 1), || unreachable!(), nothing));
        assert!(!capacity.is_plenty(written(4 << 20), || with(60 << 20), nothing));
        assert!(!capacity.is_plenty(written((4 << 20) + 1), || unreachable!(), nothing));
        assert!(capacity.is_plenty(written(5 << 20), || with(0), nothing));
        capacity.refuse(1000, 5);
        assert!(!capacity.is_plenty(written(5 << 20), || with(60 << 20), nothing));
        assert_eq!((capacity.is_refused(500, 104), capacity.is_refused(499, 104)), (true, false));
        assert!(!capacity.is_refused(500, 105));
    }

    #[test]
    fn a_pool_that_can_grow_does_so_before_room_is_short() {
        use std::cell::Cell;
        let (size, used_bytes) = (Cell::new(64 << 20), 60 << 20);
        let report = || Report { pool_bytes: size.get(), used_bytes, ..Report::default() };
        let grow = |bytes| size.set(used_bytes + bytes);
        assert!(Capacity::new().is_plenty(Written::default(), report, grow));
        assert_eq!(size.get(), used_bytes + FREE_MIN);
        // A smaller one is left as it is.
        let small = || Report { pool_bytes: 63 << 20, used_bytes, ..Report::default() };
        assert!(!Capacity::new().is_plenty(Written::default(), small, |_| unreachable!()));
    }
}
