//! What a pool has on media: the superblock. Everything else is chunks, without any allocation
//! metadata. See `docs/formats/superblock.md`.

use tembo_pmem::{Fault, HEADER_SIZE, LINE, OuterChecksum, Region, Word, media};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Where the superblock lies, in bytes: behind the region's own header.
pub(crate) const SUPERBLOCK: u64 = HEADER_SIZE;

/// Bytes in a superblock.
pub(crate) const SUPERBLOCK_SIZE: u64 = 4096;

/// The data area begins at the first chunk boundary at or above this offset.
pub(crate) const DATA_START_MIN: u64 = SUPERBLOCK + SUPERBLOCK_SIZE;

/// Root words in a superblock.
pub const ROOT_COUNT: usize = 16;

pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"TembPool");

/// The newest version, which new pools have.
pub(crate) const VERSION: u32 = 2;

/// The version without mutable feature words, tenants and log.
pub(crate) const VERSION_WITHOUT_TENANTS: u32 = 1;

/// Tenants that a pool can have.
pub const TENANT_COUNT: usize = 32;

/// Bytes that the name of a tenant can have.
pub const TENANT_NAME_SIZE_MAX: usize = 32;

/// Feature bits known: none yet, of either kind.
pub(crate) const FEATURES_MUST: u64 = 0;
pub(crate) const FEATURES_READ_ONLY: u64 = 0;

/// The fixed part: one line, which is written once, with its first word last.
#[derive(Clone, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Label {
    pub(crate) magic: U64,
    pub(crate) version: U32,
    /// CRC-32C of this line with these four bytes zero.
    pub(crate) checksum: U32,
    /// Unknown bits may be ignored.
    pub(crate) features_may: U64,
    /// Unknown bits forbid opening.
    pub(crate) features_must: U64,
    /// Unknown bits forbid writing.
    pub(crate) features_read_only: U64,
    pub(crate) chunk_size: U32,
    pub(crate) node_size: U32,
    pub(crate) reserved: [u8; 16],
}

media! {
    /// The superblock. Everything that changes is a word; the three sealed ones (see [`seal`]) share a line.
    pub(crate) struct Superblock {
        pub(crate) label: [Word; 8],
        /// Sealed: how often the pool has been opened.
        pub(crate) generation: Word,
        /// Sealed: pages of 4 KiB in the pool.
        pub(crate) size: Word,
        /// Sealed: pages of 4 KiB below which space may have been handed out.
        pub(crate) frontier: Word,
        /// Sealed, from version 2 on: feature bits that may be ignored when unknown.
        pub(crate) features_may: Word,
        /// The same: feature bits that forbid opening when unknown.
        pub(crate) features_must: Word,
        /// The same: feature bits that forbid writing when unknown.
        pub(crate) features_read_only: Word,
        /// From version 2 on: the object of the pool's log, see [`seal_low`]. It is none until the log is used.
        pub(crate) log: Word,
        pub(crate) reserved: Word,
        pub(crate) roots: [Word; ROOT_COUNT],
        /// The table of tenants, from version 2 on.
        pub(crate) tenants: [TenantLine; TENANT_COUNT],
        pub(crate) reserved_tail: [Word; 224],
    }
}

media! {
    /// A line of the table of tenants. It is used if its root, which is stored last, is not 0.
    pub(crate) struct TenantLine {
        /// The kind: up to eight bytes of ASCII, filled up with zeroes.
        pub(crate) kind: Word,
        /// The name in UTF-8, filled up with zeroes.
        pub(crate) name: [Word; TENANT_NAME_SIZE_MAX / 8],
        /// The version of the tenant's format, and in the upper half [`tenant_checksum`].
        pub(crate) version: Word,
        /// Feature bits of the tenant's format, see [`seal_low`]: may, must, read-only, 16 each from the lowest.
        pub(crate) features: Word,
        /// The tenant's root object.
        pub(crate) root: Word,
    }
}

