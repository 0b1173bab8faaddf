//! What the calling thread has asked of the waist.

use std::cell::Cell;
use std::ops::Sub;

/// Counts of one thread since it started; the difference of two is the cost of what lies between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Calls that stored something.
    pub stores: u64,
    /// Bytes stored.
    pub bytes: u64,
    /// Cache lines flushed (non-temporal stores included).
    pub lines: u64,
    /// Fences.
    pub fences: u64,
}

thread_local! {
    static COUNTERS: Cell<Counters> = const { Cell::new(Counters { stores: 0, bytes: 0, lines: 0, fences: 0 }) };
}

impl Counters {
    /// The counts of the calling thread.
    pub fn thread() -> Self {
        COUNTERS.get()
    }

    #[inline]
    pub(crate) fn count(change: impl FnOnce(&mut Counters)) {
        let mut counters = COUNTERS.get();
        change(&mut counters);
        COUNTERS.set(counters);
    }
}

impl Sub for Counters {
    type Output = Counters;

    fn sub(self, earlier: Counters) -> Counters {
        Counters {
            stores: self.stores - earlier.stores,
            bytes: self.bytes - earlier.bytes,
            lines: self.lines - earlier.lines,
            fences: self.fences - earlier.fences,
        }
    }
}
