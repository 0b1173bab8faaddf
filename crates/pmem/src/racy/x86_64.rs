//! One instruction an access. Short ranges are covered by two that overlap, so that no loop is needed.

use std::arch::asm;
use std::arch::x86_64::{
    __m128i, __m256i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_storeu_si128,
    _mm256_cmpeq_epi8, _mm256_loadu_si256, _mm256_movemask_epi8, _mm256_storeu_si256,
};

use super::{Mismatch, crc32c as instruction};

/// Bytes whose checksum is taken at a time, on a processor without an instruction for it.
const CRC_PIECE: usize = 512;

/// Copies of this many bytes and more are left to the processor's own instruction for copies.
const STRING_MIN: usize = 4 << 10;

macro_rules! access {
    ($load:ident, $store:ident, $type:ty, $class:ident, $load_asm:literal, $store_asm:literal) => {
        /// # Safety
        /// The bytes at `at` are mapped.
        #[inline(always)]
        unsafe fn $load(at: *const u8) -> $type {
            let value: $type;
            // SAFETY: one load of mapped memory. It is read as if byte by byte by relaxed atomic loads.
            unsafe {
                asm!($load_asm, out($class) value, in(reg) at,
                    options(readonly, nostack, preserves_flags));
            }
            value
        }

        /// # Safety
        /// The bytes at `at` are mapped, to be written, and belong to a region.
        #[inline(always)]
        unsafe fn $store(at: *mut u8, value: $type) {
            // SAFETY: one store to mapped memory. It is written as if byte by byte by relaxed atomic stores.
            unsafe { asm!($store_asm, in(reg) at, in($class) value, options(nostack, preserves_flags)) }
        }
    };
}

access!(load_2, store_2, u16, reg, "mov {0:x}, word ptr [{1}]", "mov word ptr [{0}], {1:x}");
access!(load_4, store_4, u32, reg, "mov {0:e}, dword ptr [{1}]", "mov dword ptr [{0}], {1:e}");
access!(load_8, store_8, u64, reg, "mov {0}, qword ptr [{1}]", "mov qword ptr [{0}], {1}");
access!(
    load_16,
    store_16,
    __m128i,
    xmm_reg,
    "movdqu {0}, xmmword ptr [{1}]",
    "movdqu xmmword ptr [{0}], {1}"
);

/// The byte at `at`.
///
/// # Safety
/// The byte at `at` is mapped.
#[inline(always)]
pub(crate) unsafe fn load_byte(at: *const u8) -> u8 {
    let value: u8;
    // SAFETY: one load of mapped memory.
    unsafe {
        asm!("mov {0}, byte ptr [{1}]", out(reg_byte) value, in(reg) at,
            options(readonly, nostack, preserves_flags));
    }
    value
}

/// # Safety
/// The byte at `at` is mapped, to be written, and belongs to a region.
#[inline(always)]
unsafe fn store_byte(at: *mut u8, value: u8) {
    // SAFETY: one store to mapped memory.
    unsafe {
        asm!("mov byte ptr [{0}], {1}", in(reg) at, in(reg_byte) value,
            options(nostack, preserves_flags));
    }
}

/// Reads `len` bytes at `from` into `to`.
///
/// # Safety
/// The bytes at `from` are mapped; `to` may be written, and lies elsewhere.
#[inline(always)]
pub(crate) unsafe fn read(from: *const u8, to: *mut u8, len: usize) {
    let last = |size: usize| (from.wrapping_add(len - size), to.wrapping_add(len - size));
    // SAFETY: each access is of bytes before `len`: the first ones, or the last ones of as many.
    unsafe {
        match len {
            0 => {}
            1 => to.write(load_byte(from)),
            2..=3 => {
                let (from_last, to_last) = last(2);
                let (first, second) = (load_2(from), load_2(from_last));
                to.cast::<u16>().write_unaligned(first);
                to_last.cast::<u16>().write_unaligned(second);
            }
            4..=7 => {
                let (from_last, to_last) = last(4);
                let (first, second) = (load_4(from), load_4(from_last));
                to.cast::<u32>().write_unaligned(first);
                to_last.cast::<u32>().write_unaligned(second);
            }
            // A header, a word: one load.
            8 => to.cast::<u64>().write_unaligned(load_8(from)),
            9..=16 => {
                let (from_last, to_last) = last(8);
                let (first, second) = (load_8(from), load_8(from_last));
                to.cast::<u64>().write_unaligned(first);
                to_last.cast::<u64>().write_unaligned(second);
            }
            17..=32 => {
                let (from_last, to_last) = last(16);
                let (first, second) = (load_16(from), load_16(from_last));
                _mm_storeu_si128(to.cast(), first);
                _mm_storeu_si128(to_last.cast(), second);
            }
            _ => read_long(from, to, len),
        }
    }
}

