//! Stores that go past the cache, a whole line at a time. As of [`racy`](crate::racy) stores, other threads may
//! look at the memory meanwhile.

use std::arch::asm;
use std::arch::x86_64::{__m128i, __m512i, _mm_loadu_si128, _mm512_loadu_si512};

use crate::LINE;

/// Stores 64 bytes past the cache: in order with nothing until the next store fence.
///
/// # Safety
/// `to` is aligned to 64 bytes and may be written; `from` may be read.
#[inline]
pub(crate) unsafe fn stream_line(from: *const u8, to: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe { stream_lines(from, to, 1) }
}

/// As [`stream_line`], of so many lines.
///
/// # Safety
/// `to` is aligned to 64 bytes; so many lines may be written there, and may be read at `from`.
#[inline]
pub(crate) unsafe fn stream_lines(from: *const u8, to: *mut u8, count: usize) {
    if std::arch::is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor has AVX-512; the rest is the caller's promise.
        return unsafe { stream_512(from, to, count) };
    }
    for at in (0..count).map(|line| line * LINE as usize) {
        // SAFETY: every x86-64 processor has SSE2; the rest is the caller's promise.
        unsafe { stream_128(from.wrapping_add(at), to.wrapping_add(at)) };
    }
}

// SAFETY: to be called with an aligned `to` for `count` lines, a readable `from`, and AVX-512.
#[target_feature(enable = "avx512f")]
unsafe fn stream_512(from: *const u8, to: *mut u8, count: usize) {
    for at in (0..count).map(|line| line * LINE as usize) {
        // SAFETY: the caller's promise; the load is unaligned, the store's target aligned.
        unsafe {
            let line: __m512i = _mm512_loadu_si512(from.wrapping_add(at).cast());
            asm!("vmovntdq zmmword ptr [{0}], {1}", in(reg) to.wrapping_add(at), in(zmm_reg) line,
                options(nostack, preserves_flags));
        }
    }
}

// SAFETY: to be called with an aligned `to` of 64 bytes and a readable `from`.
unsafe fn stream_128(from: *const u8, to: *mut u8) {
    for at in [0, 16, 32, 48] {
        // SAFETY: the caller's promise, for each quarter of the line.
        unsafe {
            let quarter: __m128i = _mm_loadu_si128(from.add(at).cast());
            asm!("movntdq xmmword ptr [{0}], {1}", in(reg) to.add(at), in(xmm_reg) quarter,
                options(nostack, preserves_flags));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(64))]
    struct Line([u8; 64]);

    #[test]
    fn both_widths_store_the_same_bytes() {
        let from: [u8; 65] = std::array::from_fn(|i| i as u8);
        let mut narrow = Line([0; 64]);
        let mut chosen = Line([0; 64]);
        // SAFETY: both targets are aligned, the source has 64 bytes from index 1.
        unsafe {
            stream_128(from.as_ptr().add(1), narrow.0.as_mut_ptr());
            stream_line(from.as_ptr().add(1), chosen.0.as_mut_ptr());
        }
        crate::flush::store_fence();
        assert_eq!(narrow.0, from[1..]);
        assert_eq!(chosen.0, from[1..]);
    }
}
