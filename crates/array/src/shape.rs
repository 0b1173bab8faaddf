//! The record of a device, decoded: what shape it has.

use tembo_kv::{Keyspace, Value};
use zerocopy::{FromBytes, IntoBytes};

use crate::Error;
use crate::bounds::{BLOCK_SIZE_MAX, BLOCK_SIZE_MIN, RUN_SIZE_MAX, len_max};
use crate::format::{DeviceRecord, FLAG_FIXED, HAS_RUNS, OriginRecord, RUN_MASK, RUN_SHIFT};

/// Where devices and blocks are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spaces {
    pub(crate) devices: Keyspace,
    pub(crate) blocks: Keyspace,
    /// Of the store: what origins are marked with whose versions are its own.
    pub(crate) mark: u32,
}

/// Blocks of another device, at a version, that show where a clone has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) number: u32,
    /// Of which store the version is.
    pub(crate) mark: u32,
    pub(crate) version: u64,
    /// Blocks from the first on of which they may be.
    pub(crate) blocks: u64,
}

/// What a device is, apart from what its blocks hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) number: u32,
    pub(crate) block_size: usize,
    /// Blocks in a run, which are one object if they are written together; 1: there are no runs.
    pub(crate) run_blocks: u64,
    pub(crate) grows: bool,
    pub(crate) len: u64,
    /// A number of the program's own.
    pub(crate) tag: u64,
    /// The nearest first.
    pub(crate) origins: Vec<Origin>,
}

/// # Errors
/// [`Error::BlockSize`].
pub(crate) fn check_block_size(size: usize) -> Result<(), Error> {
    match size.is_power_of_two() && (BLOCK_SIZE_MIN..=BLOCK_SIZE_MAX).contains(&size) {
        true => Ok(()),
        false => Err(Error::BlockSize { size }),
    }
}

/// # Errors
/// [`Error::RunBlocks`].
pub(crate) fn check_run_blocks(block_size: usize, count: usize) -> Result<(), Error> {
    let is_short = || count.checked_mul(block_size).is_some_and(|size| size <= RUN_SIZE_MAX);
    match count == 1 || count.is_power_of_two() && is_short() {
        true => Ok(()),
        false => Err(Error::RunBlocks { count }),
    }
}

impl Shape {
    /// # Errors
    /// [`Error::Damaged`].
    pub(crate) fn decode(value: &Value<'_>) -> Result<Shape, Error> {
        let damaged = || Error::Damaged { what: "the record of a device" };
        let bytes = value.to_vec();
        let (record, rest) = DeviceRecord::read_from_prefix(&bytes).map_err(|_| damaged())?;
        let block_size = (record.block_size.get() & !HAS_RUNS) as usize;
        let run_shift = record.flags.get() >> RUN_SHIFT & RUN_MASK;
        let run_blocks = 1_usize.checked_shl(run_shift).ok_or_else(damaged)?;
        if (record.block_size.get() & HAS_RUNS != 0) != (run_blocks > 1) {
            return Err(damaged());
        }
        let count = record.origin_count.get() as usize;
        let fits = count.checked_mul(size_of::<OriginRecord>()) == Some(rest.len());
        let is_sound = check_block_size(block_size).is_ok()
            && check_run_blocks(block_size, run_blocks).is_ok()
            && record.len.get() <= len_max(block_size, run_blocks as u64);
        if !is_sound || !fits {
            return Err(damaged());
        }
        let origin = |bytes: &[u8]| {
            let origin = OriginRecord::read_from_bytes(bytes).map_err(|_| damaged())?;
            let blocks = origin.len.get() / block_size as u64;
            let (number, mark) = (origin.number.get(), origin.mark.get());
            Ok(Origin { number, mark, version: origin.version.get(), blocks })
        };
        let origins: Result<_, Error> =
            rest.chunks_exact(size_of::<OriginRecord>()).map(origin).collect();
        Ok(Shape {
            number: record.number.get(),
            block_size,
            run_blocks: run_blocks as u64,
            grows: record.flags.get() & FLAG_FIXED == 0,
            len: record.len.get(),
            tag: record.tag.get(),
            origins: origins?,
        })
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let has_runs = if self.run_blocks > 1 { HAS_RUNS } else { 0 };
        let fixed = if self.grows { 0 } else { FLAG_FIXED };
        let record = DeviceRecord {
            number: self.number.into(),
            block_size: (self.block_size as u32 | has_runs).into(),
            flags: (fixed | self.run_blocks.trailing_zeros() << RUN_SHIFT).into(),
            origin_count: (self.origins.len() as u32).into(),
            len: self.len.into(),
            tag: self.tag.into(),
        };
        let mut bytes = record.as_bytes().to_vec();
        for origin in &self.origins {
            let origin = OriginRecord {
                number: origin.number.into(),
                mark: origin.mark.into(),
                version: origin.version.into(),
                len: (origin.blocks * self.block_size as u64).into(),
            };
            bytes.extend_from_slice(origin.as_bytes());
        }
        bytes
    }

    /// Blocks of which a part lies before the end.
    pub(crate) fn blocks(&self) -> u64 {
        self.len.div_ceil(self.block_size as u64)
    }

    /// Bytes that it can have.
    pub(crate) fn len_max(&self) -> u64 {
        len_max(self.block_size, self.run_blocks)
    }

    /// The first block of the run that a block belongs to; `None`: there are no runs.
    pub(crate) fn run_of(&self, block: u64) -> Option<u64> {
        (self.run_blocks > 1).then_some(block & !(self.run_blocks - 1))
    }

    /// Bytes in a run.
    pub(crate) fn run_size(&self) -> usize {
        self.run_blocks as usize * self.block_size
    }

    /// Whether blocks of another device may show in place of this one.
    pub(crate) fn has_origin_at(&self, block: u64) -> bool {
        self.origins.iter().any(|origin| block < origin.blocks)
    }

    /// It ends here: nothing behind shows any more, whatever its length later.
    pub(crate) fn cut(&mut self, len: u64) {
        self.len = len;
        let blocks = self.blocks();
        self.origins.iter_mut().for_each(|origin| origin.blocks = origin.blocks.min(blocks));
        self.origins.retain(|origin| origin.blocks > 0);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_program_without_runs_takes_the_record_of_a_device_with_runs_for_damaged() {
        let origin = Origin { number: 3, mark: 4, version: 9, blocks: 2 };
        let shape = Shape {
            number: 7,
            block_size: 4096,
            run_blocks: 8,
            grows: false,
            len: 1 << 20,
            tag: 5,
            origins: vec![origin],
        };
        for run_blocks in [1, 8, 64] {
            let shape = Shape { run_blocks, ..shape.clone() };
            let bytes = shape.encode();
            assert_eq!(Shape::decode(&Value::from(&bytes[..])).unwrap(), shape);
            // What it compares: the size of a block, which had no flags.
            let size = u32::from_le_bytes(bytes[4..8].try_into().unwrap()) as usize;
            assert_eq!(check_block_size(size).is_ok(), run_blocks == 1);
        }
        // The logarithm without the flag, the flag without it, and runs that are too long.
        let whole = shape.encode();
        for (at, byte) in [(7, 0), (9, 0), (9, 7), (9, 255)] {
            let mut bytes = whole.clone();
            bytes[at] = byte;
            let decoded = Shape::decode(&Value::from(&bytes[..]));
            assert!(matches!(decoded, Err(Error::Damaged { .. })), "{at}: {byte}");
        }
    }
}
