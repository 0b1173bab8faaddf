//! The volatile state of a chunk.

use crate::geometry::Layout;
use crate::object::GRANULE;

/// The number that stands for no chunk, or for no place in a list.
pub(crate) const NONE: u32 = u32::MAX;

/// What a chunk is used for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Use {
    /// It is in a free run.
    #[default]
    Free,
    /// It lies below the limit of a sweep that has not finished.
    Unknown,
    /// It holds objects of one class.
    Shared,
    /// It is the first chunk of an object of one or more whole chunks.
    Head,
    /// It is a further chunk of such an object.
    Body,
}

/// The state of one chunk.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    /// Free slots below `bump`, as granules from the chunk's start.
    pub(crate) free: Vec<u16>,
    /// The granule from which no slot was handed out yet.
    pub(crate) bump: u32,
    /// Objects in the chunk.
    pub(crate) live: u32,
    /// Its place in its class's list of chunks that have room, or [`NONE`].
    pub(crate) listed: u32,
    pub(crate) class: u8,
    pub(crate) usage: Use,
    /// Whether its free slots were prefetched: it is the current chunk of its class, or in the queue of the next ones.
    pub(crate) is_asked: bool,
    /// The list in which it is, or was last.
    pub(crate) grade: u8,
    /// Whether its objects are to be moved elsewhere: nothing is taken from it.
    pub(crate) is_leaving: bool,
}

impl Chunk {
    pub(crate) fn unused(usage: Use) -> Chunk {
        Chunk { listed: NONE, usage, ..Chunk::default() }
    }

    /// Takes a slot of `step` granules. Returns its first granule.
    #[inline]
    pub(crate) fn take(&mut self, step: u32, granules: u32) -> Option<u32> {
        let granule = match self.free.pop() {
            Some(granule) => u32::from(granule),
            None if self.bump + step <= granules => {
                self.bump += step;
                self.bump - step
            }
            None => return None,
        };
        self.live += 1;
        Some(granule)
    }

    /// Gives a slot back. Returns `false` if it cannot have been taken.
    #[inline]
    pub(crate) fn give(&mut self, granule: u32) -> bool {
        debug_assert!(!self.free.contains(&(granule as u16)), "freed twice");
        if granule >= self.bump || self.live == 0 {
            return false;
        }
        self.free.push(granule as u16);
        self.live -= 1;
        true
    }

    /// Which slots hold objects, in a chunk with slots of `size` bytes.
    pub(crate) fn occupied(&self, layout: Layout, size: u64) -> Vec<bool> {
        let step = (size / GRANULE) as u32;
        let handed_out = (self.bump / step) as usize;
        let mut slots = vec![false; layout.slots(size) as usize];
        slots[..handed_out].fill(true);
        for &granule in &self.free {
            slots[usize::from(granule) / step as usize] = false;
        }
        slots
    }
}
