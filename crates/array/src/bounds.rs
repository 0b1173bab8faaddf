//! How large devices, their blocks and their names may be.

use crate::format::{BLOCK_COUNT_MAX, RUNS_FROM};

/// Smallest block, in bytes.
pub const BLOCK_SIZE_MIN: usize = 512;

/// Greatest block, in bytes.
pub const BLOCK_SIZE_MAX: usize = 64 << 10;

/// Most bytes of the blocks that one object holds.
pub const RUN_SIZE_MAX: usize = 256 << 10;

/// Longest name of a device, in bytes of UTF-8.
pub const NAME_SIZE_MAX: usize = 255;

/// Bytes that a device with such blocks can have, if so many of them may be a run.
pub(crate) fn len_max(block_size: usize, run_blocks: u64) -> u64 {
    let count = if run_blocks > 1 { RUNS_FROM } else { BLOCK_COUNT_MAX };
    count.saturating_mul(block_size as u64)
}
