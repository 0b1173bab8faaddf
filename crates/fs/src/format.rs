//! What a file system has on media: the keys and values of its two keyspaces. See `docs/formats/fs.md`.

use zerocopy::little_endian::{I64, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The keyspace of everything but the bytes of files.
pub(crate) const TREE_SPACE: &str = "fs.tree";

/// The keyspace of the bytes of files and of the targets of symbolic links.
pub(crate) const DATA_SPACE: &str = "fs.data";

/// First bytes of the keys of [`TREE_SPACE`].
pub(crate) const SUPERBLOCK_TAG: u8 = b's';
pub(crate) const INODE_TAG: u8 = b'i';
pub(crate) const NAME_TAG: u8 = b'n';
pub(crate) const COOKIE_TAG: u8 = b'c';
pub(crate) const ATTRIBUTE_TAG: u8 = b'x';
pub(crate) const ORPHAN_TAG: u8 = b'o';

pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"TEMBO-FS");
pub(crate) const VERSION: u32 = 1;

/// The value of the key [`SUPERBLOCK_TAG`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Superblock {
    /// [`MAGIC`].
    pub(crate) magic: U64,
    /// [`VERSION`].
    pub(crate) version: U32,
    /// Size of a piece of a file, in bytes.
    pub(crate) piece_size: U32,
    pub(crate) reserved: [U64; 2],
}

const _: () = assert!(size_of::<Superblock>() == 32);

/// A point in time: seconds since 1970.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct TimeRecord {
    pub(crate) seconds: I64,
    /// Below 10⁹.
    pub(crate) nanoseconds: U32,
}

/// The value of the key of an inode.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct InodeRecord {
    /// Kind and permissions, as `st_mode`.
    pub(crate) mode: U32,
    pub(crate) user: U32,
    pub(crate) group: U32,
    /// Names; of a directory 2 and its subdirectories. 0: an orphan.
    pub(crate) links: U32,
    /// Bytes; of a directory its entries.
    pub(crate) size: U64,
    /// Pieces that are there.
    pub(crate) pieces: U64,
    /// Of a directory: the one that it is in; the root is in itself. Else 0.
    pub(crate) parent: U64,
    /// Of a directory: the cookie of the next entry. Else 0.
    pub(crate) next_cookie: U64,
    /// Of a device, as `st_rdev`. Else 0.
    pub(crate) device: U64,
    /// The version that was visible when it was made.
    pub(crate) generation: U64,
    pub(crate) accessed: TimeRecord,
    pub(crate) modified: TimeRecord,
    pub(crate) changed: TimeRecord,
    pub(crate) born: TimeRecord,
    /// Extended attributes.
    pub(crate) attributes: U32,
    pub(crate) reserved: U32,
    /// Rises with each change of its bytes.
    pub(crate) edits: U64,
}

const _: () = assert!(size_of::<InodeRecord>() == 128);

/// The value of the key of a name.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct NameRecord {
    pub(crate) inode: U64,
    /// Where it stands in its directory.
    pub(crate) cookie: U64,
    /// Bits 12 to 15 of the mode.
    pub(crate) kind: u8,
    pub(crate) reserved: [u8; 7],
}

const _: () = assert!(size_of::<NameRecord>() == 24);

/// The begin of the value of the key of a cookie; the name follows.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct CookieRecord {
    pub(crate) inode: U64,
    /// Bits 12 to 15 of the mode.
    pub(crate) kind: u8,
    pub(crate) reserved: [u8; 7],
}

const _: () = assert!(size_of::<CookieRecord>() == 16);

/// A tag, and a number with the highest byte first, so that keys stand in its order.
fn numbered(tag: u8, number: u64) -> Vec<u8> {
    let mut key = Vec::with_capacity(9 + 16);
    key.push(tag);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

pub(crate) fn inode_key(inode: u64) -> Vec<u8> {
    numbered(INODE_TAG, inode)
}

pub(crate) fn orphan_key(inode: u64) -> Vec<u8> {
    numbered(ORPHAN_TAG, inode)
}

pub(crate) fn name_key(directory: u64, name: &[u8]) -> Vec<u8> {
    let mut key = numbered(NAME_TAG, directory);
    key.extend_from_slice(name);
    key
}

pub(crate) fn cookie_key(directory: u64, cookie: u64) -> Vec<u8> {
    let mut key = numbered(COOKIE_TAG, directory);
    key.extend_from_slice(&cookie.to_be_bytes());
    key
}

pub(crate) fn attribute_key(inode: u64, name: &[u8]) -> Vec<u8> {
    let mut key = numbered(ATTRIBUTE_TAG, inode);
    key.extend_from_slice(name);
    key
}

pub(crate) fn piece_key(inode: u64, piece: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&inode.to_be_bytes());
    key[8..].copy_from_slice(&piece.to_be_bytes());
    key
}

/// The number behind the tag of a key.
pub(crate) fn number_in(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.get(1..9)?.try_into().ok()?))
}

/// The name in the key of a name.
pub(crate) fn name_in(key: &[u8]) -> Option<&[u8]> {
    key.get(9..)
}

/// The inode and the piece of a key of [`DATA_SPACE`].
pub(crate) fn piece_in(key: &[u8]) -> Option<(u64, u64)> {
    let (inode, piece) = key.split_first_chunk()?;
    Some((u64::from_be_bytes(*inode), u64::from_be_bytes(piece.try_into().ok()?)))
}
