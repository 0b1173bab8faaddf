//! Comparisons of many numbers at once, where the processor has instructions for that.
//!
//! The words may change meanwhile: they are atomics, and the caller finds out by a sequence
//! whether the answer is valid. So the loads are in assembly, where they have the effect of an atomic load of each
//! word.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

/// Forty-eight bytes that were loaded once.
#[derive(Clone, Copy)]
pub(crate) struct Bytes48(imp::Loaded);

impl Bytes48 {
    /// The bytes of these words, the lowest one of each first.
    #[inline]
    pub(crate) fn load(words: &[AtomicU64; 6]) -> Bytes48 {
        Bytes48(imp::load(words))
    }

    /// As [`load`](Self::load), from words that nothing changes.
    #[inline]
    pub(crate) fn of(words: &[u64; 6]) -> Bytes48 {
        Bytes48(imp::of(words))
    }

    /// A bit for each byte that equals `byte`.
    #[inline]
    pub(crate) fn equal(self, byte: u8) -> u64 {
        imp::equal(self.0, byte)
    }

    /// A bit for each byte that is not above `byte`.
    #[inline]
    pub(crate) fn at_most(self, byte: u8) -> u64 {
        imp::at_most(self.0, byte)
    }
}

/// Number of words: for the most slots that a leaf has, and some more that are unused.
pub(crate) const RANKED: usize = 48;

/// Adds to each rank the number of words that are below its word, among those that the bits of `among` name.
#[inline]
pub(crate) fn rank(words: &[u64; RANKED], among: u64, ranks: &mut [u64; RANKED]) {
    imp::rank(words, among, ranks);
}

/// The one source of [`rank`], which is compiled for each kind of processor.
#[inline(always)]
fn rank_one_by_one(words: &[u64; RANKED], among: u64, ranks: &mut [u64; RANKED]) {
    let mut rest = among & ((1 << RANKED) - 1);
    while rest != 0 {
        let pivot = words[rest.trailing_zeros() as usize];
        rest &= rest - 1;
        // There are no branches: nothing can predict which word is above.
        ranks.iter_mut().zip(words).for_each(|(rank, &word)| *rank += u64::from(word > pivot));
    }
}

/// How many of the words are below a number.
#[inline(always)]
pub(crate) fn count_below(lines: &[[AtomicU64; 8]], wanted: u64) -> usize {
    imp::count_below(lines, wanted)
}

/// The portable form of [`count_below`].
#[inline]
fn count_below_portably(lines: &[[AtomicU64; 8]], wanted: u64) -> usize {
    let words = lines.as_flattened().iter();
    words.map(|word| usize::from(word.load(Ordering::Relaxed) < wanted)).sum()
}

/// A way to count the words of a line that are not above a number.
pub(crate) trait Count: Copy {
    /// How many of eight words but the first are not above `wanted`.
    fn not_above(self, words: &[AtomicU64; 8], wanted: u64) -> usize;
}

/// Compares one word after another, all of them: no processor can predict where a search would stop.
#[derive(Clone, Copy)]
pub(crate) struct OneByOne;

impl Count for OneByOne {
    #[inline(always)]
    fn not_above(self, words: &[AtomicU64; 8], wanted: u64) -> usize {
        imp::count_not_above(words, wanted)
    }
}

/// The portable form of [`OneByOne`].
#[cfg(any(test, not(target_arch = "x86_64")))]
fn count_portably(words: &[AtomicU64; 8], wanted: u64) -> usize {
    let is_passed = |word: &AtomicU64| word.load(Ordering::Relaxed) <= wanted;
    words[1..].iter().map(|word| usize::from(is_passed(word))).sum()
}

/// Compares all words at once.
#[derive(Clone, Copy)]
pub(crate) struct AllAtOnce(imp::Wide);

impl AllAtOnce {
    /// `None`: this processor cannot compare so many at once.
    #[inline]
    pub(crate) fn new() -> Option<AllAtOnce> {
        imp::Wide::new().map(AllAtOnce)
    }
}

impl Count for AllAtOnce {
    #[inline(always)]
    fn not_above(self, words: &[AtomicU64; 8], wanted: u64) -> usize {
        self.0.count_not_above(words, wanted)
    }
}

