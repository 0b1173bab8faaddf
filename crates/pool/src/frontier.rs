//! By how much the frontier rises at a time.

use crate::geometry::Layout;

/// The frontier rises by at most this many bytes at a time.
const FRONTIER_STEP_MAX: u64 = 8 << 20;

/// After an open it rises by this many bytes at first, and each time by twice as many: what lies below it
/// and was never used is lost to a process that is killed before its sweep has ended, and after it to the next.
const FRONTIER_STEP_MIN: u64 = 64 << 10;

/// How often it rises before it does so by the most.
pub(crate) const SMALL_STEPS: u64 = (FRONTIER_STEP_MAX / FRONTIER_STEP_MIN).ilog2() as u64;

/// By how many chunks at least the frontier of a pool that ends at the chunk `end` rises, in the end.
pub(crate) fn frontier_step(layout: Layout, end: u32) -> u32 {
    layout.chunk_of(FRONTIER_STEP_MAX.min(layout.start(end) / 16)).max(1)
}

/// By how many chunks it rises first.
pub(crate) fn first_step(layout: Layout) -> u32 {
    layout.chunk_of(FRONTIER_STEP_MIN).max(1)
}
