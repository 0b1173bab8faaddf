//! A backup as it stands in a file.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Head of a backup.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Header {
    /// [`MAGIC`].
    pub(super) magic: U64,
    /// [`VERSION`].
    pub(super) version: U32,
    pub(super) reserved: U32,
    /// Identity of the pool.
    pub(super) identity: [u8; 16],
    /// What follows is what has changed since that version of the store; 0: it is everything.
    pub(super) since: U64,
    /// The version of the store that it is a backup of.
    pub(super) until: U64,
    pub(super) unused: [u8; 12],
    /// CRC-32C of the bytes before.
    pub(super) crc: U32,
}

pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"TEMBOBAK");
pub(super) const VERSION: u32 = 1;
pub(super) const HEADER_SIZE: usize = size_of::<Header>();

/// Head of a block; its entries follow, none across two blocks.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct BlockHeader {
    /// [`BLOCK_MAGIC`], or [`END_MAGIC`] of the trailer, whose payload is an [`End`].
    pub(super) magic: U32,
    /// Blocks before it.
    pub(super) number: U32,
    /// Bytes that follow.
    pub(super) size: U64,
    /// Entries in them.
    pub(super) count: U32,
    /// CRC-32C of the fields before and of the bytes that follow.
    pub(super) crc: U32,
}

pub(super) const BLOCK_MAGIC: u32 = u32::from_le_bytes(*b"TBLK");
pub(super) const END_MAGIC: u32 = u32::from_le_bytes(*b"TEND");
pub(super) const BLOCK_HEADER_SIZE: usize = size_of::<BlockHeader>();
/// A block is written when it has so many bytes.
pub(super) const BLOCK_SIZE: usize = 256 << 10;

/// What a backup ends with.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct End {
    /// Entries of all blocks.
    pub(super) count: U64,
    /// CRC-32C of the file before the trailer.
    pub(super) crc: U32,
    pub(super) reserved: U32,
}

/// Head of an entry; the key's bytes and then the value's follow.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct EntryHeader {
    /// One of the kinds below.
    pub(super) kind: U32,
    pub(super) key_len: U32,
    pub(super) value_len: U32,
}

pub(super) const ENTRY_HEADER_SIZE: usize = size_of::<EntryHeader>();

/// What follows belongs to the keyspace that the key names, and is all of it.
pub(super) const KIND_WHOLE: u32 = 1;
/// What follows is what has changed in the keyspace that the key names.
pub(super) const KIND_PART: u32 = 2;
/// The key has the value.
pub(super) const KIND_PUT: u32 = 3;
/// The key is not there any more.
pub(super) const KIND_REMOVED: u32 = 4;

const _: () = assert!(HEADER_SIZE == 64 && BLOCK_HEADER_SIZE == 24);
const _: () = assert!(size_of::<End>() == 16 && ENTRY_HEADER_SIZE == 12);
const _: () = assert!(std::mem::offset_of!(Header, crc) == 60);
const _: () = assert!(std::mem::offset_of!(BlockHeader, crc) == 20);
