//! Comparisons of many bytes at once, where the processor can.
#![allow(unsafe_code)]

/// A bit for each of forty-eight bytes that is `print`.
#[inline]
pub(crate) fn matching(words: &[u64; 6], print: u8) -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE2 is part of every x86-64.
    unsafe {
        matching_sse2(words, print)
    }
    #[cfg(not(target_arch = "x86_64"))]
    matching_portable(words, print)
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "sse2")]
fn matching_sse2(words: &[u64; 6], print: u8) -> u64 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set_epi64x, _mm_set1_epi8};
    let wanted = _mm_set1_epi8(print as i8);
    let mask = |at: usize| {
        let sixteen = _mm_set_epi64x(words[at + 1] as i64, words[at] as i64);
        u64::from(_mm_movemask_epi8(_mm_cmpeq_epi8(sixteen, wanted)) as u32)
    };
    mask(0) | mask(2) << 16 | mask(4) << 32
}

/// As [`matching`], without vectors.
#[cfg(any(test, not(target_arch = "x86_64")))]
pub(crate) fn matching_portable(words: &[u64; 6], print: u8) -> u64 {
    const LOW: u64 = 0x0101_0101_0101_0101;
    let mut mask = 0;
    for (at, word) in words.iter().enumerate() {
        let differs = word ^ (LOW * u64::from(print));
        // The top bit of each byte that is zero, without a carry into the next.
        let rest = !(LOW << 7);
        let zero = !(((differs & rest) + rest) | differs | rest);
        mask |= ((zero >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) << (at * 8);
    }
    mask
}