/// [`read`] of more than 32 bytes.
///
/// # Safety
/// As of [`read`].
#[inline(never)]
unsafe fn read_long(from: *const u8, to: *mut u8, len: usize) {
    let (third, last) = (len - 32, len - 16);
    // SAFETY: the caller's promise; the processor has what is asked of it.
    unsafe {
        match len {
            0..=64 => {
                let (a, b) = (load_16(from), load_16(from.wrapping_add(16)));
                let c = load_16(from.wrapping_add(third));
                let d = load_16(from.wrapping_add(last));
                _mm_storeu_si128(to.cast(), a);
                _mm_storeu_si128(to.wrapping_add(16).cast(), b);
                _mm_storeu_si128(to.wrapping_add(third).cast(), c);
                _mm_storeu_si128(to.wrapping_add(last).cast(), d);
            }
            STRING_MIN.. => copy_string(from, to, len),
            _ if std::arch::is_x86_feature_detected!("avx2") => read_wide(from, to, len),
            _ => {
                let mut at = 0;
                while at + 16 < len {
                    _mm_storeu_si128(to.wrapping_add(at).cast(), load_16(from.wrapping_add(at)));
                    at += 16;
                }
                _mm_storeu_si128(to.wrapping_add(last).cast(), load_16(from.wrapping_add(last)));
            }
        }
    }
}

/// # Safety
/// As of [`read`], of at least 32 bytes, where the processor has AVX2.
#[target_feature(enable = "avx2")]
unsafe fn read_wide(from: *const u8, to: *mut u8, len: usize) {
    let last = len - 32;
    // SAFETY: the last 32 bytes, and pieces that begin before them.
    unsafe {
        let tail = load_32(from.wrapping_add(last));
        let mut at = 0;
        while at + 96 < last {
            copy_128(from.wrapping_add(at), to.wrapping_add(at));
            at += 128;
        }
        while at < last {
            _mm256_storeu_si256(to.wrapping_add(at).cast(), load_32(from.wrapping_add(at)));
            at += 32;
        }
        _mm256_storeu_si256(to.wrapping_add(last).cast(), tail);
    }
}

/// # Safety
/// The bytes at `at` are mapped; the processor has AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load_32(at: *const u8) -> __m256i {
    let value: __m256i;
    // SAFETY: one load of mapped memory.
    unsafe {
        asm!("vmovdqu {0}, ymmword ptr [{1}]", out(ymm_reg) value, in(reg) at,
            options(readonly, nostack, preserves_flags));
    }
    value
}

/// # Safety
/// The bytes at `at` are mapped, to be written, and belong to a region; the processor has AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store_32(at: *mut u8, value: __m256i) {
    // SAFETY: one store to mapped memory.
    unsafe {
        asm!("vmovdqu ymmword ptr [{0}], {1}", in(reg) at, in(ymm_reg) value,
            options(nostack, preserves_flags));
    }
}

/// Copies 128 bytes: four loads, and four stores.
///
/// # Safety
/// Both ranges are mapped, `to` to be written, and do not overlap; the processor has AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn copy_128(from: *const u8, to: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "vmovdqu {a}, ymmword ptr [{from}]",
            "vmovdqu {b}, ymmword ptr [{from} + 32]",
            "vmovdqu {c}, ymmword ptr [{from} + 64]",
            "vmovdqu {d}, ymmword ptr [{from} + 96]",
            "vmovdqu ymmword ptr [{to}], {a}",
            "vmovdqu ymmword ptr [{to} + 32], {b}",
            "vmovdqu ymmword ptr [{to} + 64], {c}",
            "vmovdqu ymmword ptr [{to} + 96], {d}",
            from = in(reg) from, to = in(reg) to,
            a = out(ymm_reg) _, b = out(ymm_reg) _, c = out(ymm_reg) _, d = out(ymm_reg) _,
            options(nostack, preserves_flags)
        );
    }
}

/// Copies by the processor's own instruction.
///
/// # Safety
/// Both ranges are mapped, `to` to be written, and do not overlap.
#[inline]
unsafe fn copy_string(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise; the direction flag is clear, as everywhere.
    unsafe {
        asm!("rep movsb", inout("rcx") len => _, inout("rsi") from => _, inout("rdi") to => _,
            options(nostack, preserves_flags));
    }
}

