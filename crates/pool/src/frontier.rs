//! By how much the frontier rises at a time.

use crate::geometry::Layout;

/// The frontier rises by at most this many bytes at a time.
const FRONTIER_STEP_MAX: u64 = 8 << 20;

/// After an open it rises by this many bytes at first, and by twice as many each time. If the process is killed before its
/// sweep has ended, the next process cannot use the space that lies below the frontier and was never used, until it has swept.
const FRONTIER_STEP_MIN: u64 = 64 << 10;

/// How often it rises before it rises by the most.
pub(crate) const SMALL_STEPS: u64 = (FRONTIER_STEP_MAX / FRONTIER_STEP_MIN).ilog2() as u64;

/// The number of chunks by which the frontier of a pool that ends at the chunk `end` finally rises.
pub(crate) fn frontier_step(layout: Layout, end: u32) -> u32 {
    layout.chunk_of(FRONTIER_STEP_MAX.min(layout.start(end) / 16)).max(1)
}

/// The number of chunks by which it rises first.
pub(crate) fn first_step(layout: Layout) -> u32 {
    layout.chunk_of(FRONTIER_STEP_MIN).max(1)
}