impl Superblock {
    /// The superblock of a region, unchecked.
    pub(crate) fn of(region: &Region) -> Result<&Superblock, Fault> {
        region.get::<Superblock>(SUPERBLOCK)
    }
}
const _: () = {
    assert!(size_of::<Label>() == LINE as usize);
    assert!(size_of::<Superblock>() == SUPERBLOCK_SIZE as usize);
    assert!(align_of::<Superblock>() == 8);
    assert!(std::mem::offset_of!(Label, version) == 8);
    assert!(std::mem::offset_of!(Label, checksum) == 12);
    assert!(std::mem::offset_of!(Label, features_may) == 16);
    assert!(std::mem::offset_of!(Label, features_must) == 24);
    assert!(std::mem::offset_of!(Label, features_read_only) == 32);
    assert!(std::mem::offset_of!(Label, chunk_size) == 40);
    assert!(std::mem::offset_of!(Label, node_size) == 44);
    assert!(std::mem::offset_of!(Label, reserved) == 48);
    assert!(std::mem::offset_of!(Superblock, generation) == 64);
    assert!(std::mem::offset_of!(Superblock, size) == 72);
    assert!(std::mem::offset_of!(Superblock, frontier) == 80);
    assert!(std::mem::offset_of!(Superblock, features_may) == 88);
    assert!(std::mem::offset_of!(Superblock, features_must) == 96);
    assert!(std::mem::offset_of!(Superblock, features_read_only) == 104);
    assert!(std::mem::offset_of!(Superblock, log) == 112);
    assert!(std::mem::offset_of!(Superblock, reserved) == 120);
    assert!(std::mem::offset_of!(Superblock, roots) == 128);
    assert!(std::mem::offset_of!(Superblock, tenants) == 256);
    assert!(std::mem::offset_of!(Superblock, reserved_tail) == 2304);
    assert!(size_of::<TenantLine>() == LINE as usize);
    assert!(std::mem::offset_of!(TenantLine, name) == 8);
    assert!(std::mem::offset_of!(TenantLine, version) == 40);
    assert!(std::mem::offset_of!(TenantLine, features) == 48);
    assert!(std::mem::offset_of!(TenantLine, root) == 56);
};

/// The sealed word to which a value belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sealed {
    Generation = 1,
    Size = 2,
    Frontier = 3,
    May = 4,
    Must = 5,
    ReadOnly = 6,
}

/// The number of a word sealed by [`seal_low`] to which a value belongs: the superblock's word of the log; the shape of the
/// log; a tenant's features, from [`LOW_TENANT`] on; the state of a lane of the log, from [`LOW_LANE`] on.
pub(crate) const LOW_LOG: u8 = 1;
pub(crate) const LOW_SHAPE: u8 = 2;
pub(crate) const LOW_TENANT: u8 = 0x40;
pub(crate) const LOW_LANE: u8 = 0x80;

/// The magic at the begin of the pool's log. See `docs/formats/pool-log.md`.
pub(crate) const LOG_MAGIC: u64 = u64::from_le_bytes(*b"TembPLg2");
/// The magic of a log of earlier programs: its entries and what they name are checked by CRC-32C alone.
pub(crate) const LOG_MAGIC_CRC32C: u64 = u64::from_le_bytes(*b"TembPLog");

/// The first word of a lane, alone in its line: a number, and in the lowest bit whether the operation is committed.
pub(crate) const LANE_COMMITTED: u64 = 1;

/// The kind of an entry of a lane, in the lowest byte of its first word.
pub(crate) const ENTRY_UNDO: u64 = 1;
pub(crate) const ENTRY_REDO: u64 = 2;
pub(crate) const ENTRY_INTENT: u64 = 3;
pub(crate) const ENTRY_SEAL: u64 = 4;
pub(crate) const ENTRY_EXTENT: u64 = 5;
pub(crate) const ENTRY_CONTENT: u64 = 6;

/// The place of an entry: its lane, the lane's number, and the checksum of the entry before.
#[derive(Clone, Copy)]
pub(crate) struct EntryPlace {
    pub(crate) lane: usize,
    pub(crate) number: u64,
    pub(crate) before: u32,
}

/// The first word of an entry: its kind, the number of words that follow it, and in the upper half the checksum of its place
/// and the entry.
pub(crate) fn entry_head(
    checksum: OuterChecksum,
    place: EntryPlace,
    kind: u64,
    words: &[u64],
) -> u64 {
    let low = kind | (words.len() as u64) << 8;
    let salt = [u64::from(place.before), place.lane as u64, place.number, low];
    let crc = tembo_pmem::crc32c(0, salt.as_bytes());
    u64::from(checksum.chain(crc, words.as_bytes())) << 32 | low
}

