//! A range of bytes of a region.
#![allow(unsafe_code)]

use std::cmp::Ordering;
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr::NonNull;

use zerocopy::FromBytes;

use super::Word;
use crate::racy;

/// A range of bytes of a region, which may change at any time: a place, not a value. To be read it is copied or
/// compared. A byte that is read is one that was stored there; if the range is stored to meanwhile, bytes of
/// different times may come together.
///
/// A record that is written once is stable as long as its space is not used for something else. A damaged
/// pool may name one piece of space twice, and then what is read is wrong, and nothing worse.
#[derive(Clone, Copy)]
pub struct MediaBytes<'r> {
    at: NonNull<u8>,
    len: usize,
    _words: PhantomData<&'r [Word]>,
}

// SAFETY: a shared reference to memory that any thread may load from and store to.
unsafe impl Send for MediaBytes<'_> {}
// SAFETY: as above.
unsafe impl Sync for MediaBytes<'_> {}

impl<'r> MediaBytes<'r> {
    /// The `len` bytes at `at`.
    ///
    /// # Safety
    /// They lie in one region, and so do the aligned words that hold them; the region lives as long as `'r`.
    #[inline(always)]
    pub(crate) unsafe fn new(at: *const u8, len: usize) -> MediaBytes<'r> {
        // SAFETY: nothing of a region lies at address zero.
        let at = unsafe { NonNull::new_unchecked(at.cast_mut()) };
        MediaBytes { at, len, _words: PhantomData }
    }

    /// Where they begin.
    #[inline(always)]
    pub(super) fn at(&self) -> *const u8 {
        self.at.as_ptr()
    }

    /// So many bytes.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A part of the range; `None` where it does not have so many bytes.
    #[inline(always)]
    pub fn slice(&self, range: Range<usize>) -> Option<MediaBytes<'r>> {
        let is_within = range.start <= range.end && range.end <= self.len;
        // SAFETY: a part of the range, which has it.
        is_within.then(|| unsafe {
            MediaBytes::new(self.at().wrapping_add(range.start), range.end - range.start)
        })
    }

    /// The first `mid` bytes, and the others; `None` where there are fewer.
    #[inline(always)]
    pub fn split_at(&self, mid: usize) -> Option<(MediaBytes<'r>, MediaBytes<'r>)> {
        Some((self.slice(0..mid)?, self.slice(mid..self.len)?))
    }

    /// A byte; `None` behind the end.
    #[inline(always)]
    pub fn byte(&self, index: usize) -> Option<u8> {
        // SAFETY: within the range.
        (index < self.len).then(|| unsafe { racy::load_byte(self.at().wrapping_add(index)) })
    }

    /// Copies all bytes into `to`.
    ///
    /// # Panics
    /// When `to` is of another length.
    #[inline(always)]
    pub fn copy_to(&self, to: &mut [u8]) {
        assert_eq!(to.len(), self.len, "a copy is as long as what is copied");
        // SAFETY: as many bytes, in memory of the program, which no region has.
        unsafe { racy::read(self.at(), to.as_mut_ptr(), self.len) }
    }

    /// Copies all bytes into `to`, and returns them.
    ///
    /// # Panics
    /// When `to` is of another length.
    #[inline(always)]
    pub fn copy_to_uninit<'t>(&self, to: &'t mut [MaybeUninit<u8>]) -> &'t mut [u8] {
        assert_eq!(to.len(), self.len, "a copy is as long as what is copied");
        // SAFETY: as many bytes, in memory of the program, which no region has; all are written.
        unsafe {
            racy::read(self.at(), to.as_mut_ptr().cast(), self.len);
            std::slice::from_raw_parts_mut(to.as_mut_ptr().cast(), self.len)
        }
    }

    /// Copies all bytes behind those that `to` has.
    #[inline]
    pub fn append_to(&self, to: &mut Vec<u8>) {
        to.reserve(self.len);
        // SAFETY: there is room for so many behind the end, and all are written.
        unsafe {
            racy::read(self.at(), to.as_mut_ptr().add(to.len()), self.len);
            to.set_len(to.len() + self.len);
        }
    }

    /// A copy of all bytes.
    #[inline]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len);
        self.append_to(&mut bytes);
        bytes
    }

    /// A copy of what lies `offset` bytes behind the start; `None` where the range ends before its end.
    #[inline(always)]
    pub fn read<T: FromBytes>(&self, offset: usize) -> Option<T> {
        let from = self.slice(offset..offset.checked_add(size_of::<T>())?)?;
        let mut value = MaybeUninit::<T>::uninit();
        // SAFETY: as many bytes as `T` has, of which every pattern is valid; all are written.
        unsafe {
            racy::read(from.at(), value.as_mut_ptr().cast(), from.len);
            Some(value.assume_init())
        }
    }

    /// Whether these are the bytes.
    #[inline(always)]
    pub fn eq_bytes(&self, bytes: &[u8]) -> bool {
        // SAFETY: so many bytes are in the range.
        self.len == bytes.len() && unsafe { racy::equals(self.at(), bytes) }
    }

    /// Whether they begin so.
    #[inline(always)]
    pub fn starts_with(&self, bytes: &[u8]) -> bool {
        // SAFETY: so many bytes are in the range.
        self.len >= bytes.len() && unsafe { racy::equals(self.at(), bytes) }
    }

    /// Which comes first in the order of bytes, as of slices.
    #[inline(always)]
    pub fn cmp_bytes(&self, bytes: &[u8]) -> Ordering {
        let common = self.len.min(bytes.len());
        // SAFETY: so many bytes are in the range.
        match unsafe { racy::mismatch(self.at(), &bytes[..common]) } {
            Some(found) => found.byte.cmp(&bytes[found.index]),
            None => self.len.cmp(&bytes.len()),
        }
    }

    /// How many bytes at the beginning are the same.
    #[inline(always)]
    pub fn common_prefix_len(&self, bytes: &[u8]) -> usize {
        let common = self.len.min(bytes.len());
        // SAFETY: so many bytes are in the range.
        let found = unsafe { racy::mismatch(self.at(), &bytes[..common]) };
        found.map_or(common, |found| found.index)
    }

    /// Their CRC-32C, begun with that of what comes before, zero at the beginning.
    #[inline]
    pub fn crc32c(&self, init: u32) -> u32 {
        // SAFETY: the range is mapped.
        unsafe { racy::crc32c(init, self.at(), self.len) }
    }
}

/// The CRC-32C of bytes, begun with that of what comes before, zero at the beginning. (RFC 3720, B.4.) Quick for
/// short ranges too.
#[inline]
pub fn crc32c(init: u32, bytes: &[u8]) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the bytes may be read, and nothing stores to them.
    let crc = unsafe { racy::crc32c(init, bytes.as_ptr(), bytes.len()) };
    // Elsewhere that reads the whole words around them, which are another's.
    #[cfg(any(miri, not(target_arch = "x86_64")))]
    let crc = ::crc32c::crc32c_append(init, bytes);
    crc
}

impl fmt::Debug for MediaBytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes on media", self.len)
    }
}
