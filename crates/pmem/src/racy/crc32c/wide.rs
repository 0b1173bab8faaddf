//! CRC-32C by multiplications of polynomials, 512 bits at a time.
//!
//! The bits that are read are a polynomial. What stands in a register is multiplied by *x* to the number of bits
//! between it and the bits that are read next, modulo the polynomial of CRC-32C, and added to these: the sum has the
//! same remainder as all bits before. So a range is folded to one register, and that to 128 bits, whose
//! checksum the processor's instruction makes. Four registers side by side cover the time that a multiplication takes.
//! (Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009.)

use std::arch::asm;
use std::arch::x86_64::{
    __m512i, _mm_crc32_u64, _mm_cvtsi64_si128, _mm_cvtsi128_si64, _mm_extract_epi64, _mm_xor_si128,
    _mm256_castsi256_si128, _mm256_extracti128_si256, _mm256_xor_si256, _mm512_castsi512_si256,
    _mm512_clmulepi64_epi128, _mm512_extracti64x4_epi64, _mm512_maskz_mov_epi64, _mm512_set_epi64,
    _mm512_ternarylogic_epi64, _mm512_xor_si512, _mm512_zextsi128_si512,
};

use super::power::power;

/// Bytes of a register.
pub(super) const LINE: usize = 64;

/// Bytes that the four registers take at a time. Shorter ranges are not folded.
pub(super) const BLOCK: usize = 4 * LINE;

/// Of each half of 128 bits a factor: *x* to the number of bits by which it is moved, less the 33 that a multiplication
/// of such halves adds. The lower half was read first.
#[derive(Clone, Copy)]
struct Factors {
    low: i64,
    high: i64,
}

const fn factors(bits: u32) -> Factors {
    Factors { low: power(bits + 64 - 33) as i64, high: power(bits - 33) as i64 }
}

const BY_128: Factors = factors(128);
const BY_256: Factors = factors(256);
const BY_384: Factors = factors(384);
const BY_512: Factors = factors(512);
const BY_1024: Factors = factors(1024);
const BY_1536: Factors = factors(1536);
const BY_2048: Factors = factors(2048);
const NONE: Factors = Factors { low: 0, high: 0 };

/// Whether the processor has the instructions of [`fold`].
#[inline(always)]
pub(super) fn is_supported() -> bool {
    std::arch::is_x86_feature_detected!("avx512f")
        && std::arch::is_x86_feature_detected!("vpclmulqdq")
}

/// The checksum, without the inversions, of so many lines behind bytes with the checksum `crc`.
///
/// # Safety
/// They are mapped at `at`, at least [`BLOCK`] bytes; the processor has the instructions, and that of CRC-32C.
#[target_feature(enable = "avx512f,vpclmulqdq,sse4.2")]
pub(super) unsafe fn fold(crc: u64, at: *const u8, lines: usize) -> u64 {
    let line = |index: usize| at.wrapping_add(index * LINE);
    // SAFETY: the caller's promise: each line that is read is one of `lines`, of which there are four.
    unsafe {
        let mut folded = [load(line(0)), load(line(1)), load(line(2)), load(line(3))];
        let before = _mm512_zextsi128_si512(_mm_cvtsi64_si128(crc as i64));
        folded[0] = _mm512_xor_si512(folded[0], before);
        let by = everywhere(BY_2048);
        let mut next = 4;
        while next + 4 <= lines {
            folded[0] = moved_onto(folded[0], by, load(line(next)));
            folded[1] = moved_onto(folded[1], by, load(line(next + 1)));
            folded[2] = moved_onto(folded[2], by, load(line(next + 2)));
            folded[3] = moved_onto(folded[3], by, load(line(next + 3)));
            next += 4;
        }
        let by = everywhere(BY_512);
        let mut one = moved_onto(folded[0], everywhere(BY_1536), folded[3]);
        one = moved_onto(folded[1], everywhere(BY_1024), one);
        one = moved_onto(folded[2], by, one);
        while next < lines {
            one = moved_onto(one, by, load(line(next)));
            next += 1;
        }
        remainder(one)
    }
}

/// The checksum of the bits of a register.
#[target_feature(enable = "avx512f,vpclmulqdq,sse4.2")]
fn remainder(bits: __m512i) -> u64 {
    let last = _mm512_maskz_mov_epi64(0b1100_0000, bits);
    let sum = moved_onto(bits, each([BY_384, BY_256, BY_128, NONE]), last);
    let (low, high) = (_mm512_castsi512_si256(sum), _mm512_extracti64x4_epi64::<1>(sum));
    let sum = _mm256_xor_si256(low, high);
    let sum = _mm_xor_si128(_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum));
    let crc = _mm_crc32_u64(0, _mm_cvtsi128_si64(sum) as u64);
    _mm_crc32_u64(crc, _mm_extract_epi64::<1>(sum) as u64)
}

/// `bits` times the factors, added to `to`.
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq")]
fn moved_onto(bits: __m512i, by: __m512i, to: __m512i) -> __m512i {
    let low = _mm512_clmulepi64_epi128::<0x00>(bits, by);
    let high = _mm512_clmulepi64_epi128::<0x11>(bits, by);
    // The sum of the three, which is their exclusive or.
    _mm512_ternarylogic_epi64::<0x96>(low, high, to)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn everywhere(by: Factors) -> __m512i {
    each([by; 4])
}

#[inline]
#[target_feature(enable = "avx512f")]
fn each([a, b, c, d]: [Factors; 4]) -> __m512i {
    _mm512_set_epi64(d.high, d.low, c.high, c.low, b.high, b.low, a.high, a.low)
}

/// One load of 64 bytes.
///
/// # Safety
/// They are mapped at `at`.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load(at: *const u8) -> __m512i {
    let line;
    // SAFETY: the caller's promise.
    unsafe {
        asm!("vmovdqu64 {0}, zmmword ptr [{1}]", out(zmm_reg) line, in(reg) at,
            options(readonly, nostack, preserves_flags));
    }
    line
}
