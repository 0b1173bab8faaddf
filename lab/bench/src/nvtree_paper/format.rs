//! What the paper's tree has on media. Offsets in the pool and plain words; the layout of inner nodes
//! is [`super::block`]'s, for it is one array of words.

use tembo_pmem::{LINE, Word, media};

pub(super) const ROOT_MAGIC: u64 = u64::from_le_bytes(*b"NVTroot1");
pub(super) const LEAF_MAGIC: u32 = u32::from_le_bytes(*b"NVLN");

media! {
    /// The reserved position (section 4.6): one line.
    #[derive(Debug)]
    pub(super) struct TreeRoot {
        /// [`ROOT_MAGIC`].
        pub(super) magic: Word,
        /// Object of the first leaf; 0 while the tree is empty.
        pub(super) head: Word,
        /// Bytes in a leaf that nothing has resized.
        pub(super) leaf_size: Word,
        /// Object of the block of inner nodes, as of the last clean stop.
        pub(super) block: Word,
        /// Units of PLNs in it.
        pub(super) units: Word,
        /// Leaves in the list then.
        pub(super) leaves: Word,
        /// 1: the three words above hold, and so does the block.
        pub(super) clean: Word,
        pub(super) reserved: Word,
    }
}

media! {
    /// Head of a leaf (LN): one line.
    #[derive(Debug)]
    pub(super) struct LeafHeader {
        /// `nElement`: elements beyond it are invisible.
        pub(super) count: Word,
        /// Object of the next leaf in key order; 0: there is none.
        pub(super) next: Word,
        /// [`LEAF_MAGIC`] above the leaf's size in bytes, header included.
        pub(super) shape: Word,
        pub(super) reserved: [Word; 5],
    }
}

/// Words in the head of a leaf.
pub(super) const HEADER_WORDS: usize = 8;

/// Words in an element (`LN_element`): flag, key, value. It may straddle two lines.
pub(super) const ELEMENT_WORDS: usize = 3;

/// Bytes in an element.
pub(super) const ELEMENT_SIZE: u64 = 8 * ELEMENT_WORDS as u64;

/// An element that gives its key a value.
pub(super) const POSITIVE: u64 = 1;

/// An element that takes the value of its key away.
pub(super) const NEGATIVE: u64 = 2;

/// The smallest leaf that can be split: five elements.
pub(super) const LEAF_SIZE_MIN: u64 = 3 * LINE;

const _: () = {
    assert!(size_of::<TreeRoot>() as u64 == LINE);
    assert!(size_of::<LeafHeader>() as u64 == LINE);
    assert!(HEADER_WORDS * 8 == size_of::<LeafHeader>());
};

/// Elements in a leaf of `size` bytes.
pub(super) const fn capacity(size: u64) -> usize {
    (size.saturating_sub(LINE) / ELEMENT_SIZE) as usize
}

/// The word with a leaf and its size.
pub(super) const fn shape(size: u64) -> u64 {
    (LEAF_MAGIC as u64) << 32 | size
}
