//! The bytes of a key, in memory or on media.

use std::cmp::Ordering;
use std::mem::MaybeUninit;
use std::ops::Range;

use tembo_pmem::MediaBytes;

use crate::head;

/// Longest key, in bytes: the length of a prefix, and of the least key of a leaf, have sixteen bits on media.
pub const KEY_SIZE_MAX: usize = u16::MAX as usize;

/// Greatest length of a key that is copied to the stack, not to the heap, to be compared with another key on media.
const SHORT: usize = 128;

/// A key: bytes in memory, or a place on media whose bytes are to be compared or copied.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KeyBytes<'k> {
    Memory(&'k [u8]),
    Media(MediaBytes<'k>),
}

impl<'k> From<&'k [u8]> for KeyBytes<'k> {
    #[inline]
    fn from(bytes: &'k [u8]) -> KeyBytes<'k> {
        KeyBytes::Memory(bytes)
    }
}

impl<'k> From<MediaBytes<'k>> for KeyBytes<'k> {
    #[inline]
    fn from(bytes: MediaBytes<'k>) -> KeyBytes<'k> {
        KeyBytes::Media(bytes)
    }
}

impl<'k> KeyBytes<'k> {
    pub(crate) const EMPTY: KeyBytes<'static> = KeyBytes::Memory(&[]);

    #[inline]
    pub(crate) fn len(&self) -> usize {
        match self {
            KeyBytes::Memory(bytes) => bytes.len(),
            KeyBytes::Media(bytes) => bytes.len(),
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A part of the key. `None`: the key does not have so many bytes.
    #[inline]
    pub(crate) fn slice(&self, range: Range<usize>) -> Option<KeyBytes<'k>> {
        match self {
            KeyBytes::Memory(bytes) => bytes.get(range).map(KeyBytes::Memory),
            KeyBytes::Media(bytes) => bytes.slice(range).map(KeyBytes::Media),
        }
    }

    /// Compares the key with other bytes.
    #[inline]
    pub(crate) fn compare(&self, other: &[u8]) -> Ordering {
        match self {
            KeyBytes::Memory(bytes) => (*bytes).cmp(other),
            KeyBytes::Media(bytes) => bytes.cmp_bytes(other),
        }
    }

    /// Whether the key has these bytes.
    #[inline]
    pub(crate) fn is(&self, other: &[u8]) -> bool {
        match self {
            KeyBytes::Memory(bytes) => *bytes == other,
            KeyBytes::Media(bytes) => bytes.eq_bytes(other),
        }
    }

    #[inline]
    pub(crate) fn starts_with(&self, other: &[u8]) -> bool {
        match self {
            KeyBytes::Memory(bytes) => bytes.starts_with(other),
            KeyBytes::Media(bytes) => bytes.starts_with(other),
        }
    }

    /// Whether `key` begins with the bytes of this key.
    #[inline]
    pub(crate) fn is_prefix_of(&self, key: &[u8]) -> bool {
        key.get(..self.len()).is_some_and(|front| self.is(front))
    }

    /// How many bytes two keys have in common at their beginning.
    #[inline]
    pub(crate) fn common_len(&self, other: &[u8]) -> usize {
        match self {
            KeyBytes::Memory(bytes) => head::common_len(bytes, other),
            KeyBytes::Media(bytes) => bytes.common_prefix_len(other),
        }
    }

    /// The eight bytes from `at` on, as a number that orders like the key; zeros where it has ended.
    #[inline]
    pub(crate) fn head(&self, at: usize) -> u64 {
        match self {
            KeyBytes::Memory(bytes) => head::head(bytes, at),
            KeyBytes::Media(bytes) => {
                // There is one load. Where fewer than eight bytes follow `at`, it is of the last eight bytes.
                let last = bytes.len().wrapping_sub(8);
                if let Some(word) = bytes.read(at.min(last)) {
                    let before = at.saturating_sub(last).saturating_mul(8);
                    let shift = u32::try_from(before).unwrap_or(u32::MAX);
                    return u64::from_be_bytes(word).checked_shl(shift).unwrap_or(0);
                }
                let mut word = [0; 8];
                if let Some(rest) = bytes.slice(at.min(bytes.len())..bytes.len()) {
                    rest.copy_to(&mut word[..rest.len()]);
                }
                u64::from_be_bytes(word)
            }
        }
    }

    #[inline]
    pub(crate) fn append_to(&self, to: &mut Vec<u8>) {
        match self {
            KeyBytes::Memory(bytes) => to.extend_from_slice(bytes),
            KeyBytes::Media(bytes) => bytes.append_to(to),
        }
    }

    /// Replaces the content of `to` by a copy of the bytes.
    #[inline]
    pub(crate) fn clone_into(&self, to: &mut Vec<u8>) {
        to.clear();
        self.append_to(to);
    }

    #[inline]
    pub(crate) fn to_vec(self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.append_to(&mut bytes);
        bytes
    }

    /// Calls `with` with the bytes, or a copy of them.
    #[inline]
    pub(crate) fn with<T>(&self, with: impl FnOnce(&[u8]) -> T) -> T {
        match self {
            KeyBytes::Memory(bytes) => with(bytes),
            KeyBytes::Media(bytes) if bytes.len() <= SHORT => {
                let mut copy = [MaybeUninit::uninit(); SHORT];
                with(bytes.copy_to_uninit(&mut copy[..bytes.len()]))
            }
            KeyBytes::Media(bytes) => with(&bytes.to_vec()),
        }
    }
}

impl PartialEq for KeyBytes<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for KeyBytes<'_> {}

impl PartialOrd for KeyBytes<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for KeyBytes<'_> {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (_, KeyBytes::Memory(other)) => self.compare(other),
            (KeyBytes::Memory(bytes), KeyBytes::Media(_)) => other.compare(bytes).reverse(),
            (KeyBytes::Media(_), KeyBytes::Media(_)) => other.with(|other| self.compare(other)),
        }
    }
}

impl PartialEq<[u8]> for KeyBytes<'_> {
    fn eq(&self, other: &[u8]) -> bool {
        self.is(other)
    }
}

impl PartialOrd<[u8]> for KeyBytes<'_> {
    fn partial_cmp(&self, other: &[u8]) -> Option<Ordering> {
        Some(self.compare(other))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tembo_pmem::{Region, RegionOptions};

    use super::*;

    /// Heads of every key of up to twenty bytes, at every place, and far beyond the key's end.
    #[test]
    fn a_key_on_media_has_the_head_that_it_has_in_memory() {
        let image: Vec<u8> = (1..=24).collect();
        let region = Region::from_image(&image, &RegionOptions::default()).unwrap();
        for len in 0..=20 {
            let media = KeyBytes::from(region.media_bytes(3, len).unwrap());
            let memory = KeyBytes::from(&image[3..3 + len as usize]);
            for at in (0..=30).chain([usize::from(u16::MAX), usize::MAX]) {
                assert_eq!(media.head(at), memory.head(at), "{len} bytes, from {at}");
            }
        }
    }
}
