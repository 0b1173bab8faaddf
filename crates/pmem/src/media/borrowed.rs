//! Bytes as a reader gets them, in two words.
#![allow(unsafe_code)]

use std::num::NonZeroUsize;

use super::MediaBytes;

/// Bytes that a [`BorrowedBytes`] can have in itself.
const WORD: usize = size_of::<u64>();

/// Where the number of the place is, in the word of the length.
const PLACE_SHIFT: u32 = usize::BITS - 2;
const LEN_MASK: usize = (1 << PLACE_SHIFT) - 1;

const MEDIA: NonZeroUsize = at_top(1);
const MEMORY: NonZeroUsize = at_top(2);
const INLINE: NonZeroUsize = at_top(3);

const fn at_top(place: usize) -> NonZeroUsize {
    match NonZeroUsize::new(place << PLACE_SHIFT) {
        Some(place) => place,
        None => NonZeroUsize::MIN,
    }
}

/// Where the bytes are that a reader borrows.
#[derive(Clone, Copy, Debug)]
pub enum Borrowed<'b> {
    /// In a region.
    Media(MediaBytes<'b>),
    /// In memory of the program.
    Memory(&'b [u8]),
    /// The first `len` bytes of a word, the lowest first; at most eight.
    Inline {
        /// The word.
        word: u64,
        /// How many bytes of it.
        len: usize,
    },
}

/// A [`Borrowed`] in two words, which are passed in registers: a value that is handed from function to function
/// is not stored and loaded again on each way.
#[derive(Clone, Copy)]
pub struct BorrowedBytes<'b> {
    /// The address, or the bytes themselves.
    at: *const u8,
    /// The length, and in the two highest bits the place.
    len: NonZeroUsize,
    _place: std::marker::PhantomData<Borrowed<'b>>,
}

// SAFETY: as `Borrowed`, which has nothing but shared references.
unsafe impl Send for BorrowedBytes<'_> {}
// SAFETY: as above.
unsafe impl Sync for BorrowedBytes<'_> {}

impl<'b> From<Borrowed<'b>> for BorrowedBytes<'b> {
    #[inline(always)]
    fn from(borrowed: Borrowed<'b>) -> BorrowedBytes<'b> {
        let (at, len, place) = match borrowed {
            Borrowed::Media(bytes) => (bytes.at(), bytes.len(), MEDIA),
            Borrowed::Memory(bytes) => (bytes.as_ptr(), bytes.len(), MEMORY),
            Borrowed::Inline { word, len } => {
                (std::ptr::without_provenance(word as usize), len.min(WORD), INLINE)
            }
        };
        // No memory is that large; a length that reached the bits of the place would be that of a place elsewhere.
        assert!(len <= LEN_MASK, "more bytes than there are addresses");
        BorrowedBytes { at, len: place | len, _place: std::marker::PhantomData }
    }
}

impl<'b> BorrowedBytes<'b> {
    /// So many bytes.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len.get() & LEN_MASK
    }

    /// Whether there are none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where they are.
    #[inline(always)]
    pub fn borrowed(self) -> Borrowed<'b> {
        let place = self.len.get() & !LEN_MASK;
        if place == MEDIA.get() {
            // SAFETY: made of bytes of a region, which is borrowed for `'b`.
            return Borrowed::Media(unsafe { MediaBytes::new(self.at, self.len()) });
        }
        if place == MEMORY.get() {
            // SAFETY: made of a slice, which is borrowed for `'b`.
            return Borrowed::Memory(unsafe { std::slice::from_raw_parts(self.at, self.len()) });
        }
        Borrowed::Inline { word: self.at.addr() as u64, len: self.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_words_have_what_the_place_had() {
        const WORDS: usize = 2 * size_of::<usize>();
        assert_eq!(
            (size_of::<BorrowedBytes<'_>>(), size_of::<Option<BorrowedBytes<'_>>>()),
            (WORDS, WORDS)
        );
        let memory = *b"abcdefghijkl";
        for len in 0..=memory.len() {
            let borrowed = BorrowedBytes::from(Borrowed::Memory(&memory[..len]));
            assert!(
                matches!(borrowed.borrowed(), Borrowed::Memory(bytes) if bytes == &memory[..len])
            );
            // SAFETY: read as memory that is not stored to.
            let media = unsafe { MediaBytes::new(memory.as_ptr(), len) };
            let borrowed = BorrowedBytes::from(Borrowed::Media(media));
            assert!(
                matches!(borrowed.borrowed(), Borrowed::Media(bytes) if bytes.len() == len && bytes.at() == media.at())
            );
            let borrowed = BorrowedBytes::from(Borrowed::Inline { word: u64::MAX - 5, len });
            assert_eq!((borrowed.len(), borrowed.is_empty()), (len.min(8), len == 0));
            assert!(
                matches!(borrowed.borrowed(), Borrowed::Inline { word, len: kept } if word == u64::MAX - 5 && kept == len.min(8))
            );
        }
    }
}
