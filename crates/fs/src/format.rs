//! What a file system has on media: the keys and values of its two keyspaces. See `docs/formats/fs.md`.

use zerocopy::little_endian::{I64, U16, U32, U64};
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
pub(crate) const POINT_TAG: u8 = b't';
pub(crate) const LAYER_TAG: u8 = b'l';
pub(crate) const USER_TAG: u8 = b'u';

pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"TEMBO-FS");

/// The version of a file system without layers.
pub(crate) const VERSION: u32 = 2;

/// The version of one that has had a clone.
pub(crate) const LAYERS_VERSION: u32 = 3;

/// The value of the key [`SUPERBLOCK_TAG`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Superblock {
    /// [`MAGIC`].
    pub(crate) magic: U64,
    /// 1, [`VERSION`] or [`LAYERS_VERSION`].
    pub(crate) version: U32,
    /// Size of a piece of a file, in bytes.
    pub(crate) piece_size: U32,
    /// Of [`LAYERS_VERSION`]: the version that the keys of [`DATA_SPACE`] are of. Else 0.
    pub(crate) piece_keys: U32,
    pub(crate) reserved: [U32; 3],
}

const _: () = assert!(size_of::<Superblock>() == 32);
const _: () = assert!(std::mem::offset_of!(Superblock, piece_keys) == 16);

/// A point in time: seconds since 1970.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct TimeRecord {
    pub(crate) seconds: I64,
    /// Below 10⁹.
    pub(crate) nanoseconds: U32,
}

/// The value of the key of an inode; of a file that has layers a [`LayersRecord`] follows.
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

/// What a layer shows of another where it has no piece.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct BelowRecord {
    /// The number of the layer below; 0: there is none.
    pub(crate) layer: U64,
    /// Bytes of it that are shown.
    pub(crate) end: U64,
    /// Pieces that are shown, at most.
    pub(crate) pieces: U64,
}

const _: () = assert!(size_of::<BelowRecord>() == 24);

/// Behind the inode of a file that has layers.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct LayersRecord {
    /// The number that its own pieces lie under.
    pub(crate) layer: U64,
    pub(crate) below: BelowRecord,
}

const _: () = assert!(size_of::<LayersRecord>() == 32);

/// The value of the key of a layer.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct LayerRecord {
    /// The inode whose own layer it is, which says the rest; 0: it is shared, and does not change.
    pub(crate) owner: U64,
    /// Pieces that are there.
    pub(crate) pieces: U64,
    pub(crate) below: BelowRecord,
}

const _: () = assert!(size_of::<LayerRecord>() == 40);

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

/// The value of the key of a point in time.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct PointRecord {
    /// The version that was there from then on.
    pub(crate) version: U64,
    /// The lower half of the identity of the pool whose version it is: a copy has others.
    pub(crate) pool: U64,
}

const _: () = assert!(size_of::<PointRecord>() == 16);

/// The version of an access list, which is Linux's.
pub(crate) const ACCESS_LIST_VERSION: u32 = 2;

/// The begin of an attribute that is an access control list; its entries follow.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct AccessListHead {
    /// [`ACCESS_LIST_VERSION`].
    pub(crate) version: U32,
}

const _: () = assert!(size_of::<AccessListHead>() == 4);

/// An entry of an access control list.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct AccessListEntry {
    /// What it is about.
    pub(crate) tag: U16,
    /// Read 4, write 2, execute 1.
    pub(crate) permissions: U16,
    /// Number of the user or group, where the tag is of a named one. Else all ones.
    pub(crate) id: U32,
}

const _: () = assert!(size_of::<AccessListEntry>() == 8);

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

pub(crate) fn layer_key(layer: u64) -> Vec<u8> {
    numbered(LAYER_TAG, layer)
}

/// Of a layer that lies on another.
pub(crate) fn user_key(below: u64, layer: u64) -> Vec<u8> {
    let mut key = numbered(USER_TAG, below);
    key.extend_from_slice(&layer.to_be_bytes());
    key
}

/// The two layers in the key of a user: the one below, and the one that lies on it.
pub(crate) fn user_in(key: &[u8]) -> Option<(u64, u64)> {
    Some((number_in(key)?, u64::from_be_bytes(key.get(9..)?.try_into().ok()?)))
}

/// Seconds as a number above 0, so that keys stand in their order.
const EPOCH: u64 = 1 << 63;

pub(crate) fn point_key(seconds: i64, nanoseconds: u32) -> Vec<u8> {
    let mut key = numbered(POINT_TAG, seconds as u64 ^ EPOCH);
    key.extend_from_slice(&nanoseconds.to_be_bytes());
    key
}

/// Seconds and nanoseconds in the key of a point in time; `None`: it is no such key.
pub(crate) fn point_in(key: &[u8]) -> Option<(i64, u32)> {
    let nanoseconds = u32::from_be_bytes(key.get(9..)?.try_into().ok()?);
    Some(((number_in(key)? ^ EPOCH) as i64, nanoseconds))
}

/// The number behind the tag of a key.
pub(crate) fn number_in(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.get(1..9)?.try_into().ok()?))
}

/// The name in the key of a name.
pub(crate) fn name_in(key: &[u8]) -> Option<&[u8]> {
    key.get(9..)
}

/// How the keys of [`DATA_SPACE`] say the layer and the number of the piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PieceKeys {
    /// Of version 1: eight bytes each.
    Wide,
    /// Compact numbers: mostly eight bytes for both, which is what an element of a tree has room for.
    Compact,
}

