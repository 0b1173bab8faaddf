//! A chunk: what the volatile side knows of it.

use crate::geometry::Layout;
use crate::object::GRANULE;

/// No chunk, or not in a list.
pub(crate) const NONE: u32 = u32::MAX;

/// What a chunk is used for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Use {
    /// In a free run.
    #[default]
    Free,
    /// Below the limit of a sweep that has not finished.
    Unknown,
    /// Objects of one class.
    Shared,
    /// The first chunk of an object of one or more whole chunks.
    Head,
    /// A further chunk of such an object.
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
    /// Its free slots were asked for: it is the current chunk of its class, or in the queue of the next ones.
    pub(crate) is_asked: bool,
    /// It is listed among those that have little room.
    pub(crate) is_thin: bool,
    /// Its objects are to be moved elsewhere: nothing is taken from it.
    pub(crate) is_leaving: bool,
}

impl Chunk {
    pub(crate) fn unused(usage: Use) -> Chunk {
        Chunk { listed: NONE, usage, ..Chunk::default() }
    }

    /// Takes a slot of `step` granules; returns its granule.
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

    /// Gives a slot back; `false` if it cannot have been taken.
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

    /// Which slots hold objects: for slots of `size` bytes.
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
