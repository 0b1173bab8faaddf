//! Cache lines: the one place that splits a range into lines, and the instructions that flush them.
#![allow(unsafe_code)]

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod stream;

#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) use stream::{stream_line, stream_lines};

use crate::LINE;

/// The offsets of the lines that hold `len` bytes at `offset`.
#[cfg(any(test, all(target_arch = "x86_64", not(miri))))]
fn lines(offset: u64, len: u64) -> impl Iterator<Item = u64> {
    let first = offset & !(LINE - 1);
    let end = if len == 0 { first } else { offset.saturating_add(len) };
    (first..end).step_by(LINE as usize)
}

/// How many lines hold `len` bytes at `offset`.
#[inline]
pub(crate) fn line_count(offset: u64, len: u64) -> u64 {
    if len == 0 {
        return 0;
    }
    (offset.saturating_add(len - 1) / LINE) - (offset / LINE) + 1
}

/// The instruction that flushes a line, chosen once at opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushInstruction {
    /// Writes back, keeps the line cached.
    Clwb,
    /// Writes back and evicts, unordered.
    Clflushopt,
    /// Writes back and evicts, in order.
    Clflush,
}

impl FlushInstruction {
    /// The best one that this processor has; `None` on other processors than x86-64.
    pub fn detect() -> Option<FlushInstruction> {
        detect()
    }

    /// Whether this processor has the instruction.
    pub fn is_supported(self) -> bool {
        is_supported(self)
    }

    /// Flushes the lines that hold `len` bytes at `at`.
    ///
    /// # Safety
    /// They are mapped, and the instruction is supported.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    pub(crate) unsafe fn flush(self, at: *const u8, len: u64) {
        let start = at.addr() as u64;
        for line in lines(start, len) {
            // SAFETY: the caller's promise.
            unsafe { self.flush_line(at.with_addr(line as usize)) };
        }
    }

    /// Flushes the line of a byte.
    ///
    /// # Safety
    /// It is mapped, and the instruction is supported.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[inline]
    pub(crate) unsafe fn flush_line(self, at: *const u8) {
        use std::arch::asm;
        // SAFETY: flushing changes no byte and cannot fault on memory that is mapped; the rest is the caller's
        // promise.
        unsafe {
            match self {
                Self::Clwb => asm!("clwb [{}]", in(reg) at, options(nostack, preserves_flags)),
                Self::Clflushopt => {
                    asm!("clflushopt [{}]", in(reg) at, options(nostack, preserves_flags));
                }
                Self::Clflush => {
                    asm!("clflush [{}]", in(reg) at, options(nostack, preserves_flags))
                }
            }
        }
    }

    /// No flush instruction is known here, and `detect` says so.
    ///
    /// # Safety
    /// None is needed.
    #[cfg(any(miri, not(target_arch = "x86_64")))]
    pub(crate) unsafe fn flush(self, _at: *const u8, _len: u64) {}

    /// As `flush`.
    ///
    /// # Safety
    /// None is needed.
    #[cfg(any(miri, not(target_arch = "x86_64")))]
    pub(crate) unsafe fn flush_line(self, _at: *const u8) {}
}

/// Orders flushes and streaming stores before every later store.
#[inline]
pub(crate) fn store_fence() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: every x86-64 processor has sfence.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
    #[cfg(any(miri, not(target_arch = "x86_64")))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

fn detect() -> Option<FlushInstruction> {
    use FlushInstruction::{Clflush, Clflushopt, Clwb};
    [Clwb, Clflushopt, Clflush].into_iter().find(|instruction| instruction.is_supported())
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn is_supported(instruction: FlushInstruction) -> bool {
    use std::arch::x86_64::__cpuid_count;
    let features = __cpuid_count(7, 0).ebx;
    match instruction {
        FlushInstruction::Clwb => features & 1 << 24 != 0,
        FlushInstruction::Clflushopt => features & 1 << 23 != 0,
        FlushInstruction::Clflush => true,
    }
}

#[cfg(any(miri, not(target_arch = "x86_64")))]
fn is_supported(_instruction: FlushInstruction) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_split_into_exactly_the_lines_that_hold_it() {
        for offset in 0..200 {
            for len in 0..300 {
                let expected: Vec<u64> = (0..10)
                    .map(|line| line * LINE)
                    .filter(|line| (offset..offset + len).any(|byte| byte & !(LINE - 1) == *line))
                    .collect();
                assert_eq!(lines(offset, len).collect::<Vec<_>>(), expected, "{offset} {len}");
                assert_eq!(line_count(offset, len), expected.len() as u64, "{offset} {len}");
            }
        }
    }
}
