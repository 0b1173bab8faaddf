//! What stands in the store: records of devices, keys of blocks. `docs/formats/array.md`.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The keyspace of the records of devices, by name.
pub(crate) const DEVICES: &str = "tembo-array";

/// The keyspace of the blocks of all devices.
pub(crate) const BLOCKS: &str = "tembo-array-blocks";

/// The key, among names, of the number that the next device gets. No device has an empty name.
pub(crate) const NEXT_NUMBER: &[u8] = b"";

/// What the name of a snapshot begins with that keeps what clones read; the version in decimal follows.
pub(crate) const ORIGIN_PREFIX: &str = tembo_kv::ORIGIN_NAME_PREFIX;

/// The mark of an origin that a release without marks has written: it may be of any store.
pub(crate) const UNMARKED: u32 = 0;

/// The mark of an origin whose version is of no store that there is.
pub(crate) const LOST: u32 = u32::MAX;

/// Bits of the number of a block, in a key; those above are the number of the device.
const BLOCK_BITS: u32 = 40;

/// Devices that a store can ever have had.
pub(crate) const NUMBER_MAX: u32 = (1 << (64 - BLOCK_BITS)) - 1;

/// Blocks that a device can have.
pub(crate) const BLOCK_COUNT_MAX: u64 = 1 << BLOCK_BITS;

/// Of a device with runs, the keys from this number of a block on are those of runs: this, and the number of the first block.
pub(crate) const RUNS_FROM: u64 = BLOCK_COUNT_MAX / 2;

/// The device does not get longer by a write.
pub(crate) const FLAG_FIXED: u32 = 1;

/// Where among the flags the binary logarithm of the blocks in a run is, and how many bits it has.
pub(crate) const RUN_SHIFT: u32 = 8;
pub(crate) const RUN_MASK: u32 = 0xff;

/// Set in the size of a block where there are runs. A program that knows of none takes the record for damaged, not the
/// blocks of runs for zero.
pub(crate) const HAS_RUNS: u32 = 1 << 31;

/// What the value under a device's name begins with. As many [`OriginRecord`]s as it says follow.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub(crate) struct DeviceRecord {
    /// The number of the device, in the keys of its blocks.
    pub(crate) number: U32,
    /// Bytes in a block, and [`HAS_RUNS`].
    pub(crate) block_size: U32,
    pub(crate) flags: U32,
    pub(crate) origin_count: U32,
    /// Bytes in the device.
    pub(crate) len: U64,
    /// A number of the program's own.
    pub(crate) tag: U64,
}

/// What a clone reads where it has no block of its own: the nearest first.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub(crate) struct OriginRecord {
    /// The number of the device whose blocks they are.
    pub(crate) number: U32,
    /// Of which store the version is: [`mark_of`] its identity, [`UNMARKED`] or [`LOST`].
    pub(crate) mark: U32,
    /// The version at which they are read.
    pub(crate) version: U64,
    /// Bytes from the begin on of which they may be; a multiple of the size of a block.
    pub(crate) len: U64,
}

const _: () = assert!(size_of::<DeviceRecord>() == 32 && size_of::<OriginRecord>() == 24);

/// What origins are marked with whose versions are of the store of that identity: its four words, combined by exclusive or.
pub(crate) fn mark_of(identity: u128) -> u32 {
    let words = [0, 32, 64, 96].map(|shift| (identity >> shift) as u32);
    match words.into_iter().fold(0, |mark, word| mark ^ word) {
        // Of a store in memory, whose identity is 0, too.
        UNMARKED | LOST => 1,
        mark => mark,
    }
}

/// The key of a block.
pub(crate) fn block_key(number: u32, block: u64) -> [u8; 8] {
    (u64::from(number) << BLOCK_BITS | block & (BLOCK_COUNT_MAX - 1)).to_be_bytes()
}

/// The key of the run that begins with a block.
pub(crate) fn run_key(number: u32, first: u64) -> [u8; 8] {
    block_key(number, RUNS_FROM | first)
}

/// The number of a device and of its block, from a key.
pub(crate) fn block_of(key: &[u8]) -> Option<(u32, u64)> {
    let key = u64::from_be_bytes(key.try_into().ok()?);
    Some(((key >> BLOCK_BITS) as u32, key & (BLOCK_COUNT_MAX - 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_in_the_order_of_devices_and_blocks() {
        let all = [(0, 0), (0, 1), (0, BLOCK_COUNT_MAX - 1), (1, 0), (NUMBER_MAX, 0)];
        let keys = all.map(|(number, block)| block_key(number, block));
        assert!(keys.is_sorted());
        let (last, run, next) = (block_key(7, RUNS_FROM - 1), run_key(7, 0), block_key(8, 0));
        assert!(last < run && run < run_key(7, 8) && run_key(7, RUNS_FROM - 8) < next);
        assert_eq!(keys.map(|key| block_of(&key)), all.map(Some));
        assert_eq!(block_of(b"short"), None);
    }

    #[test]
    fn the_mark_of_a_store_is_never_one_that_means_something_else() {
        assert_eq!([0, u128::from(LOST), u128::MAX].map(mark_of), [1, 1, 1]);
        assert_eq!(mark_of(0x0000_0001_0000_0020_0000_0300_0000_4000), 0x4321);
    }

    #[test]
    fn a_record_is_laid_out_as_documented() {
        let record = DeviceRecord {
            number: 7.into(),
            block_size: 4096.into(),
            flags: FLAG_FIXED.into(),
            origin_count: 0.into(),
            len: 0x0102.into(),
            tag: 0x0304.into(),
        };
        let mut bytes = [0; 32];
        (bytes[0], bytes[5], bytes[8], bytes[16], bytes[17]) = (7, 0x10, 1, 2, 1);
        (bytes[24], bytes[25]) = (4, 3);
        assert_eq!(record.as_bytes(), bytes);
        let (number, mark) = (7.into(), 0x0506.into());
        let origin = OriginRecord { number, mark, version: 9.into(), len: 0x2000.into() };
        let mut bytes = [0; 24];
        (bytes[0], bytes[4], bytes[5], bytes[8], bytes[17]) = (7, 6, 5, 9, 0x20);
        assert_eq!(origin.as_bytes(), bytes);
    }
}
