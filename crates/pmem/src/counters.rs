//! What the calling thread has asked of the waist.

use std::cell::Cell;
use std::ops::Sub;
use std::thread::LocalKey;

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
    // Each for itself: a change of one is one instruction.
    static STORES: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<u64> = const { Cell::new(0) };
    static LINES: Cell<u64> = const { Cell::new(0) };
    static FENCES: Cell<u64> = const { Cell::new(0) };
    // Lines flushed when the last fence came.
    static FENCED_LINES: Cell<u64> = const { Cell::new(0) };
    // Lines flushed when the last fence came that was an instruction of the processor.
    static ORDERED_LINES: Cell<u64> = const { Cell::new(0) };
}

#[inline(always)]
fn add(count: &'static LocalKey<Cell<u64>>, more: u64) {
    count.with(|count| count.set(count.get() + more));
}

impl Counters {
    /// The counts of the calling thread.
    pub fn thread() -> Self {
        let (stores, bytes) = (STORES.get(), BYTES.get());
        Counters { stores, bytes, lines: LINES.get(), fences: FENCES.get() }
    }

    /// A call that stored so many bytes.
    #[inline(always)]
    pub(crate) fn stored(bytes: u64) {
        add(&STORES, 1);
        add(&BYTES, bytes);
    }

    /// So many calls, each of which stored a word, and the flush of the line that all are in.
    #[inline(always)]
    pub(crate) fn stored_in_line(words: u64) {
        add(&STORES, words);
        add(&BYTES, 8 * words);
        add(&LINES, 1);
    }

    /// Lines flushed.
    #[inline(always)]
    pub(crate) fn flushed(lines: u64) {
        add(&LINES, lines);
    }

    /// A fence.
    #[inline(always)]
    pub(crate) fn fenced() {
        add(&FENCES, 1);
        let lines = LINES.with(Cell::get);
        // Not by `LocalKey::set`, which the compiler makes a call of.
        FENCED_LINES.with(|fenced| fenced.set(lines));
    }

    /// A fence that was an instruction of the processor.
    #[inline(always)]
    pub(crate) fn ordered() {
        let lines = LINES.with(Cell::get);
        ORDERED_LINES.with(|ordered| ordered.set(lines));
    }

    /// Whether the calling thread has flushed something, in any region, since its last fence of any region.
    pub(crate) fn has_unfenced() -> bool {
        FENCED_LINES.get() != LINES.get()
    }

    /// As [`has_unfenced`](Counters::has_unfenced), where only an instruction of the processor is a fence.
    pub(crate) fn has_unordered() -> bool {
        ORDERED_LINES.get() != LINES.get()
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
