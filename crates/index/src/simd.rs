//! Comparisons of many words or bytes at once, where the processor can.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

/// Eight words in one line.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Line(pub(crate) [AtomicU64; 8]);

impl Line {
    /// The place of the last word that is not above `wanted`, of words in order of which the first is
    /// taken to be so. Each is a relaxed load.
    #[inline]
    pub(crate) fn last_not_above(&self, wanted: u64) -> usize {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx512f") {
            let mask: u32;
            // SAFETY: the processor has these instructions, and they read the 64 bytes of `self`. Assembler,
            // for others may store to them meanwhile: of each word, which is aligned, the old or the new
            // is seen. Registers above the fifteenth need no `vzeroupper`.
            unsafe {
                std::arch::asm!(
                    "vpbroadcastq zmm16, {wanted}",
                    "vpcmpnltuq k1, zmm16, zmmword ptr [{line}]",
                    "kmovw {mask:e}, k1",
                    wanted = in(reg) wanted,
                    line = in(reg) self,
                    mask = lateout(reg) mask,
                    out("xmm16") _,
                    out("k1") _,
                    options(nostack, readonly, preserves_flags),
                );
            }
            return (mask >> 1).trailing_ones() as usize;
        }
        self.last_not_above_portable(wanted)
    }

    #[inline]
    fn last_not_above_portable(&self, wanted: u64) -> usize {
        // All are looked at: where a search would stop no processor can predict.
        let is_passed = |word: &AtomicU64| word.load(Ordering::Relaxed) <= wanted;
        self.0[1..].iter().map(|word| usize::from(is_passed(word))).sum()
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_processor_finds_is_what_counting_finds() {
        let words = [0, 1, 255, 1 << 31, 1 << 32, 1 << 63, u64::MAX - 1, u64::MAX];
        // Every line of these words, in order.
        for counts in 0..1_u32 << 15 {
            if counts.count_ones() != 8 {
                continue;
            }
            // A bit that is set is a word, one that is not goes to the next.
            let line = Line::default();
            let (mut place, mut at) = (0, 0);
            for bit in 0..15 {
                if counts >> bit & 1 == 1 {
                    line.0[place].store(words[at], Ordering::Relaxed);
                    place += 1;
                } else {
                    at += 1;
                }
            }
            for wanted in words.iter().flat_map(|&word| [word.wrapping_sub(1), word]) {
                let found = line.last_not_above(wanted);
                assert_eq!(found, line.last_not_above_portable(wanted), "{line:?} {wanted}");
                let model =
                    line.0[1..].iter().filter(|word| word.load(Ordering::Relaxed) <= wanted);
                assert_eq!(found, model.count(), "{line:?} {wanted}");
            }
        }
    }
}
