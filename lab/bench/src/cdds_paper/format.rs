//! The thesis's CDDS B-Tree on media: words only. Nodes have a head of one line, then entries of half a
//! line each.

use tembo_pmem::LINE;

/// Words in the head of a node.
pub(super) const HEADER_WORDS: usize = 8;

/// Word of the head: entries in the node. Never persisted by itself: it follows from them.
pub(super) const COUNT: usize = 0;

/// Word of the head: levels below the node; 0: it is a leaf.
pub(super) const LEVEL: usize = 1;

/// Words in an entry.
pub(super) const ENTRY_WORDS: usize = 4;

/// Word of an entry: its key; of an inner node's, the greatest key that the child may have.
pub(super) const KEY: usize = 0;

/// Word of an entry: its value, or the object of a child.
pub(super) const VALUE: usize = 1;

/// Word of an entry: the version that inserted it, [`EMPTY`] or [`HALF_WRITTEN`].
pub(super) const START: usize = 2;

/// Word of an entry: the version that ended it, or [`LIVE`].
pub(super) const END: usize = 3;

/// The start of a slot without an entry.
pub(super) const EMPTY: u64 = 0;

/// The start of an entry while it is written: a version that never comes.
pub(super) const HALF_WRITTEN: u64 = u64::MAX;

/// The end of an entry that has none.
pub(super) const LIVE: u64 = 0;

/// Bytes of the root cell, a line.
pub(super) const CELL_BYTES: u64 = LINE;

/// Word of the root cell: [`CELL_MAGIC`].
pub(super) const MAGIC: usize = 0;

/// Word of the root cell: the most recent consistent version.
pub(super) const VERSION: usize = 1;

/// Word of the root cell: the object of the root node.
pub(super) const ROOT: usize = 2;

/// Word of the root cell: bytes of a node.
pub(super) const NODE_SIZE: usize = 3;

/// The magic of a root cell.
pub(super) const CELL_MAGIC: u64 = u64::from_le_bytes(*b"CDDS2011");

/// The version of an empty tree.
pub(super) const FIRST_VERSION: u64 = 1;

const _: () = assert!(HEADER_WORDS as u64 * 8 == LINE);
// An entry lies in one line.
const _: () = assert!(LINE.is_multiple_of(ENTRY_WORDS as u64 * 8));
