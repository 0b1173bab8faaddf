//! A leaf as it stands on media, and the cell that the list of leaves hangs on.

use std::mem::offset_of;

use tembo_pmem::{Word, media};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::Records;

media! {
    /// Head of a leaf: one cache line. Shape and low key are written before the leaf is linked and never
    /// change.
    #[derive(Debug)]
    pub(crate) struct LeafHeader {
        /// [`LEAF_MAGIC`] in the high half, then the prefix length and the length of the low key, 16
        /// bits each.
        pub(crate) shape: Word,
        /// Object of the next leaf, 0: the last. Stored once by each split and merge.
        pub(crate) next: Word,
        /// Object of the first history leaf, 0: none.
        pub(crate) older: Word,
        /// Versions that the deltas of elements are counted from.
        pub(crate) bases: [Word; 2],
        /// The low key's bytes if they fit in, else the object of a record that has it as its key.
        pub(crate) low: [Word; 3],
    }
}

pub(crate) const LEAF_MAGIC: u32 = u32::from_le_bytes(*b"NVTL");
pub(crate) const HEADER_SIZE: u64 = size_of::<LeafHeader>() as u64;
/// Bytes of a low key that fit into the header.
pub(crate) const LOW_INLINE: usize = 24;
const _: () = assert!(HEADER_SIZE == 64 && size_of::<[Word; 3]>() == LOW_INLINE);

media! {
    /// Three elements in a cache line. Each becomes valid by its meta bits, which are stored last: stores to one line become
    /// durable in order, so the meta bits vouch for the rest.
    #[derive(Debug)]
    pub(crate) struct Line {
        pub(crate) pairs: [Pair; SLOTS_PER_LINE],
        /// Meta bits (32) of the first element and, above them, of the second.
        pub(crate) metas: Word,
        /// Meta bits of the third and, above them, ten bits of shape for each.
        pub(crate) meta_and_shapes: Word,
    }
}

media! {
    /// The key word and the payload word of an element.
    #[derive(Debug)]
    pub(crate) struct Pair {
        /// The key's bytes after the leaf's prefix, big-endian, padded with zeros; the first eight.
        pub(crate) key: Word,
        /// The value's bytes, or the object of a record of key and value with the key's fingerprint
        /// above it.
        pub(crate) payload: Word,
    }
}

pub(crate) const SLOTS_PER_LINE: usize = 3;
/// Pairs that fit into the size of a line. Three are those of its elements; its meta bits are as long as the fourth.
pub(crate) const PAIRS_PER_LINE: usize = size_of::<Line>() / size_of::<Pair>();
pub(crate) const LINE_SIZE: u64 = size_of::<Line>() as u64;
const _: () = assert!(LINE_SIZE == 64);

/// Lines of elements that a side-car can describe.
pub(crate) const LINES_MAX: usize = 15;
pub(crate) const SLOTS_MAX: usize = LINES_MAX * SLOTS_PER_LINE;

/// Lines of elements in a leaf of `node_size` bytes.
pub(crate) fn lines_in(node_size: u64) -> usize {
    (node_size.saturating_sub(HEADER_SIZE) / LINE_SIZE).min(LINES_MAX as u64) as usize
}

/// Bits of an element's meta word, from the top: removed, which base, lane, delta.
pub(crate) const META_REMOVED: u32 = 1 << 31;
pub(crate) const META_BASE: u32 = 1 << 30;
pub(crate) const META_LANE_SHIFT: u32 = 26;
pub(crate) const META_LANE_MASK: u32 = 0xf;
pub(crate) const DELTA_MAX: u32 = (1 << META_LANE_SHIFT) - 1;

/// Bits of an element's shape: length of the key after the prefix, length of the value, and whether
/// the key lacks the prefix and begins with its own first byte.
pub(crate) const SHAPE_BITS: u32 = 10;
pub(crate) const SHAPE_VALUE_SHIFT: u32 = 4;
pub(crate) const SHAPE_ODD: u32 = 1 << 8;
/// A length in a shape that means: longer than a word, and in the record.
pub(crate) const SHAPE_LONG: u32 = 0xf;
/// A length of a value that means: the value is the whole object, a block. The key stands in its word; above the object
/// stand 16 bits of the value's checksum. It occurs only where records have checksums: a program that does not know it
/// does not know such trees either.
pub(crate) const SHAPE_BLOCK: u32 = 0xe;
/// The least size of a value that is stored as a block.
pub(crate) const BLOCK_MIN: u64 = 512;

media! {
    /// An entry of a history leaf, which is written once and holds what old versions need: half a line.
    #[derive(Debug)]
    pub(crate) struct OldEntry {
        /// Key and payload, as in the leaf that the history belongs to.
        pub(crate) pair: Pair,
        /// The whole stamp; 0: no entry.
        pub(crate) stamp: Word,
        /// The shape, and [`META_REMOVED`].
        pub(crate) shape: Word,
    }
}

