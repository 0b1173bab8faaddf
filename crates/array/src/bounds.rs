//! How large devices, their blocks and their names may be.

use crate::format::BLOCK_COUNT_MAX;

/// Smallest block, in bytes.
pub const BLOCK_SIZE_MIN: usize = 512;

/// Greatest block, in bytes.
pub const BLOCK_SIZE_MAX: usize = 64 << 10;

/// Longest name of a device, in bytes of UTF-8.
pub const NAME_SIZE_MAX: usize = 255;

/// Bytes that a device with such blocks can have.
pub(crate) fn len_max(block_size: usize) -> u64 {
    BLOCK_COUNT_MAX.saturating_mul(block_size as u64)
}