/// A key of [`DATA_SPACE`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct PieceKey {
    bytes: [u8; 2 * COMPACT_MAX],
    len: usize,
}

/// Bytes of the longest compact number.
const COMPACT_MAX: usize = 9;

impl PieceKeys {
    /// Those of a version without layers; `None`: it is not known.
    pub(crate) fn of_version(version: u32) -> Option<PieceKeys> {
        match version {
            1 => Some(PieceKeys::Wide),
            VERSION => Some(PieceKeys::Compact),
            _ => None,
        }
    }

    /// The version without layers that has them.
    pub(crate) fn version(self) -> u32 {
        match self {
            PieceKeys::Wide => 1,
            PieceKeys::Compact => VERSION,
        }
    }

    pub(crate) fn key(self, layer: u64, piece: u64) -> PieceKey {
        let mut key = PieceKey { bytes: [0; 2 * COMPACT_MAX], len: 0 };
        for number in [layer, piece] {
            match self {
                PieceKeys::Wide => key.push(&number.to_be_bytes()),
                PieceKeys::Compact => key.push_compact(number),
            }
        }
        key
    }

    /// The layer and the piece of a key; `None`: it is no such key.
    pub(crate) fn numbers(self, key: &[u8]) -> Option<(u64, u64)> {
        let take = |key| match self {
            PieceKeys::Wide => take_wide(key),
            PieceKeys::Compact => take_compact(key),
        };
        let (layer, rest) = take(key)?;
        let (piece, rest) = take(rest)?;
        rest.is_empty().then_some((layer, piece))
    }
}

impl PieceKey {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// The upper three bits of the first byte say how many follow; 7: eight. The lower five are the begin of the number, the
    /// highest byte first: so keys stand in the order of their numbers.
    fn push_compact(&mut self, number: u64) {
        let (more, bytes) = (bytes_behind(number), number.to_be_bytes());
        let begin = if more < 8 { (number >> (8 * more)) as u8 } else { 0 };
        self.push(&[(more.min(7) as u8) << 5 | begin]);
        self.push(&bytes[8 - more..]);
    }
}

impl std::ops::Deref for PieceKey {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Bytes of a compact number behind its first.
fn bytes_behind(number: u64) -> usize {
    match 64 - number.leading_zeros() as usize {
        bits @ ..=53 => bits.saturating_sub(5).div_ceil(8),
        _ => 8,
    }
}

fn take_wide(key: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = key.split_first_chunk()?;
    Some((u64::from_be_bytes(*number), rest))
}

/// A number has one form: another is none.
fn take_compact(key: &[u8]) -> Option<(u64, &[u8])> {
    let (&first, rest) = key.split_first()?;
    let more = if first >> 5 == 7 { 8 } else { usize::from(first >> 5) };
    let (bytes, rest) = rest.split_at_checked(more)?;
    let begin = u64::from(first & 0x1f);
    let number = bytes.iter().fold(begin, |number, &byte| number << 8 | u64::from(byte));
    let is_its_form = bytes_behind(number) == more && (more < 8 || begin == 0);
    is_its_form.then_some((number, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers about all powers of two.
    fn numbers() -> Vec<u64> {
        let about = |bits: u32| [(1_u64 << bits) - 1, 1 << bits, (1 << bits) + 1];
        let mut numbers: Vec<u64> = (0..64).flat_map(about).chain([u64::MAX]).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    #[test]
    fn keys_of_pieces_stand_in_the_order_of_their_numbers() {
        let all = numbers();
        let pairs: Vec<_> = all.iter().flat_map(|&i| all.iter().map(move |&p| (i, p))).collect();
        for keys in [PieceKeys::Wide, PieceKeys::Compact] {
            let made: Vec<_> = pairs.iter().map(|&(i, p)| keys.key(i, p).to_vec()).collect();
            assert!(made.is_sorted_by(|a, b| a < b), "{keys:?}");
            for (key, &pair) in made.iter().zip(&pairs) {
                assert_eq!(keys.numbers(key), Some(pair), "{keys:?}");
                assert_eq!(keys.numbers(&key[..key.len() - 1]), None, "{keys:?}");
                assert_eq!(keys.numbers(&[key, &[0][..]].concat()), None, "{keys:?}");
            }
        }
    }

    #[test]
    fn a_compact_number_has_one_form() {
        for number in numbers() {
            let mut forms = 0;
            for more in [0, 1, 2, 3, 4, 5, 6, 8] {
                let begin = if more < 8 { number >> (8 * more) } else { 0 };
                if begin >= 32 {
                    continue;
                }
                let first = (more.min(7) as u8) << 5 | begin as u8;
                let form = [&[first], &number.to_be_bytes()[8 - more..]].concat();
                forms += u64::from(take_compact(&form).is_some_and(|(found, _)| found == number));
            }
            assert_eq!(forms, 1, "{number:#x}");
        }
        // The lower bits of the first byte belong to no number of eight more.
        assert_eq!(take_compact(&[0xe1, 1, 2, 3, 4, 5, 6, 7, 8]), None);
    }

    /// An element of a tree has room for a key of eight bytes: a longer one stands in a record, with its value.
    #[test]
    fn most_keys_of_pieces_have_at_most_eight_bytes() {
        for (inode, piece) in [(1 << 28, 1 << 28), (1 << 36, 1 << 20), (1 << 20, 1 << 36)] {
            assert_eq!(PieceKeys::Compact.key(inode, piece).len(), 8);
        }
        assert_eq!(PieceKeys::Compact.key(1000, 31).len(), 3);
        assert_eq!(PieceKeys::Compact.key(u64::MAX, u64::MAX).len(), 18);
    }
}
