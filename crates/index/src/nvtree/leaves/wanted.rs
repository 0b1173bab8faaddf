//! A key that is looked for, as a search compares it.

use crate::head::head;
use crate::nvtree::format::Line;
use crate::nvtree::leaf::{Element, Shape, Slots, Traits, hash, place_of, read_of};

/// A key that is looked for.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'k> {
    pub(crate) key: &'k [u8],
    /// Its first eight bytes.
    pub(super) head: u64,
    pub(crate) hash: u64,
}

/// A key as the elements of a leaf have it, if all keys of the leaf have its prefix and this key has no more than a word
/// behind it.
#[derive(Clone, Copy)]
pub(crate) struct SimpleKey {
    pub(crate) word: u64,
    /// The key's part of the shape.
    pub(crate) shape: Shape,
}

impl<'k> Wanted<'k> {
    #[inline(always)]
    pub(crate) fn new(key: &'k [u8]) -> Wanted<'k> {
        Wanted { key, head: head(key, 0), hash: hash(key) }
    }

    /// The key as the elements of a leaf of that kind have it. `None`: they may have it in another form.
    #[inline(always)]
    pub(crate) fn simple(&self, traits: Traits) -> Option<SimpleKey> {
        let prefix_len = usize::from(traits.prefix_len);
        let rest = self.key.len().checked_sub(prefix_len)?;
        if traits.guarded || rest > 8 {
            return None;
        }
        let word = match self.key.len() {
            // The head has all of it.
            ..=8 => self.head.checked_shl(8 * prefix_len as u32).unwrap_or(0),
            _ => head(self.key, prefix_len),
        };
        Some(SimpleKey { word, shape: Shape::of_simple_key(rest) })
    }
}

impl SimpleKey {
    /// The newest element of the key, and its slot, found among the elements with the key's fingerprint.
    #[inline(always)]
    pub(crate) fn find(&self, mut matching: Slots, lines: &[Line]) -> Option<(usize, Element)> {
        matching.find_map(|slot| {
            let (number, at) = place_of(slot);
            Some((slot, read_of(lines.get(number)?, at, self.word, self.shape)?))
        })
    }
}
