//! CRC-32C by the processor's own instruction, of memory that other threads may store to at the same time: each
//! byte is loaded once, by an instruction in an `asm!` block.
//!
//! The instruction takes three cycles, and one can begin in each. So long ranges are read as three streams of
//! the same length, whose checksums are then put together: that of the first is multiplied by *x* to the number of
//! bits behind it, modulo the polynomial. (Gopal et al., "Fast CRC Computation for iSCSI Polynomial Using CRC32
//! Instruction", Intel 2011.) The constants for that are made when this is compiled. Where the processor multiplies
//! polynomials 512 bits wide, long ranges are [folded](wide) first.

mod power;
mod wide;

use std::arch::asm;
use std::arch::x86_64::{
    _mm_clmulepi64_si128, _mm_crc32_u64, _mm_cvtsi32_si128, _mm_cvtsi128_si64, _mm_xor_si128,
};

use self::power::next_power;

/// Bytes of a stream are a multiple of this.
const STEP: usize = 32;

/// Steps of a stream at most: three streams of this length are 4 KiB less a line.
const STEPS_MAX: usize = 42;

/// Shorter ranges are one stream.
const THREE_MIN: usize = 192;

/// For each number of steps, *x* to their bits, less the 33 that the multiplication and the instruction add.
static POWERS: [u32; 2 * STEPS_MAX + 1] = powers();

const fn powers() -> [u32; 2 * STEPS_MAX + 1] {
    let mut powers = [0; 2 * STEPS_MAX + 1];
    let (mut power, mut exponent, mut steps) = (1 << 31, 0, 1);
    while steps < powers.len() {
        while exponent < steps * STEP * 8 - 33 {
            power = next_power(power);
            exponent += 1;
        }
        powers[steps] = power;
        steps += 1;
    }
    powers
}

/// Whether the processor has the instructions.
#[inline(always)]
pub(super) fn is_supported() -> bool {
    std::arch::is_x86_feature_detected!("sse4.2")
        && std::arch::is_x86_feature_detected!("pclmulqdq")
}

/// The CRC-32C of `len` bytes at `at` behind bytes with the CRC-32C `init`.
///
/// # Safety
/// So many bytes are mapped at `at`; the processor has the instructions.
#[inline]
pub(super) unsafe fn crc32c(init: u32, at: *const u8, len: usize) -> u32 {
    let crc = u64::from(!init);
    // SAFETY: the caller's promise, of the lines that the range begins with, and of the rest; the processor has
    // what `fold` needs.
    unsafe {
        if len >= wide::BLOCK && wide::is_supported() {
            let (lines, rest) = (len / wide::LINE, len % wide::LINE);
            return !narrow(wide::fold(crc, at, lines), at.wrapping_add(len - rest), rest);
        }
        !narrow(crc, at, len)
    }
}

/// The checksum, without the inversions, of `len` bytes behind bytes with the checksum `crc`, by the instruction of 64
/// bits.
///
/// # Safety
/// As of [`crc32c()`].
#[inline]
pub(super) unsafe fn narrow(mut crc: u64, mut at: *const u8, mut len: usize) -> u32 {
    // SAFETY: the caller's promise; each access is of the first of `len` bytes, which are behind it then.
    unsafe {
        while len >= THREE_MIN {
            let steps = (len / (3 * STEP)).min(STEPS_MAX);
            crc = three_streams(crc, at, steps);
            (at, len) = (at.wrapping_add(3 * STEP * steps), len - 3 * STEP * steps);
        }
        while len >= STEP {
            asm!("crc32 {0}, qword ptr [{1}]", "crc32 {0}, qword ptr [{1} + 8]",
                "crc32 {0}, qword ptr [{1} + 16]", "crc32 {0}, qword ptr [{1} + 24]",
                inout(reg) crc, in(reg) at, options(readonly, nostack, preserves_flags));
            (at, len) = (at.wrapping_add(STEP), len - STEP);
        }
        while len >= 8 {
            asm!("crc32 {0}, qword ptr [{1}]", inout(reg) crc, in(reg) at,
                options(readonly, nostack, preserves_flags));
            (at, len) = (at.wrapping_add(8), len - 8);
        }
        if len == 0 {
            return crc as u32;
        }
        if len & 4 != 0 {
            asm!("crc32 {0:e}, dword ptr [{1}]", inout(reg) crc, in(reg) at,
                options(readonly, nostack, preserves_flags));
            at = at.wrapping_add(4);
        }
        if len & 2 != 0 {
            asm!("crc32 {0:e}, word ptr [{1}]", inout(reg) crc, in(reg) at,
                options(readonly, nostack, preserves_flags));
            at = at.wrapping_add(2);
        }
        if len & 1 != 0 {
            asm!("crc32 {0:e}, byte ptr [{1}]", inout(reg) crc, in(reg) at,
                options(readonly, nostack, preserves_flags));
        }
    }
    crc as u32
}

/// The checksum, without the inversions, of three streams of so many steps, one after another.
///
/// # Safety
/// They are mapped at `at`; 1 to [`STEPS_MAX`] steps; the processor has the instructions.
#[target_feature(enable = "sse4.2,pclmulqdq")]
unsafe fn three_streams(crc: u64, at: *const u8, steps: usize) -> u64 {
    let size = steps * STEP;
    let (mut first, mut second, mut third) = (crc, 0_u64, 0_u64);
    // SAFETY: the caller's promise: the loop reads `size` bytes from `at` on, and from one and two sizes behind it.
    unsafe {
        asm!(
            "2:",
            "crc32 {first}, qword ptr [{at}]",
            "crc32 {second}, qword ptr [{at} + {size}]",
            "crc32 {third}, qword ptr [{at} + 2*{size}]",
            "crc32 {first}, qword ptr [{at} + 8]",
            "crc32 {second}, qword ptr [{at} + {size} + 8]",
            "crc32 {third}, qword ptr [{at} + 2*{size} + 8]",
            "crc32 {first}, qword ptr [{at} + 16]",
            "crc32 {second}, qword ptr [{at} + {size} + 16]",
            "crc32 {third}, qword ptr [{at} + 2*{size} + 16]",
            "crc32 {first}, qword ptr [{at} + 24]",
            "crc32 {second}, qword ptr [{at} + {size} + 24]",
            "crc32 {third}, qword ptr [{at} + 2*{size} + 24]",
            "add {at}, 32",
            "cmp {at}, {end}",
            "jb 2b",
            first = inout(reg) first,
            second = inout(reg) second,
            third = inout(reg) third,
            at = inout(reg) at => _,
            end = in(reg) at.wrapping_add(size),
            size = in(reg) size,
            options(readonly, nostack)
        );
    }
    let shifted = |crc: u64, steps: usize| {
        let (crc, power) = (_mm_cvtsi32_si128(crc as i32), _mm_cvtsi32_si128(POWERS[steps] as i32));
        _mm_clmulepi64_si128::<0>(crc, power)
    };
    let sum = _mm_xor_si128(shifted(first, 2 * steps), shifted(second, steps));
    third ^ _mm_crc32_u64(0, _mm_cvtsi128_si64(sum) as u64)
}
