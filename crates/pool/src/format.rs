//! What a pool has on media: the superblock. Everything else is chunks, without any allocation
//! metadata. See `docs/formats/superblock.md`.

use tembo_pmem::{HEADER_SIZE, LINE, Word, media};
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
pub(crate) const VERSION: u32 = 1;

/// Feature bits known: none yet, of either kind.
pub(crate) const FEATURES_MUST: u64 = 0;
pub(crate) const FEATURES_READ_ONLY: u64 = 0;

/// The fixed part: one line, written once, its first word last.
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
    /// The superblock. What changes is a word; the three sealed ones (see [`seal`]) share a line.
    pub(crate) struct Superblock {
        pub(crate) label: [Word; 8],
        /// Sealed: how often the pool has been opened.
        pub(crate) generation: Word,
        /// Sealed: pages of 4 KiB in the pool.
        pub(crate) size: Word,
        /// Sealed: pages of 4 KiB below which space may have been handed out.
        pub(crate) frontier: Word,
        pub(crate) reserved: [Word; 5],
        pub(crate) roots: [Word; ROOT_COUNT],
        pub(crate) reserved_tail: [Word; 480],
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
    assert!(std::mem::offset_of!(Superblock, reserved) == 88);
    assert!(std::mem::offset_of!(Superblock, roots) == 128);
    assert!(std::mem::offset_of!(Superblock, reserved_tail) == 256);
};

/// Which sealed word a value belongs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sealed {
    Generation = 1,
    Size = 2,
    Frontier = 3,
}

/// A word that certifies itself: the value in the lower half, in the upper half the CRC-32C of the
/// field's number and the value, so that a changed word can be told before it is believed.
pub(crate) fn seal(field: Sealed, value: u32) -> u64 {
    let mut bytes = [field as u8, 0, 0, 0, 0];
    bytes[1..].copy_from_slice(&value.to_le_bytes());
    u64::from(crc32c::crc32c(&bytes)) << 32 | u64::from(value)
}

/// The value of a sealed word; `None` if it contradicts its seal.
pub(crate) fn unseal(field: Sealed, word: u64) -> Option<u32> {
    (seal(field, word as u32) == word).then_some(word as u32)
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
        for field in [Sealed::Generation, Sealed::Size, Sealed::Frontier] {
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
}