/// The CRC-32C of `len` bytes at `at` behind bytes with the CRC-32C `init`.
///
/// # Safety
/// The bytes at `at` are mapped.
#[inline]
pub(crate) unsafe fn crc32c(init: u32, at: *const u8, len: usize) -> u32 {
    if instruction::is_supported() {
        // SAFETY: the processor has the instructions; the rest is the caller's promise.
        return unsafe { instruction::crc32c(init, at, len) };
    }
    let mut buffer = [0; CRC_PIECE];
    (0..len).step_by(CRC_PIECE).fold(init, |crc, start| {
        let piece = &mut buffer[..CRC_PIECE.min(len - start)];
        // SAFETY: the caller's promise, of a piece of the range.
        unsafe { read(at.wrapping_add(start), piece.as_mut_ptr(), piece.len()) };
        ::crc32c::crc32c_append(crc, piece)
    })
}

/// Writes `len` bytes from `from` to `to`.
///
/// # Safety
/// `from` may be read, and is not stored to; the bytes at `to` are mapped, to be written, and belong to a region.
#[inline(always)]
pub(crate) unsafe fn write(from: *const u8, to: *mut u8, len: usize) {
    let last = |size: usize| (from.wrapping_add(len - size), to.wrapping_add(len - size));
    // SAFETY: each access is of bytes before `len`: the first ones, or the last ones of as many.
    unsafe {
        match len {
            0 => {}
            1 => store_byte(to, from.read()),
            2..=3 => {
                let (from_last, to_last) = last(2);
                store_2(to, from.cast::<u16>().read_unaligned());
                store_2(to_last, from_last.cast::<u16>().read_unaligned());
            }
            4..=7 => {
                let (from_last, to_last) = last(4);
                store_4(to, from.cast::<u32>().read_unaligned());
                store_4(to_last, from_last.cast::<u32>().read_unaligned());
            }
            8..=16 => {
                let (from_last, to_last) = last(8);
                store_8(to, from.cast::<u64>().read_unaligned());
                store_8(to_last, from_last.cast::<u64>().read_unaligned());
            }
            17..=32 => {
                let (from_last, to_last) = last(16);
                store_16(to, _mm_loadu_si128(from.cast()));
                store_16(to_last, _mm_loadu_si128(from_last.cast()));
            }
            _ => write_long(from, to, len),
        }
    }
}

/// [`write()`] of more than 32 bytes.
///
/// # Safety
/// As of [`write()`].
#[inline(never)]
unsafe fn write_long(from: *const u8, to: *mut u8, len: usize) {
    let (third, last) = (len - 32, len - 16);
    // SAFETY: the caller's promise; the processor has what is asked of it.
    unsafe {
        match len {
            0..=64 => {
                store_16(to, _mm_loadu_si128(from.cast()));
                store_16(to.wrapping_add(16), _mm_loadu_si128(from.wrapping_add(16).cast()));
                store_16(to.wrapping_add(third), _mm_loadu_si128(from.wrapping_add(third).cast()));
                store_16(to.wrapping_add(last), _mm_loadu_si128(from.wrapping_add(last).cast()));
            }
            STRING_MIN.. => copy_string(from, to, len),
            _ if std::arch::is_x86_feature_detected!("avx2") => write_wide(from, to, len),
            _ => {
                let mut at = 0;
                while at + 16 < len {
                    store_16(to.wrapping_add(at), _mm_loadu_si128(from.wrapping_add(at).cast()));
                    at += 16;
                }
                store_16(to.wrapping_add(last), _mm_loadu_si128(from.wrapping_add(last).cast()));
            }
        }
    }
}

/// # Safety
/// As of [`write()`], of at least 32 bytes, where the processor has AVX2.
#[target_feature(enable = "avx2")]
unsafe fn write_wide(from: *const u8, to: *mut u8, len: usize) {
    let last = len - 32;
    // SAFETY: the last 32 bytes, and pieces that begin before them.
    unsafe {
        let mut at = 0;
        while at + 96 < last {
            copy_128(from.wrapping_add(at), to.wrapping_add(at));
            at += 128;
        }
        while at < last {
            store_32(to.wrapping_add(at), _mm256_loadu_si256(from.wrapping_add(at).cast()));
            at += 32;
        }
        store_32(to.wrapping_add(last), _mm256_loadu_si256(from.wrapping_add(last).cast()));
    }
}

