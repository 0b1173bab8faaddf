//! A value as a reader gets it.

use std::fmt;
use std::mem::MaybeUninit;
use std::ops::Range;

use tembo_pmem::{Borrowed, BorrowedBytes, MediaBytes};

/// Most bytes of a value that is held as a copy.
const COPY_MAX: usize = 8;

/// Greatest length of a value that [`Value::with`] copies to the stack, not to the heap.
const WITH_MAX: usize = 512;

/// Memory for the copy of a value. It is not initialised before.
pub struct ValueRoom([MaybeUninit<u8>; ValueRoom::LEN]);

impl ValueRoom {
    /// Bytes of the longest value for which there is room.
    pub const LEN: usize = 512;

    /// Room for one value.
    #[inline(always)]
    pub const fn new() -> ValueRoom {
        ValueRoom([MaybeUninit::uninit(); ValueRoom::LEN])
    }
}

impl Default for ValueRoom {
    #[inline(always)]
    fn default() -> ValueRoom {
        ValueRoom::new()
    }
}

/// A value. A long one lies in the pool, and can be copied or compared while its version is pinned. A short
/// one is a copy, since a writer may move the original in its node even while the version is pinned.
#[derive(Clone, Copy)]
pub struct Value<'p>(BorrowedBytes<'p>);

impl<'p> From<&'p [u8]> for Value<'p> {
    /// A value in the memory of the program.
    #[inline]
    fn from(bytes: &'p [u8]) -> Value<'p> {
        Value(Borrowed::Memory(bytes).into())
    }
}

impl<'p> Value<'p> {
    /// A value that lies in the pool.
    #[inline(always)]
    pub(crate) fn in_pool(bytes: MediaBytes<'p>) -> Value<'p> {
        Value(Borrowed::Media(bytes).into())
    }

    /// A copy of the first `len` bytes of the word, at most 8.
    #[inline(always)]
    pub(crate) fn copy(word: u64, len: usize) -> Value<'p> {
        Value(Borrowed::Inline { word, len }.into())
    }

