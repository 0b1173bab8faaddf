//! Geometry: how a pool's data area is cut into chunks, and where an object may lie in it.

use crate::class::{class_for, size_of_class};
use crate::format::DATA_START_MIN;
use crate::object::{GRANULE, REACH};
use crate::{Error, Object};

/// Sizes fixed when a pool is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes in a chunk: a power of two from 4 KiB to 1 MiB. A chunk holds objects of one class;
    /// what is larger than half a chunk takes whole chunks.
    pub chunk_size: u32,
    /// Bytes in an index node: the size of a class, at least 64, at most a chunk.
    pub node_size: u32,
}

impl Geometry {
    /// The smallest: a pool of 128 KiB is useful, so that a test can exhaust it.
    pub const TINY: Geometry = Geometry { chunk_size: 4096, node_size: 192 };

    pub(crate) fn check(self) -> Result<(), Error> {
        let Geometry { chunk_size, node_size } = self;
        let bad = |reason| Err(Error::BadGeometry { chunk_size, node_size, reason });
        if !chunk_size.is_power_of_two() || !(4096..=1 << 20).contains(&chunk_size) {
            return bad("a chunk is a power of two from 4 KiB to 1 MiB");
        }
        let class_size = class_for(node_size.into()).map(size_of_class);
        if !(64..=chunk_size).contains(&node_size) || class_size != Some(node_size.into()) {
            return bad("a node is at least 64 bytes, at most a chunk, and exactly a size class");
        }
        Ok(())
    }
}

impl Default for Geometry {
    fn default() -> Self {
        Geometry { chunk_size: 64 << 10, node_size: 1024 }
    }
}

/// The arithmetic of a checked geometry. Chunks are numbered from the start of the region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) shift: u32,
}

/// Where an object lies: a slot of a chunk, or a run of whole chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Slot { chunk: u32, slot: u32 },
    Run { chunk: u32, count: u32 },
}

impl Layout {
    pub(crate) fn new(geometry: Geometry) -> Layout {
        Layout { shift: geometry.chunk_size.ilog2() }
    }

    pub(crate) fn chunk_size(self) -> u64 {
        1 << self.shift
    }

    /// The first chunk of the data area.
    pub(crate) fn first(self) -> u32 {
        self.chunks_for(DATA_START_MIN)
    }

    /// Where a chunk begins, in bytes.
    #[inline]
    pub(crate) fn start(self, chunk: u32) -> u64 {
        u64::from(chunk) << self.shift
    }

    /// The chunk that holds the byte at `offset`.
    #[inline]
    pub(crate) fn chunk_of(self, offset: u64) -> u32 {
        (offset >> self.shift) as u32
    }

    /// Whole chunks in a region of `size` bytes, as far as objects can reach.
    pub(crate) fn chunks_in(self, size: u64) -> u32 {
        self.chunk_of(size.min(REACH - 1))
    }

    /// Chunks that hold `size` bytes.
    pub(crate) fn chunks_for(self, size: u64) -> u32 {
        size.div_ceil(self.chunk_size()) as u32
    }

    /// Whether objects of this size share a chunk.
    #[inline]
    pub(crate) fn shares(self, size: u64) -> bool {
        size <= self.chunk_size() / 2
    }

    /// Slots of `size` bytes in a chunk.
    pub(crate) fn slots(self, size: u64) -> u32 {
        (self.chunk_size() / size) as u32
    }

    /// Granules in a chunk.
    #[inline]
    pub(crate) fn granules(self) -> u32 {
        (self.chunk_size() / GRANULE) as u32
    }

    /// The bytes that an object takes from the pool: its size, or whole chunks.
    pub(crate) fn footprint(self, size: u64) -> u64 {
        if self.shares(size) { size } else { self.start(self.chunks_for(size)) }
    }

    /// Bytes from the start of an object on that belong to no other: its size, and for the last object of a chunk
    /// also the rest of the chunk.
    #[inline]
    pub(crate) fn room(self, object: Object) -> u64 {
        let size = object.size();
        if !self.shares(size) {
            return self.start(self.chunks_for(size));
        }
        let left = self.chunk_size() - (object.offset() & (self.chunk_size() - 1));
        if left < 2 * size { left.max(size) } else { size }
    }

    /// Where an object lies, if it can lie there at all, before the chunk `end`.
    pub(crate) fn place(self, object: Object, end: u32) -> Result<Place, Error> {
        let bits = object.to_bits();
        let size = object.size();
        if size == 0 {
            return Err(Error::Misplaced { bits, reason: "no such class" });
        }
        let outside = || Error::OutOfBounds { bits, end: self.start(end) };
        let index = object.offset() >> self.shift;
        let inside = object.offset() & (self.chunk_size() - 1);
        if index < self.first().into() || index >= end.into() {
            return Err(outside());
        }
        let chunk = index as u32;
        if self.shares(size) {
            let (inside, size) = (inside as u32, size as u32);
            if inside % size != 0 || inside + size > self.chunk_size() as u32 {
                return Err(Error::Misplaced { bits, reason: "between two slots" });
            }
            return Ok(Place::Slot { chunk, slot: inside / size });
        }
        let count = self.chunks_for(size);
        if inside != 0 {
            return Err(Error::Misplaced { bits, reason: "not at the start of a chunk" });
        }
        if chunk.checked_add(count).is_none_or(|after| after > end) {
            return Err(outside());
        }
        Ok(Place::Run { chunk, count })
    }
}