media! {
    /// Head of a history leaf: one cache line; entries follow.
    #[derive(Debug)]
    pub(crate) struct HistoryHeader {
        /// [`HISTORY_MAGIC`] in the high half.
        pub(crate) shape: Word,
        /// Object of the next history leaf, 0: none.
        pub(crate) older: Word,
        pub(crate) reserved: [Word; 6],
    }
}

pub(crate) const HISTORY_MAGIC: u32 = u32::from_le_bytes(*b"NVTH");
pub(crate) const OLD_ENTRY_SIZE: u64 = size_of::<OldEntry>() as u64;
const _: () = assert!(OLD_ENTRY_SIZE == 32 && size_of::<HistoryHeader>() as u64 == HEADER_SIZE);

/// Entries in a history leaf of `node_size` bytes.
pub(crate) fn old_entries_in(node_size: u64) -> usize {
    (node_size.saturating_sub(HEADER_SIZE) / OLD_ENTRY_SIZE) as usize
}

media! {
    /// The durable cell of a tree: one cache line.
    #[derive(Debug)]
    pub(crate) struct TreeCell {
        /// Object of the first leaf; never changes.
        pub(crate) first: Word,
        /// See [`cell_magic`].
        pub(crate) magic: Word,
        /// Object of the hint's directory, 0: there is no hint. Stored after `hint_check`, in one line.
        pub(crate) hint: Word,
        /// Bytes of the directory (the high half) and their CRC-32C.
        pub(crate) hint_check: Word,
        pub(crate) reserved: [Word; 4],
    }
}

/// The order of the leaves in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sorted {
    /// They are in the order of the keys' bytes.
    ByKey,
    /// They are in the order of the bytes of the scattered keys (`hash/scatter.rs`), which stand in the place of the keys:
    /// the list of a hash index.
    ByHash,
}

pub(crate) const CELL_MAGIC: u64 = u64::from_le_bytes(*b"NVT-CELL");
/// The magic of a tree whose records have checksums.
pub(crate) const CHECKED_CELL_MAGIC: u64 = u64::from_le_bytes(*b"NVT-CEL2");
/// The magics of a hash index, and of one whose records have checksums.
pub(crate) const HASH_CELL_MAGIC: u64 = u64::from_le_bytes(*b"HSH-CELL");
pub(crate) const CHECKED_HASH_CELL_MAGIC: u64 = u64::from_le_bytes(*b"HSH-CEL2");
pub(crate) const CELL_SIZE: u64 = size_of::<TreeCell>() as u64;
const _: () = assert!(CELL_SIZE == 64);

/// Head of a hint's directory. An entry for the first leaf of each page follows it, and behind each entry a [`HintPage`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(crate) struct HintHeader {
    /// [`HINT_MAGIC`].
    pub(crate) magic: u64,
    /// Leaves in the list when the hint was written.
    pub(crate) leaf_count: u64,
}

pub(crate) const HINT_MAGIC: u64 = u64::from_le_bytes(*b"NVT-HINT");

/// A leaf in a hint; the last bytes of its low key follow.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(crate) struct HintEntry {
    /// The leaf's offset in units of its size.
    pub(crate) leaf: u32,
    /// First bytes that its low key shares with that of the entry before.
    pub(crate) shared: u16,
    /// Bytes that follow.
    pub(crate) rest: u16,
}

/// The place of a page of the hint. In the directory it follows the entry of the page's first leaf.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(crate) struct HintPage {
    /// The object in which the page lies.
    pub(crate) object: u64,
    /// Size of the page, in bytes.
    pub(crate) size: u32,
    /// The CRC-32C of the page.
    pub(crate) crc: u32,
}

const _: () = assert!(
    size_of::<HintHeader>() == 16 && size_of::<HintEntry>() == 8 && size_of::<HintPage>() == 16
);
const _: () = assert!(offset_of!(TreeCell, hint) == 16 && offset_of!(TreeCell, hint_check) == 24);

/// The magic of a list, by its order and the kind of its records.
pub(crate) fn cell_magic(sorted: Sorted, records: Records) -> u64 {
    match (sorted, records) {
        (Sorted::ByKey, Records::Unchecked) => CELL_MAGIC,
        (Sorted::ByKey, Records::Checked) => CHECKED_CELL_MAGIC,
        (Sorted::ByHash, Records::Unchecked) => HASH_CELL_MAGIC,
        (Sorted::ByHash, Records::Checked) => CHECKED_HASH_CELL_MAGIC,
    }
}

/// The kind of the records of a list with that magic. `None`: it is no magic of a list in that order.
pub(crate) fn records_of(sorted: Sorted, magic: u64) -> Option<Records> {
    [Records::Unchecked, Records::Checked]
        .into_iter()
        .find(|&records| cell_magic(sorted, records) == magic)
}
