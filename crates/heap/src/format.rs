//! What a heap has on media. See `docs/formats/heap.md`.

use tembo_pmem::{LINE, Word, media};

/// The first word of a heap's root.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"TembHeap");

/// The version of the format.
pub(crate) const VERSION: u32 = 1;

media! {
    /// The root object of a heap. All but the magic are objects' bits.
    pub(crate) struct Root {
        pub(crate) magic: Word,
        /// The program's root.
        pub(crate) root: Word,
        /// The newest type; each names the one before it.
        pub(crate) types: Word,
        /// The first object that waits to be destroyed.
        pub(crate) doomed: Word,
        /// The newest chunk of the dead-on-open list; each names the one before it.
        pub(crate) orphans: Word,
        pub(crate) reserved: [Word; 3],
    }
}

const _: () = assert!(size_of::<Root>() == LINE as usize);

/// The words of the root, by number.
pub(crate) const ROOT_ROOT: usize = 1;
pub(crate) const ROOT_TYPES: usize = 2;
pub(crate) const ROOT_DOOMED: usize = 3;
pub(crate) const ROOT_ORPHANS: usize = 4;

/// An object begins with two words: [`head`], and the bits of its proxy.
pub(crate) const HEAD: usize = 0;
pub(crate) const PROXY: usize = 1;
/// Its fields follow.
pub(crate) const BODY: usize = 2;

/// The proxy's only field: its object's bits, 0 when that is destroyed.
pub(crate) const PROXY_TARGET: usize = BODY;
pub(crate) const PROXY_WORDS: usize = 3;

const LOW: u64 = (1 << 48) - 1;

/// Of a proxy.
pub(crate) const TYPE_PROXY: u16 = 1;
/// The first type that a program has registered.
pub(crate) const TYPE_FIRST: u16 = 16;
/// Types that a heap can have.
pub(crate) const TYPES_MAX: usize = 1 << 15;

/// The first word of an object: its type in the upper 16 bits; below, how many pointers of the heap refer to it, or, of one
/// that waits to be destroyed, the bits of the next.
pub(crate) fn head(kind: u16, low: u64) -> u64 {
    u64::from(kind) << 48 | (low & LOW)
}

pub(crate) fn kind_of(head: u64) -> u16 {
    (head >> 48) as u16
}

pub(crate) fn low_of(head: u64) -> u64 {
    head & LOW
}

/// A type: the bits of the one before it; its number, and in the upper half the version; hashes of its name and layout;
/// words of its fields; bytes of its name, and in the upper half of its shape; both, one behind the other.
pub(crate) const KIND_BEFORE: usize = 0;
pub(crate) const KIND_NUMBER: usize = 1;
pub(crate) const KIND_NAME_HASH: usize = 2;
pub(crate) const KIND_LAYOUT: usize = 3;
pub(crate) const KIND_WORDS: usize = 4;
pub(crate) const KIND_SIZES: usize = 5;
pub(crate) const KIND_TEXT: usize = 6;

/// A chunk of the dead-on-open list: the bits of the one before it; then objects, or 0.
pub(crate) const CHUNK_BEFORE: usize = 0;
pub(crate) const CHUNK_WORDS: usize = 32;

/// Objects in a chunk.
pub(crate) const CHUNK_SLOTS: usize = CHUNK_WORDS - 1;
