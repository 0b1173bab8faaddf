//! The chunks of one class that have room, and the order in which they are taken.
//!
//! Where pages come from a disk one by one, the pages of a chunk are read before a slot of it is stored to, and written by the
//! next checkpoint, and both cost about the same for one slot and for all slots. So there a chunk is *thin* until a
//! quarter of it is free, and a thin chunk is taken only when the pool has no other space. Live objects then fill at least
//! three quarters of the chunks of their class but for a few chunks. The chunks to be taken next stand in a queue: their free
//! slots are asked for when they come into it, some time before they are used.

use std::collections::VecDeque;

use crate::chunk::{Chunk, NONE};

/// A chunk is thin if less than one part in so many of it is free.
const SHARE: u32 = 4;

/// Least number of slots in the queue: as many as a disk reads side by side.
pub(crate) const SLOTS_ASKED: usize = 32;

/// Chunks at which a search for a wanted one looks.
const LOOK: usize = 64;

/// The chunks of a class that have room.
#[derive(Clone, Debug)]
pub(crate) struct ClassLists {
    /// The chunk from which slots are taken.
    pub(crate) current: u32,
    /// Other chunks that have room.
    partial: Vec<u32>,
    /// Thin chunks.
    thin: Vec<u32>,
    /// The place in `partial` from which the next wanted chunk is looked for.
    hand: usize,
    /// The queue of the next current chunks. The free slots of each were prefetched.
    next: VecDeque<u32>,
}

impl ClassLists {
    /// The lists of a class without chunks.
    pub(crate) fn new() -> ClassLists {
        let (current, partial, thin) = (NONE, Vec::new(), Vec::new());
        ClassLists { current, partial, thin, hand: 0, next: VecDeque::new() }
    }

    /// Adds a chunk that has room and is in no list.
    pub(crate) fn add(&mut self, chunk: &mut Chunk, index: u32, is_thin: bool) {
        let list = if is_thin { &mut self.thin } else { &mut self.partial };
        chunk.listed = list.len() as u32;
        chunk.is_thin = is_thin;
        list.push(index);
    }

    /// Takes a chunk out of its list.
    pub(crate) fn remove(&mut self, chunks: &mut [Chunk], index: u32) {
        let chunk = &mut chunks[index as usize];
        let list = if chunk.is_thin { &mut self.thin } else { &mut self.partial };
        let position = std::mem::replace(&mut chunk.listed, NONE);
        chunk.is_thin = false;
        list.swap_remove(position as usize);
        if let Some(&moved) = list.get(position as usize) {
            chunks[moved as usize].listed = position;
        }
    }

    /// Takes the next chunk out of its list. `None`: only thin ones are left.
    pub(crate) fn take(&mut self, chunks: &mut [Chunk]) -> Option<u32> {
        let index = self.next.pop_front().or_else(|| self.partial.pop())?;
        chunks[index as usize].listed = NONE;
        Some(index)
    }

    /// Takes a chunk that is `wanted` out of its list. Looks only at some chunks, each time at others.
    pub(crate) fn take_wanted(
        &mut self,
        chunks: &mut [Chunk],
        wanted: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let (count, hand) = (self.partial.len(), self.hand);
        let mut places = (0..count.min(LOOK)).map(|step| (hand + step) % count);
        let found = places.find(|at| wanted(self.partial[*at]));
        self.hand = found.unwrap_or(hand + LOOK) % count.max(1);
        let index = self.partial[found?];
        self.remove(chunks, index);
        Some(index)
    }

    /// Takes a thin chunk out of its list.
    pub(crate) fn take_thin(&mut self, chunks: &mut [Chunk]) -> Option<u32> {
        let index = self.thin.pop()?;
        let chunk = &mut chunks[index as usize];
        (chunk.listed, chunk.is_thin) = (NONE, false);
        Some(index)
    }

    /// Fills the queue with chunks of at least so many slots. Returns the chunks whose free slots are to be prefetched: those
    /// that were added, and the current one if it was not in the queue before.
    pub(crate) fn fill_queue(&mut self, chunks: &mut [Chunk], slots: usize) -> Vec<u32> {
        let mut asked = Vec::new();
        let mut ask = |chunk: &mut Chunk, index: u32| {
            if !std::mem::replace(&mut chunk.is_asked, true) {
                asked.push(index);
            }
        };
        if let Some(chunk) = chunks.get_mut(self.current as usize) {
            ask(chunk, self.current);
        }
        let mut count: usize =
            self.next.iter().map(|index| chunks[*index as usize].free.len()).sum();
        while count < slots
            && let Some(index) = self.partial.pop()
        {
            let chunk = &mut chunks[index as usize];
            chunk.listed = NONE;
            count += chunk.free.len().max(1);
            ask(chunk, index);
            self.next.push_back(index);
        }
        asked
    }

    /// Removes all chunks from the lists.
    pub(crate) fn clear(&mut self, chunks: &mut [Chunk]) {
        let current = std::mem::replace(&mut self.current, NONE);
        let listed = self.partial.drain(..).chain(self.thin.drain(..)).chain(self.next.drain(..));
        for index in listed.chain([current]) {
            if let Some(chunk) = chunks.get_mut(index as usize) {
                (chunk.listed, chunk.is_thin, chunk.is_asked) = (NONE, false, false);
            }
        }
    }
}

/// Whether so few of the `slots` of a chunk are free that it is thin.
pub(crate) fn is_thin(chunk: &Chunk, slots: u32) -> bool {
    (chunk.free.len() as u32).saturating_mul(SHARE) < slots
}