const LOW_BITS: u32 = 48;

/// A word that certifies itself: the value in the lower half, in the upper half the CRC-32C of the
/// field's number and the value, so that a changed word is recognised before it is believed.
pub(crate) fn seal(field: Sealed, value: u32) -> u64 {
    let mut bytes = [field as u8, 0, 0, 0, 0];
    bytes[1..].copy_from_slice(&value.to_le_bytes());
    u64::from(crc32c::crc32c(&bytes)) << 32 | u64::from(value)
}

/// The value of a sealed word; `None` if it contradicts its seal.
pub(crate) fn unseal(field: Sealed, word: u64) -> Option<u32> {
    (seal(field, word as u32) == word).then_some(word as u32)
}

/// A word that certifies itself with a value of 48 bits: in the upper 16 the CRC-32C of the field's number
/// and the value, its two halves added without carry.
pub(crate) fn seal_low(field: u8, value: u64) -> u64 {
    let value = value & ((1 << LOW_BITS) - 1);
    let mut bytes = [field, 0, 0, 0, 0, 0, 0];
    bytes[1..].copy_from_slice(&value.to_le_bytes()[..6]);
    let crc = tembo_pmem::crc32c(0, &bytes);
    u64::from(crc >> 16 ^ crc & 0xffff) << LOW_BITS | value
}

/// The value of a word sealed by [`seal_low`]; `None` if it contradicts its seal.
pub(crate) fn unseal_low(field: u8, word: u64) -> Option<u64> {
    let value = word & ((1 << LOW_BITS) - 1);
    (seal_low(field, value) == word).then_some(value)
}

/// The checksum of a line of the table of tenants: CRC-32C of its number, its kind, its name, its version and its root.
pub(crate) fn tenant_checksum(
    slot: usize,
    kind: u64,
    name: [u64; 4],
    version: u32,
    root: u64,
) -> u32 {
    let mut bytes = vec![slot as u8];
    bytes.extend(kind.to_le_bytes());
    bytes.extend(name.iter().flat_map(|word| word.to_le_bytes()));
    bytes.extend(version.to_le_bytes());
    bytes.extend(root.to_le_bytes());
    crc32c::crc32c(&bytes)
}

impl Label {
    /// The checksum that the other fields give.
    pub(crate) fn computed(&self) -> u32 {
        let mut unsigned = self.clone();
        unsigned.checksum = U32::ZERO;
        crc32c::crc32c(unsigned.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_single_flipped_bit_survives_a_seal() {
        use Sealed::{Frontier, Generation, May, Must, ReadOnly, Size};
        for field in [Generation, Size, Frontier, May, Must, ReadOnly] {
            for value in [0, 1, 32, 16384, u32::MAX] {
                let word = seal(field, value);
                assert_eq!(unseal(field, word), Some(value));
                for bit in 0..64 {
                    assert_eq!(unseal(field, word ^ 1 << bit), None);
                }
            }
        }
        assert_eq!(unseal(Sealed::Size, seal(Sealed::Frontier, 7)), None);
        assert_eq!(unseal(Sealed::Size, 0), None);
    }

    /// A torn entry can have a word of an older one in the place of its own.
    #[test]
    fn an_entry_is_not_taken_for_one_with_another_sealed_word() {
        let place = EntryPlace { lane: 1, number: 7, before: 5 };
        let head = |checksum, value| {
            let words = [4168, seal(Sealed::Frontier, value), 4176, 3];
            entry_head(checksum, place, ENTRY_UNDO, &words)
        };
        let (earlier, now) = (OuterChecksum::Crc32c, OuterChecksum::Xxh3);
        assert_eq!(head(earlier, 11), head(earlier, 13), "earlier programs took it for that");
        assert_ne!(head(now, 11), head(now, 13));
    }

    #[test]
    fn no_single_flipped_bit_survives_a_seal_of_sixteen_bits() {
        for field in [LOW_LOG, LOW_TENANT, LOW_TENANT + 31] {
            for value in [0, 1, 0x0f_1234_5678, (1 << 48) - 1] {
                let word = seal_low(field, value);
                assert_eq!(unseal_low(field, word), Some(value));
                for bit in 0..64 {
                    assert_eq!(unseal_low(field, word ^ 1 << bit), None);
                }
            }
            assert_eq!(unseal_low(field, 0), None);
        }
    }
}
