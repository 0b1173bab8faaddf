//! A value as a reader gets it.

use std::ops::Deref;

/// Bytes that a copy can have.
const COPY_MAX: usize = 8;

/// A value: sound while its version is pinned. A long one lies in the pool, where nobody changes it. A
/// short one may have stood in a node, from which a writer may move it while the version is pinned,
/// and so is a copy.
#[derive(Clone, Copy, Debug)]
pub struct Value<'p>(Bytes<'p>);

#[derive(Clone, Copy, Debug)]
enum Bytes<'p> {
    Pool(&'p [u8]),
    Copy { word: [u8; COPY_MAX], len: u8 },
}

impl<'p> Value<'p> {
    /// One that lies in the pool, immutable.
    #[inline]
    pub(crate) fn in_pool(bytes: &'p [u8]) -> Value<'p> {
        Value(Bytes::Pool(bytes))
    }

    /// The first `len` bytes of the word; at most 8.
    #[inline]
    pub(crate) fn copy(word: u64, len: usize) -> Value<'p> {
        Value(Bytes::Copy { word: word.to_le_bytes(), len: len.min(COPY_MAX) as u8 })
    }
}

impl Deref for Value<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Pool(bytes) => bytes,
            Bytes::Copy { word, len } => &word[..usize::from(*len).min(COPY_MAX)],
        }
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
            assert_eq!(&*value, &bytes[..len]);
            assert_eq!(&*value, &*Value::in_pool(&bytes[..len]));
        }
    }
}
