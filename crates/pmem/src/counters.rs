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

/// As [`Counters`], each changed without looking at the others.
struct Cells {
    stores: Cell<u64>,
    bytes: Cell<u64>,
    lines: Cell<u64>,
    fences: Cell<u64>,
}

thread_local! {
    static CELLS: Cells = const {
        Cells { stores: Cell::new(0), bytes: Cell::new(0), lines: Cell::new(0), fences: Cell::new(0) }
    };
}

#[inline(always)]
fn add(cell: &Cell<u64>, count: u64) {
    cell.set(cell.get().wrapping_add(count));
}

impl Counters {
    /// The counts of the calling thread.
    pub fn thread() -> Self {
        CELLS.with(|cells| Counters {
            stores: cells.stores.get(),
            bytes: cells.bytes.get(),
            lines: cells.lines.get(),
            fences: cells.fences.get(),
        })
    }

    /// A call that stored so many bytes.
    #[inline(always)]
    pub(crate) fn stored(bytes: u64) {
        CELLS.with(|cells| {
            add(&cells.stores, 1);
            add(&cells.bytes, bytes);
        });
    }

    /// Lines flushed.
    #[inline(always)]
    pub(crate) fn flushed(lines: u64) {
        CELLS.with(|cells| add(&cells.lines, lines));
    }

    /// A fence.
    #[inline(always)]
    pub(crate) fn fenced() {
        CELLS.with(|cells| add(&cells.fences, 1));
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