    /// A copy, in `room` if it does not fit into a word. `None`: the value is longer than `room`.
    #[inline(always)]
    pub(crate) fn copied<'r>(&self, room: &'r mut ValueRoom) -> Option<Value<'r>> {
        match self.0.borrowed() {
            Borrowed::Inline { word, len } => Some(Value::copy(word, len)),
            Borrowed::Media(bytes) => {
                let copy = bytes.copy_to_uninit(room.0.get_mut(..bytes.len())?);
                Some(Value::from(&*copy))
            }
            Borrowed::Memory(_) => None,
        }
    }

    /// The number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the value has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A part of the value. `None`: the value does not have so many bytes.
    #[inline]
    pub fn slice(&self, range: Range<usize>) -> Option<Value<'p>> {
        let borrowed = match self.0.borrowed() {
            Borrowed::Media(bytes) => Borrowed::Media(bytes.slice(range)?),
            Borrowed::Memory(bytes) => Borrowed::Memory(bytes.get(range)?),
            Borrowed::Inline { word, len } => {
                let part_len = range.end.checked_sub(range.start).filter(|_| range.end <= len)?;
                let word = word.checked_shr(8 * range.start as u32).unwrap_or(0);
                Borrowed::Inline { word, len: part_len }
            }
        };
        Some(Value(borrowed.into()))
    }

    /// The `N` bytes from `offset` on. `None`: there are fewer.
    #[inline]
    pub fn array<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        let mut array = [0; N];
        self.slice(offset..offset.checked_add(N)?)?.copy_to(&mut array);
        Some(array)
    }

    /// Copies all bytes into `to`.
    ///
    /// # Panics
    /// When `to` is of another length.
    #[inline]
    pub fn copy_to(&self, to: &mut [u8]) {
        match self.0.borrowed() {
            Borrowed::Media(bytes) => bytes.copy_to(to),
            Borrowed::Memory(bytes) => to.copy_from_slice(bytes),
            Borrowed::Inline { word, len } => {
                to.copy_from_slice(&word.to_le_bytes()[..len.min(COPY_MAX)])
            }
        }
    }

    /// Appends a copy of all bytes to `to`.
    #[inline]
    pub fn append_to(&self, to: &mut Vec<u8>) {
        match self.0.borrowed() {
            Borrowed::Media(bytes) => bytes.append_to(to),
            Borrowed::Memory(bytes) => to.extend_from_slice(bytes),
            Borrowed::Inline { word, len } => {
                to.extend_from_slice(&word.to_le_bytes()[..len.min(COPY_MAX)])
            }
        }
    }

    /// A copy of all bytes.
    #[inline]
    pub fn to_vec(&self) -> Vec<u8> {
        match self.0.borrowed() {
            Borrowed::Media(bytes) => bytes.to_vec(),
            Borrowed::Memory(bytes) => bytes.to_vec(),
            Borrowed::Inline { word, len } => word.to_le_bytes()[..len.min(COPY_MAX)].to_vec(),
        }
    }

    /// Calls `with` with the bytes, or with a copy of them. Up to 512 bytes are copied to the stack.
    #[inline]
    pub fn with<T>(&self, with: impl FnOnce(&[u8]) -> T) -> T {
        match self.0.borrowed() {
            Borrowed::Memory(bytes) => with(bytes),
            Borrowed::Inline { word, len } => with(&word.to_le_bytes()[..len.min(COPY_MAX)]),
            Borrowed::Media(bytes) if bytes.len() <= WITH_MAX => {
                let mut copy = [MaybeUninit::uninit(); WITH_MAX];
                with(bytes.copy_to_uninit(&mut copy[..bytes.len()]))
            }
            Borrowed::Media(bytes) => with(&bytes.to_vec()),
        }
    }

    /// Whether the value has these bytes.
    #[inline]
    pub fn is(&self, other: &[u8]) -> bool {
        match self.0.borrowed() {
            Borrowed::Media(bytes) => bytes.eq_bytes(other),
            Borrowed::Memory(bytes) => bytes == other,
            Borrowed::Inline { word, len } => &word.to_le_bytes()[..len.min(COPY_MAX)] == other,
        }
    }
}

impl PartialEq<[u8]> for Value<'_> {
    fn eq(&self, other: &[u8]) -> bool {
        self.is(other)
    }
}

impl PartialEq<&[u8]> for Value<'_> {
    fn eq(&self, other: &&[u8]) -> bool {
        self.is(other)
    }
}

impl PartialEq<Vec<u8>> for Value<'_> {
    fn eq(&self, other: &Vec<u8>) -> bool {
        self.is(other)
    }
}

impl<const N: usize> PartialEq<[u8; N]> for Value<'_> {
    fn eq(&self, other: &[u8; N]) -> bool {
        self.is(other)
    }
}

impl<const N: usize> PartialEq<&[u8; N]> for Value<'_> {
    fn eq(&self, other: &&[u8; N]) -> bool {
        self.is(*other)
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with(|bytes| bytes.fmt(f))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_the_bytes_that_the_word_had() {
        let bytes = *b"abcdefgh";
        for len in 0..=8 {
            let value = Value::copy(u64::from_le_bytes(bytes), len);
            let memory = Value::from(&bytes[..len]);
            assert_eq!(value, &bytes[..len]);
            assert_eq!(memory.to_vec(), value.to_vec());
            assert_eq!((value.len(), memory.len()), (len, len));
            for from in 0..=len {
                let part = value.slice(from..len).map(|part| part.to_vec());
                assert_eq!(part.as_deref(), bytes.get(from..len));
                assert_eq!(value.array::<2>(from), memory.array::<2>(from));
            }
            assert!(value.slice(0..len + 1).is_none());
        }
    }
}