/// Whether the bytes at `at` are `bytes`.
///
/// # Safety
/// So many bytes are mapped at `at`.
#[inline(always)]
pub(crate) unsafe fn equals(at: *const u8, bytes: &[u8]) -> bool {
    let (len, other) = (bytes.len(), bytes.as_ptr());
    let last = |size: usize| (at.wrapping_add(len - size), other.wrapping_add(len - size));
    // SAFETY: each access is of bytes before `len`: the first ones, or the last ones of as many.
    unsafe {
        match len {
            0 => true,
            1 => load_byte(at) == other.read(),
            2..=3 => {
                let (at_last, other_last) = last(2);
                let first = load_2(at) ^ other.cast::<u16>().read_unaligned();
                first | (load_2(at_last) ^ other_last.cast::<u16>().read_unaligned()) == 0
            }
            4..=7 => {
                let (at_last, other_last) = last(4);
                let first = load_4(at) ^ other.cast::<u32>().read_unaligned();
                first | (load_4(at_last) ^ other_last.cast::<u32>().read_unaligned()) == 0
            }
            8..=16 => {
                let (at_last, other_last) = last(8);
                let first = load_8(at) ^ other.cast::<u64>().read_unaligned();
                first | (load_8(at_last) ^ other_last.cast::<u64>().read_unaligned()) == 0
            }
            17..=32 => {
                let (at_last, other_last) = last(16);
                same_16(at, other) & same_16(at_last, other_last) == ALL_16
            }
            _ => equals_long(at, bytes),
        }
    }
}

/// Of sixteen bytes that are the same.
const ALL_16: u32 = 0xffff;

/// One bit for each of sixteen bytes that are the same.
///
/// # Safety
/// Both ranges are mapped, and `other` may be read.
#[inline(always)]
unsafe fn same_16(at: *const u8, other: *const u8) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { _mm_movemask_epi8(_mm_cmpeq_epi8(load_16(at), _mm_loadu_si128(other.cast()))) as u32 }
}

/// [`equals`] of more than 32 bytes.
///
/// # Safety
/// As of [`equals`].
#[inline(never)]
unsafe fn equals_long(at: *const u8, bytes: &[u8]) -> bool {
    let (last, other) = (bytes.len() - 16, bytes.as_ptr());
    let mut next = 0;
    // SAFETY: the last sixteen bytes, and pieces that begin before them; the processor has what is asked of it.
    unsafe {
        if bytes.len() <= 64 {
            let third = last - 16;
            let one = same_16(at, other) & same_16(at.wrapping_add(16), other.wrapping_add(16));
            let two = same_16(at.wrapping_add(third), other.wrapping_add(third));
            return one & two & same_16(at.wrapping_add(last), other.wrapping_add(last)) == ALL_16;
        }
        if std::arch::is_x86_feature_detected!("avx2") {
            return mismatch_wide(at, bytes).is_none();
        }
        while next < last {
            if same_16(at.wrapping_add(next), other.wrapping_add(next)) != ALL_16 {
                return false;
            }
            next += 16;
        }
        same_16(at.wrapping_add(last), other.wrapping_add(last)) == ALL_16
    }
}

/// Where the bytes at `at` first differ from `bytes`.
///
/// # Safety
/// So many bytes are mapped at `at`.
#[inline(always)]
pub(crate) unsafe fn mismatch(at: *const u8, bytes: &[u8]) -> Option<Mismatch> {
    let (len, other) = (bytes.len(), bytes.as_ptr());
    // SAFETY: each access is of bytes before `len`: the first ones, or the last ones of as many.
    unsafe {
        match len {
            0..=7 => mismatch_short(at, bytes),
            8..=16 => {
                let last = len - 8;
                mismatch_8(at, other, 0).or_else(|| mismatch_8(at, other, last))
            }
            17..=32 => {
                let last = len - 16;
                mismatch_16(at, other, 0).or_else(|| mismatch_16(at, other, last))
            }
            _ => mismatch_long(at, bytes),
        }
    }
}

/// [`mismatch`] of fewer than eight bytes.
///
/// # Safety
/// As of [`mismatch`].
#[inline(always)]
unsafe fn mismatch_short(at: *const u8, bytes: &[u8]) -> Option<Mismatch> {
    let mut found = [0; 8];
    // SAFETY: the caller's promise; fewer bytes than `found` has.
    unsafe { read(at, found.as_mut_ptr(), bytes.len()) };
    let differs = |index: &usize| found[*index] != bytes[*index];
    let index = (0..bytes.len()).find(differs)?;
    Some(Mismatch { index, byte: found[index] })
}

