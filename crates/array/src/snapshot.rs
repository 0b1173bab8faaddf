//! A device as it was at one version.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use tembo_kv::Snapshot;

use crate::Error;
use crate::image::{Image, shape_in};
use crate::shared::Shared;

/// One version of a device, readable while the handle lives, beside any writer and without a lock. It can be sent to
/// another thread. A clone holds the same version.
#[derive(Clone)]
pub struct DeviceSnapshot {
    name: Arc<str>,
    image: Image,
}

impl fmt::Debug for DeviceSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceSnapshot")
            .field("name", &self.name)
            .field("version", &self.version())
            .finish_non_exhaustive()
    }
}

impl DeviceSnapshot {
    pub(crate) fn new(name: &Arc<str>, image: Image) -> DeviceSnapshot {
        DeviceSnapshot { name: name.clone(), image }
    }

    /// The device that has that name in a snapshot of the store, whether it is still there or not.
    ///
    /// # Errors
    /// [`Error::NoSuchDevice`], [`Error::OriginLost`]; damage.
    pub(crate) fn of(
        shared: &Shared,
        name: &Arc<str>,
        snapshot: Snapshot,
    ) -> Result<DeviceSnapshot, Error> {
        let shape = shape_in(&snapshot, shared.spaces, name)?;
        let shape = shape.ok_or_else(|| Error::NoSuchDevice { name: name.as_ref().into() })?;
        let image = Image::new(&shared.store, snapshot, shared.spaces, (name, shape))?;
        Ok(DeviceSnapshot::new(name, image))
    }

    pub(crate) fn image(&self) -> &Image {
        &self.image
    }

    /// The name of the device.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The version, of the whole store.
    pub fn version(&self) -> u64 {
        self.image.snapshot.version()
    }

    /// The snapshot of the whole store, to be named ([`Store::name_snapshot`](tembo_kv::Store::name_snapshot)) or read.
    pub fn store_snapshot(&self) -> &Snapshot {
        &self.image.snapshot
    }

    /// Bytes in a block.
    pub fn block_size(&self) -> usize {
        self.image.shape.block_size
    }

    /// The length of the device in this version, in bytes.
    pub fn len(&self) -> u64 {
        self.image.shape.len
    }

    /// Whether its length is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number that the program keeps with the device: see [`Transaction::set_tag`](crate::Transaction::set_tag).
    pub fn tag(&self) -> u64 {
        self.image.shape.tag
    }

    /// Whether a write beyond the end makes the device longer.
    pub fn grows(&self) -> bool {
        self.image.shape.grows
    }

    /// Whether it shows blocks of another device, of which it is a clone.
    pub fn is_clone(&self) -> bool {
        !self.image.shape.origins.is_empty()
    }

    /// Reads from `offset` on; how many bytes: fewer than asked for at the end of the device, none behind it.
    ///
    /// # Errors
    /// Damage.
    pub fn read_at(&self, offset: u64, to: &mut [u8]) -> Result<usize, Error> {
        self.image.read_at(offset, to)
    }

    /// The ranges of bytes that take space, in order, in whole blocks; all others are zero. Takes memory for the numbers of
    /// the blocks.
    ///
    /// # Errors
    /// Damage.
    pub fn stored(&self) -> Result<Vec<Range<u64>>, Error> {
        self.stored_in(0..self.len())
    }

    /// As [`stored`](DeviceSnapshot::stored), of the blocks that a range of bytes touches.
    ///
    /// # Errors
    /// Damage.
    pub fn stored_in(&self, range: Range<u64>) -> Result<Vec<Range<u64>>, Error> {
        let size = self.block_size() as u64;
        let end = range.end.min(self.len()).div_ceil(size);
        let blocks = self.image.stored(range.start / size..end, true)?;
        Ok(self.joined(&blocks))
    }

    /// The ranges of bytes that may differ from those of an earlier snapshot of the same device, in order, in whole blocks: what
    /// an incremental backup copies. What lies behind the end of one of the two is not among them. In time by what has
    /// changed; both versions are retained by the two handles, nothing between them need be.
    ///
    /// # Errors
    /// [`Error::NotComparable`]; damage.
    pub fn changed_since(&self, before: &DeviceSnapshot) -> Result<Vec<Range<u64>>, Error> {
        let (now, then) = (&self.image.shape, &before.image.shape);
        if now.number != then.number || before.version() > self.version() {
            return Err(Error::NotComparable);
        }
        let end = now.blocks();
        let mut blocks = self.image.changed_since(&before.image)?;
        blocks.retain(|block| *block < end);
        Ok(self.joined(&blocks))
    }

    /// Blocks in order as ranges of bytes, up to the end.
    fn joined(&self, blocks: &[u64]) -> Vec<Range<u64>> {
        let (size, len) = (self.block_size() as u64, self.len());
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for block in blocks {
            let (from, to) = (block * size, ((block + 1) * size).min(len));
            match ranges.last_mut() {
                Some(last) if last.end == from => last.end = to,
                _ => ranges.push(from..to),
            }
        }
        ranges
    }
}
