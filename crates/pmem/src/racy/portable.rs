//! Relaxed atomic words, on every processor that has them.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Mismatch;

const WORD: usize = size_of::<u64>();

/// Bytes that are copied at a time before they are compared.
const PIECE: usize = 64;

/// The word that holds the byte at `at`, and which of its bytes that is.
///
/// # Safety
/// `at` lies in memory whose aligned words are all mapped and, while `'w` lasts, accessed atomically only.
unsafe fn word<'w>(at: *const u8) -> (&'w AtomicU64, usize) {
    let index = at.addr() % WORD;
    // SAFETY: aligned, and mapped by the caller's promise.
    (unsafe { &*at.wrapping_sub(index).cast::<AtomicU64>() }, index)
}

/// The byte at `at`.
///
/// # Safety
/// As of [`read`], of one byte.
pub(crate) unsafe fn load_byte(at: *const u8) -> u8 {
    // SAFETY: the caller's promise.
    let (word, index) = unsafe { word(at) };
    word.load(Ordering::Relaxed).to_ne_bytes()[index]
}

/// Reads `len` bytes at `from` into `to`.
///
/// # Safety
/// The aligned words that hold the bytes at `from` are mapped, and stored to by atomic words or by [`write`] only;
/// `to` may be written, and lies elsewhere.
pub(crate) unsafe fn read(from: *const u8, to: *mut u8, len: usize) {
    let mut done = 0;
    while done < len {
        // SAFETY: the caller's promise.
        let (word, index) = unsafe { word(from.wrapping_add(done)) };
        let bytes = word.load(Ordering::Relaxed).to_ne_bytes();
        let count = (WORD - index).min(len - done);
        // SAFETY: `count` bytes of the word and of what is left of `to`.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr().add(index), to.add(done), count);
        }
        done += count;
    }
}

/// Writes `len` bytes from `from` to `to`.
///
/// # Safety
/// `from` may be read, and is not stored to; the aligned words that hold the bytes at `to` are mapped, and
/// accessed by atomic words or by this module only.
pub(crate) unsafe fn write(from: *const u8, to: *mut u8, len: usize) {
    let mut done = 0;
    while done < len {
        // SAFETY: the caller's promise.
        let (word, index) = unsafe { word(to.wrapping_add(done)) };
        let count = (WORD - index).min(len - done);
        let put = |old: u64| {
            let mut bytes = old.to_ne_bytes();
            // SAFETY: `count` bytes of what is left of `from`, and of the word.
            unsafe {
                std::ptr::copy_nonoverlapping(from.add(done), bytes.as_mut_ptr().add(index), count);
            }
            u64::from_ne_bytes(bytes)
        };
        if count == WORD {
            word.store(put(0), Ordering::Relaxed);
        } else {
            // The other bytes of the word may be of another record.
            let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| Some(put(old)));
        }
        done += count;
    }
}

/// Whether the bytes at `at` are `bytes`.
///
/// # Safety
/// As of [`read`], of so many bytes.
pub(crate) unsafe fn equals(at: *const u8, bytes: &[u8]) -> bool {
    // SAFETY: the caller's promise.
    unsafe { mismatch(at, bytes) }.is_none()
}

/// Where the bytes at `at` first differ from `bytes`.
///
/// # Safety
/// As of [`read`], of so many bytes.
pub(crate) unsafe fn mismatch(at: *const u8, bytes: &[u8]) -> Option<Mismatch> {
    let mut buffer = [0; PIECE];
    for (number, piece) in bytes.chunks(PIECE).enumerate() {
        let start = number * PIECE;
        // SAFETY: the caller's promise, of a piece of the range.
        unsafe { read(at.wrapping_add(start), buffer.as_mut_ptr(), piece.len()) };
        let found = &buffer[..piece.len()];
        if let Some(index) = found.iter().zip(piece).position(|(one, other)| one != other) {
            return Some(Mismatch { index: start + index, byte: found[index] });
        }
    }
    None
}

/// The CRC-32C of `len` bytes at `at` behind bytes with the CRC-32C `init`.
///
/// # Safety
/// As of [`read`].
pub(crate) unsafe fn crc32c(init: u32, at: *const u8, len: usize) -> u32 {
    let mut buffer = [0; PIECE];
    (0..len).step_by(PIECE).fold(init, |crc, start| {
        let piece = &mut buffer[..PIECE.min(len - start)];
        // SAFETY: the caller's promise, of a piece of the range.
        unsafe { read(at.wrapping_add(start), piece.as_mut_ptr(), piece.len()) };
        crc32c::crc32c_append(crc, piece)
    })
}