/// Where eight bytes, `index` bytes behind `at` and `other`, first differ.
///
/// # Safety
/// Both ranges are mapped, and `other` may be read.
#[inline(always)]
unsafe fn mismatch_8(at: *const u8, other: *const u8, index: usize) -> Option<Mismatch> {
    // SAFETY: the caller's promise.
    let (found, expected) = unsafe {
        let expected = other.wrapping_add(index).cast::<u64>().read_unaligned();
        (load_8(at.wrapping_add(index)), expected)
    };
    let differs = found ^ expected;
    let bit = differs.trailing_zeros() & !7;
    let byte = (found >> (bit & 63)) as u8;
    (differs != 0).then_some(Mismatch { index: index + bit as usize / 8, byte })
}

/// Where sixteen bytes, `index` bytes behind `at` and `other`, first differ.
///
/// # Safety
/// Both ranges are mapped, and `other` may be read.
#[inline(always)]
unsafe fn mismatch_16(at: *const u8, other: *const u8, index: usize) -> Option<Mismatch> {
    // SAFETY: the caller's promise.
    unsafe {
        let found = load_16(at.wrapping_add(index));
        let expected = _mm_loadu_si128(other.wrapping_add(index).cast());
        let same = _mm_movemask_epi8(_mm_cmpeq_epi8(found, expected)) as u32;
        if same == ALL_16 {
            return None;
        }
        let first = same.trailing_ones() as usize;
        let mut bytes = [0; 16];
        _mm_storeu_si128(bytes.as_mut_ptr().cast(), found);
        Some(Mismatch { index: index + first, byte: bytes[first] })
    }
}

/// [`mismatch`] of more than 32 bytes.
///
/// # Safety
/// As of [`mismatch`].
#[inline(never)]
unsafe fn mismatch_long(at: *const u8, bytes: &[u8]) -> Option<Mismatch> {
    let (last, other) = (bytes.len() - 16, bytes.as_ptr());
    let mut next = 0;
    // SAFETY: the last sixteen bytes, and pieces that begin before them; the processor has what is asked of it.
    unsafe {
        if std::arch::is_x86_feature_detected!("avx2") {
            return mismatch_wide(at, bytes);
        }
        while next < last {
            let found = mismatch_16(at, other, next);
            if found.is_some() {
                return found;
            }
            next += 16;
        }
        mismatch_16(at, other, last)
    }
}

/// [`mismatch`] of more than 32 bytes, where the processor has AVX2.
///
/// # Safety
/// As of [`mismatch`].
#[target_feature(enable = "avx2")]
unsafe fn mismatch_wide(at: *const u8, bytes: &[u8]) -> Option<Mismatch> {
    let (last, other) = (bytes.len() - 32, bytes.as_ptr());
    let mut next = 0;
    // SAFETY: the last 32 bytes, and pieces that begin before them.
    unsafe {
        // Two pieces at a time; where they differ they are looked at again, as they were loaded.
        while next + 32 < last {
            let (one, two) = (load_32(at.wrapping_add(next)), load_32(at.wrapping_add(next + 32)));
            let same_one = same_32(one, other.wrapping_add(next));
            let same_two = same_32(two, other.wrapping_add(next + 32));
            if same_one & same_two != u32::MAX {
                return first_of_32(one, same_one, next)
                    .or_else(|| first_of_32(two, same_two, next + 32));
            }
            next += 64;
        }
        if next < last {
            let piece = load_32(at.wrapping_add(next));
            let found = first_of_32(piece, same_32(piece, other.wrapping_add(next)), next);
            if found.is_some() {
                return found;
            }
        }
        let piece = load_32(at.wrapping_add(last));
        first_of_32(piece, same_32(piece, other.wrapping_add(last)), last)
    }
}

/// One bit for each byte that is the same.
///
/// # Safety
/// `other` may be read; the processor has AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn same_32(piece: __m256i, other: *const u8) -> u32 {
    // SAFETY: the caller's promise.
    let other = unsafe { _mm256_loadu_si256(other.cast()) };
    _mm256_movemask_epi8(_mm256_cmpeq_epi8(piece, other)) as u32
}

/// The first byte that is not the same, of a piece `index` bytes behind the start.
#[inline]
#[target_feature(enable = "avx2")]
fn first_of_32(piece: __m256i, same: u32, index: usize) -> Option<Mismatch> {
    if same == u32::MAX {
        return None;
    }
    let first = same.trailing_ones() as usize;
    let mut bytes = [0; 32];
    // SAFETY: as many bytes as the piece has.
    unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), piece) };
    Some(Mismatch { index: index + first, byte: bytes[first] })
}
