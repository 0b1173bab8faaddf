//! The record of a device, decoded: what shape it has.

use tembo_kv::{Keyspace, Value};
use zerocopy::{FromBytes, IntoBytes};

use crate::Error;
use crate::bounds::{BLOCK_SIZE_MAX, BLOCK_SIZE_MIN, len_max};
use crate::format::{DeviceRecord, FLAG_FIXED, OriginRecord};

/// Where devices and blocks are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spaces {
    pub(crate) devices: Keyspace,
    pub(crate) blocks: Keyspace,
}

/// Blocks of another device, at a version, that show where a clone has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) number: u32,
    pub(crate) version: u64,
    /// Blocks from the first on of which they may be.
    pub(crate) blocks: u64,
}

/// What a device is, apart from what its blocks hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) number: u32,
    pub(crate) block_size: usize,
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

impl Shape {
    /// # Errors
    /// [`Error::Damaged`].
    pub(crate) fn decode(value: &Value<'_>) -> Result<Shape, Error> {
        let damaged = || Error::Damaged { what: "the record of a device" };
        let bytes = value.to_vec();
        let (record, rest) = DeviceRecord::read_from_prefix(&bytes).map_err(|_| damaged())?;
        let block_size = record.block_size.get() as usize;
        let count = record.origin_count.get() as usize;
        let fits = count.checked_mul(size_of::<OriginRecord>()) == Some(rest.len());
        if check_block_size(block_size).is_err() || record.len.get() > len_max(block_size) || !fits
        {
            return Err(damaged());
        }
        let origin = |bytes: &[u8]| {
            let origin = OriginRecord::read_from_bytes(bytes).map_err(|_| damaged())?;
            let blocks = origin.len.get() / block_size as u64;
            Ok(Origin { number: origin.number.get(), version: origin.version.get(), blocks })
        };
        let origins: Result<_, Error> =
            rest.chunks_exact(size_of::<OriginRecord>()).map(origin).collect();
        Ok(Shape {
            number: record.number.get(),
            block_size,
            grows: record.flags.get() & FLAG_FIXED == 0,
            len: record.len.get(),
            tag: record.tag.get(),
            origins: origins?,
        })
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let record = DeviceRecord {
            number: self.number.into(),
            block_size: (self.block_size as u32).into(),
            flags: if self.grows { 0 } else { FLAG_FIXED }.into(),
            origin_count: (self.origins.len() as u32).into(),
            len: self.len.into(),
            tag: self.tag.into(),
        };
        let mut bytes = record.as_bytes().to_vec();
        for origin in &self.origins {
            let origin = OriginRecord {
                number: origin.number.into(),
                reserved: 0.into(),
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