#[cfg(target_arch = "x86_64")]
mod imp {
    use std::arch::asm;
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_min_epu8, _mm_movemask_epi8, _mm_set_epi64x, _mm_set1_epi8,
    };
    use std::sync::atomic::AtomicU64;

    use super::{RANKED, count_below_portably, rank_one_by_one};

    pub(super) type Loaded = [__m128i; 3];

    /// Word by word: a load of two words at a time would wait for a store of one of them that is still on its
    /// way, and that may be behind a fence.
    #[inline(always)]
    pub(super) fn load(words: &[AtomicU64; 6]) -> Loaded {
        let (first, second, third);
        // SAFETY: SSE2 is part of every x86-64; six words are read, which are there.
        unsafe {
            asm!(
                "movq {first}, qword ptr [{words}]",
                "movq {second}, qword ptr [{words} + 16]",
                "movq {third}, qword ptr [{words} + 32]",
                "movhps {first}, qword ptr [{words} + 8]",
                "movhps {second}, qword ptr [{words} + 24]",
                "movhps {third}, qword ptr [{words} + 40]",
                words = in(reg) words.as_ptr(),
                first = out(xmm_reg) first,
                second = out(xmm_reg) second,
                third = out(xmm_reg) third,
                options(nostack, preserves_flags, readonly),
            );
        }
        [first, second, third]
    }

    #[inline(always)]
    pub(super) fn of(words: &[u64; 6]) -> Loaded {
        // SAFETY: SSE2 is part of every x86-64.
        std::array::from_fn(|at| unsafe {
            _mm_set_epi64x(words[2 * at + 1] as i64, words[2 * at] as i64)
        })
    }

    #[inline(always)]
    pub(super) fn equal(bytes: Loaded, byte: u8) -> u64 {
        // SAFETY: SSE2 is part of every x86-64.
        mask(bytes.map(|sixteen| unsafe { _mm_cmpeq_epi8(sixteen, _mm_set1_epi8(byte as i8)) }))
    }

    #[inline(always)]
    pub(super) fn at_most(bytes: Loaded, byte: u8) -> u64 {
        mask(bytes.map(|sixteen| {
            // SAFETY: SSE2 is part of every x86-64.
            unsafe { _mm_cmpeq_epi8(_mm_min_epu8(sixteen, _mm_set1_epi8(byte as i8)), sixteen) }
        }))
    }

    #[inline(always)]
    fn mask(bytes: Loaded) -> u64 {
        // SAFETY: SSE2 is part of every x86-64.
        let bits = bytes.map(|sixteen| u64::from(unsafe { _mm_movemask_epi8(sixteen) } as u32));
        bits[0] | bits[1] << 16 | bits[2] << 32
    }

    /// Each comparison leaves in the carry whether the word is above, and a subtraction with borrow counts it: two
    /// instructions for each word.
    #[inline(always)]
    pub(super) fn count_not_above(words: &[AtomicU64; 8], wanted: u64) -> usize {
        let mut passed = 0_u64;
        // SAFETY: seven words are read behind the first, which are there.
        unsafe {
            asm!(
                "cmp {wanted}, qword ptr [{words} + 8]",
                "sbb {passed}, -1",
                "cmp {wanted}, qword ptr [{words} + 16]",
                "sbb {passed}, -1",
                "cmp {wanted}, qword ptr [{words} + 24]",
                "sbb {passed}, -1",
                "cmp {wanted}, qword ptr [{words} + 32]",
                "sbb {passed}, -1",
                "cmp {wanted}, qword ptr [{words} + 40]",
                "sbb {passed}, -1",
                "cmp {wanted}, qword ptr [{words} + 48]",
                "sbb {passed}, -1",
                "cmp {wanted}, qword ptr [{words} + 56]",
                "sbb {passed}, -1",
                words = in(reg) words.as_ptr(),
                wanted = in(reg) wanted,
                passed = inout(reg) passed,
                options(nostack, readonly),
            );
        }
        // SAFETY: one was added for some of seven words.
        unsafe { std::hint::assert_unchecked(passed < 8) };
        passed as usize
    }

    /// Four words at a time. There is no comparison of unsigned numbers: with their highest bit changed they are
    /// in the order of signed ones.
    #[inline(always)]
    pub(super) fn count_below(lines: &[[AtomicU64; 8]], wanted: u64) -> usize {
        if lines.is_empty() || !std::is_x86_feature_detected!("avx2") {
            return count_below_portably(lines, wanted);
        }
        let range = lines.as_ptr_range();
        let count: u64;
        // SAFETY: whole lines are read, from the first to before the end; the processor has AVX2.
        unsafe {
            asm!(
                "vmovq xmm0, {wanted}",
                "vpbroadcastq ymm0, xmm0",
                "vpcmpeqd ymm1, ymm1, ymm1",
                "vpsllq ymm1, ymm1, 63",
                "vpxor ymm0, ymm0, ymm1",
                "vpxor xmm2, xmm2, xmm2",
                "2:",
                "vpxor ymm3, ymm1, [{at}]",
                "vpxor ymm4, ymm1, [{at} + 32]",
                "vpcmpgtq ymm3, ymm0, ymm3",
                "vpcmpgtq ymm4, ymm0, ymm4",
                // A comparison sets all bits of a word that is below, which makes minus one.
                "vpsubq ymm2, ymm2, ymm3",
                "vpsubq ymm2, ymm2, ymm4",
                "add {at}, 64",
                "cmp {at}, {end}",
                "jb 2b",
                "vextracti128 xmm0, ymm2, 1",
                "vpaddq xmm0, xmm0, xmm2",
                "vpsrldq xmm1, xmm0, 8",
                "vpaddq xmm0, xmm0, xmm1",
                "vmovq {wanted}, xmm0",
                "vzeroupper",
                wanted = inout(reg) wanted => count,
                at = inout(reg) range.start => _,
                end = in(reg) range.end,
                // The last instruction touches all of them.
                out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _,
                out("ymm4") _, out("ymm5") _, out("ymm6") _, out("ymm7") _,
                out("ymm8") _, out("ymm9") _, out("ymm10") _, out("ymm11") _,
                out("ymm12") _, out("ymm13") _, out("ymm14") _, out("ymm15") _,
                options(nostack, readonly),
            );
        }
        count as usize
    }

    #[inline]
    pub(super) fn rank(words: &[u64; RANKED], among: u64, ranks: &mut [u64; RANKED]) {
        if std::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has it.
            unsafe { rank_by_256(words, among, ranks) }
        } else {
            rank_one_by_one(words, among, ranks);
        }
    }

    #[target_feature(enable = "avx2")]
    fn rank_by_256(words: &[u64; RANKED], among: u64, ranks: &mut [u64; RANKED]) {
        rank_one_by_one(words, among, ranks);
    }

    /// The processor has AVX-512 (F, DQ) and POPCNT.
    #[derive(Clone, Copy)]
    pub(super) struct Wide(());

    impl Wide {
        #[inline]
        pub(super) fn new() -> Option<Wide> {
            let has_it = std::is_x86_feature_detected!("avx512dq")
                && std::is_x86_feature_detected!("popcnt");
            has_it.then_some(Wide(()))
        }

        #[inline(always)]
        pub(super) fn count_not_above(self, words: &[AtomicU64; 8], wanted: u64) -> usize {
            let passed: u32;
            // SAFETY: eight words are read, which are there; `self` is made only where the processor has it.
            unsafe {
                asm!(
                    "vpbroadcastq zmm16, {wanted}",
                    // Not less than, unsigned.
                    "vpcmpuq k1, zmm16, [{words}], 5",
                    "kmovb {passed:e}, k1",
                    "shr {passed:e}, 1",
                    "popcnt {passed:e}, {passed:e}",
                    words = in(reg) words.as_ptr(),
                    wanted = in(reg) wanted,
                    passed = lateout(reg) passed,
                    // Registers that older instructions do not know, and so need not be named.
                    out("zmm16") _,
                    out("k1") _,
                    options(nostack, readonly),
                );
            }
            // SAFETY: that many of the seven bits that the shift has left are set.
            unsafe { std::hint::assert_unchecked(passed < 8) };
            passed as usize
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod imp {
    use std::sync::atomic::{AtomicU64, Ordering};

    pub(super) use super::{
        count_below_portably as count_below, count_portably as count_not_above,
        rank_one_by_one as rank,
    };

    pub(super) type Loaded = [u64; 6];

    /// A stand-in where no such processor exists.
    #[derive(Clone, Copy)]
    pub(super) enum Wide {}

    impl Wide {
        pub(super) fn new() -> Option<Wide> {
            None
        }

        pub(super) fn count_not_above(self, _words: &[AtomicU64; 8], _wanted: u64) -> usize {
            match self {}
        }
    }

    pub(super) fn load(words: &[AtomicU64; 6]) -> Loaded {
        words.each_ref().map(|word| word.load(Ordering::Relaxed))
    }

    pub(super) fn of(words: &[u64; 6]) -> Loaded {
        *words
    }

    pub(super) fn equal(bytes: Loaded, byte: u8) -> u64 {
        super::portable(&bytes, |other| other == byte)
    }

    pub(super) fn at_most(bytes: Loaded, byte: u8) -> u64 {
        super::portable(&bytes, |other| other <= byte)
    }
}

/// A bit for each byte that satisfies the condition.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn portable(words: &[u64; 6], is_so: impl Fn(u8) -> bool) -> u64 {
    let bytes = words.iter().flat_map(|word| word.to_le_bytes());
    bytes.enumerate().fold(0, |mask, (at, byte)| mask | u64::from(is_so(byte)) << at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(seed: &mut u64) -> u64 {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        *seed
    }

    #[test]
    fn bytes_are_found_where_they_are() {
        let mut seed = 1;
        for _ in 0..20_000 {
            // There are few different bytes, so that many match.
            let words = std::array::from_fn(|_| random(&mut seed) & 0x0301_0201_0301_ff01);
            let atomics = words.map(AtomicU64::new);
            for byte in [0, 1, 2, 3, 0x7f, 0x80, 0xff] {
                for bytes in [Bytes48::of(&words), Bytes48::load(&atomics)] {
                    assert_eq!(bytes.equal(byte), portable(&words, |other| other == byte));
                    assert_eq!(bytes.at_most(byte), portable(&words, |other| other <= byte));
                }
            }
        }
    }

    #[test]
    fn ranks_are_counts_of_the_words_below() {
        let mut seed = 1;
        for _ in 0..2_000 {
            // Some equal, some with the highest bit.
            let words = std::array::from_fn(|_| random(&mut seed) >> (seed % 61) << (seed % 63));
            let among = random(&mut seed) >> (seed % 64);
            let count = |word| {
                let below = |&at: &usize| among >> at & 1 == 1 && words[at] < word;
                (0..RANKED).filter(below).count() as u64
            };
            let expected = words.map(|word| 3 + count(word));
            for rank in [rank, rank_one_by_one] {
                let mut ranks = [3; RANKED];
                rank(&words, among, &mut ranks);
                assert_eq!(ranks, expected);
            }
        }
    }

    #[test]
    fn words_below_are_counted_as_unsigned_ones() {
        let mut seed = 1;
        for round in 0..20_000 {
            let words: [[u64; 8]; 4] =
                std::array::from_fn(|_| std::array::from_fn(|_| random(&mut seed) >> (seed % 64)));
            let lines = &words[..round % 5];
            let atomics = words.map(|line| line.map(AtomicU64::new));
            for wanted in [words[0][0], words[3][7], random(&mut seed), 0, u64::MAX, 1 << 63] {
                let below = lines.as_flattened().iter().filter(|&&word| word < wanted).count();
                assert_eq!(count_below(&atomics[..lines.len()], wanted), below);
                assert_eq!(count_below_portably(&atomics[..lines.len()], wanted), below);
            }
        }
    }

    #[test]
    fn words_not_above_are_counted_as_unsigned_ones() {
        let mut seed = 1;
        for _ in 0..20_000 {
            let words = std::array::from_fn(|_| random(&mut seed) >> (seed % 64));
            let wanted = [words[1], words[7], random(&mut seed), 0, u64::MAX, 1 << 63];
            let atomics = words.map(AtomicU64::new);
            for wanted in wanted {
                let expected = words[1..].iter().filter(|&&word| word <= wanted).count();
                assert_eq!(OneByOne.not_above(&atomics, wanted), expected);
                assert_eq!(count_portably(&atomics, wanted), expected);
                let at_once = AllAtOnce::new().map(|all| all.not_above(&atomics, wanted));
                assert!(at_once.is_none_or(|count| count == expected));
            }
        }
    }
}
