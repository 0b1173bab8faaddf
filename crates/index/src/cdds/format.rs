//! Nodes and their bounds as they stand on media.

use tembo_pmem::{Word, media};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::Records;

/// Head of the record of a node's bounds; the bytes of the low key, the high key and the
/// prefix follow.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct BoundsHeader {
    /// Length of the low key, or [`UNBOUNDED`].
    pub(crate) low_len: u32,
    /// Length of the high key, or [`UNBOUNDED`].
    pub(crate) high_len: u32,
    /// Length of the prefix of a guarded node, else 0.
    pub(crate) prefix_len: u32,
    pub(crate) reserved: u32,
}

/// A length that says: no bound on this side.
pub(crate) const UNBOUNDED: u32 = u32::MAX;
pub(crate) const BOUNDS_HEADER: u64 = size_of::<BoundsHeader>() as u64;
const _: () = assert!(BOUNDS_HEADER == 16);

media! {
    /// Head of a node: one cache line, written before the node is published. Later only the two words of the
    /// root chain change, while the node becomes the root, and `death`, when it is replaced.
    #[derive(Debug)]
    pub(crate) struct NodeHeader {
        /// [`NODE_MAGIC`] in the high half, then prefix length (16 bits), capacity (8), guarded (1)
        /// and level (7).
        pub(crate) shape: Word,
        /// Stamp of the version that made the node.
        pub(crate) birth: Word,
        /// Object of the bounds record, 0 for a node without bounds.
        pub(crate) bounds: Word,
        /// Stamp since which the node is the root.
        pub(crate) root_since: Word,
        /// Object of the root before, for readers of older versions.
        pub(crate) older_root: Word,
        /// Stamp of the version that replaced the node; 0: none. It ends every entry that has no end.
        pub(crate) death: Word,
        pub(crate) reserved: [Word; 2],
    }
}

pub(crate) const NODE_MAGIC: u32 = u32::from_le_bytes(*b"CDDS");
pub(crate) const NODE_HEADER: u64 = size_of::<NodeHeader>() as u64;
const _: () = assert!(NODE_HEADER == 64);

media! {
    /// An entry: half a cache line, so that none straddles two. `start` is stored last, so by the order
    /// of stores within a line a durable `start` vouches for the other words.
    #[derive(Debug)]
    pub(crate) struct Entry {
        /// The eight key bytes after the node's prefix, big-endian, padded with zeros.
        pub(crate) head: Word,
        /// Object of the record (leaf) or child (inner); in a leaf the key's fingerprint above it.
        pub(crate) target: Word,
        /// Stamp of the version that ended the entry; 0: none.
        pub(crate) end: Word,
        /// Stamp of the version that began the entry; 0: the slot is empty.
        pub(crate) start: Word,
    }
}

pub(crate) const ENTRY_SIZE: u64 = size_of::<Entry>() as u64;
const _: () = assert!(ENTRY_SIZE == 32 && NODE_HEADER.is_multiple_of(ENTRY_SIZE));

/// The head of an entry whose child has no high key.
pub(crate) const UNBOUNDED_HEAD: u64 = u64::MAX;

/// Bit of a node's shape: the present keys have the prefix, but not all keys that may come.
pub(crate) const GUARDED: u64 = 1 << 7;

/// Entries that the order of a node can hold.
pub(crate) const CAPACITY_MAX: usize = 30;

/// Entries in a node of `node_size` bytes.
pub(crate) fn capacity(node_size: u64) -> usize {
    let entries = node_size.saturating_sub(NODE_HEADER) / ENTRY_SIZE;
    (entries as usize).min(CAPACITY_MAX)
}

/// The shape word of a node: its level, capacity and prefix length, and whether it is guarded.
pub(crate) fn shape(level: u8, capacity: usize, prefix_len: u16, guarded: bool) -> u64 {
    u64::from(NODE_MAGIC) << 32
        | u64::from(prefix_len) << 16
        | (capacity as u64) << 8
        | if guarded { GUARDED } else { 0 }
        | u64::from(level)
}

media! {
    /// The durable cell that a tree hangs on: one cache line.
    #[derive(Debug)]
    pub(crate) struct RootCell {
        /// Object of the root node.
        pub(crate) root: Word,
        /// [`CELL_MAGIC`] or [`CHECKED_CELL_MAGIC`].
        pub(crate) magic: Word,
        pub(crate) reserved: [Word; 6],
    }
}

pub(crate) const CELL_MAGIC: u64 = u64::from_le_bytes(*b"CDDSCELL");
/// The magic of a tree whose records have checksums.
pub(crate) const CHECKED_CELL_MAGIC: u64 = u64::from_le_bytes(*b"CDDSCEL2");
pub(crate) const CELL_SIZE: u64 = size_of::<RootCell>() as u64;
const _: () = assert!(CELL_SIZE == 64);

/// The magic of a tree, by the kind of its records.
pub(crate) fn cell_magic(records: Records) -> u64 {
    match records {
        Records::Unchecked => CELL_MAGIC,
        Records::Checked => CHECKED_CELL_MAGIC,
    }
}

/// The kind of the records of a tree with that magic. `None`: it is no magic of a tree.
pub(crate) fn records_of(magic: u64) -> Option<Records> {
    [Records::Unchecked, Records::Checked].into_iter().find(|&records| cell_magic(records) == magic)
}
