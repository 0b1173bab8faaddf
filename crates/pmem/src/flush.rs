//! Cache lines: the one place that splits a range into lines.

use crate::LINE;

/// The offsets of the lines that hold `len` bytes at `offset`.
pub(crate) fn lines(offset: u64, len: u64) -> impl Iterator<Item = u64> {
    let first = offset & !(LINE - 1);
    (first..offset + len).step_by(LINE as usize)
}
