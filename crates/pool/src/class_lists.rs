//! The chunks of one class that have room, and the order in which they are taken.
//!
//! In a pool on a disk a page is written by the next checkpoint, and where memory is short it is read before a slot of it
//! is stored to. Both cost about the same for one slot of a page and for all of them. So there objects are *gathered*: the
//! chunk that is taken next is the emptiest one of its class, and a chunk comes back only when a quarter of it is free.
//! Emptier chunks cost less, and take more space. The class has a chunk more, before it takes one again, as long as its
//! objects fill two thirds of its chunks: where objects are overwritten at random the emptiest chunk is then three fifths free.
//! (Rosenblum and Ousterhout, "The Design and Implementation of a Log-Structured File System", SOSP 1991, section 3.4, has
//! the relation between the two; here the free slots of a chunk are filled, and what lives in it stays where it is.)
//!
//! Where few free chunks are left and no more can be had, objects take any free slot, in the emptiest chunk first: other classes
//! need the free chunks.
//!
//! The chunks to be taken next stand in a queue: their free slots are asked for when they come into it, some time before
//! they are used.

use std::collections::VecDeque;

use crate::chunk::{Chunk, NONE};

/// Chunks that have room are in so many lists, by how many of their slots are free: in list `i` at least `i` in `GRADES`.
const GRADES: usize = 8;

/// Chunks of lower grades are not gathered in.
const GRADE_LEAST: usize = GRADES / 4;

/// Least number of slots in the queue: as many as a disk reads side by side.
pub(crate) const SLOTS_ASKED: usize = 32;

/// Chunks at which a search for a wanted one looks.
const LOOK: usize = 64;

/// The chunks of a class.
#[derive(Clone, Debug)]
pub(crate) struct ClassLists {
    /// The chunk from which slots are taken.
    pub(crate) current: u32,
    /// Objects of the class.
    pub(crate) live: u64,
    /// Chunks of the class.
    pub(crate) chunks: u32,
    /// Other chunks that have room, by grade. Where objects are not gathered, all are of the lowest one.
    grades: [Vec<u32>; GRADES],
    /// The place in a list from which the next wanted chunk is looked for.
    hand: usize,
    /// The queue of the next current chunks. The free slots of each were prefetched.
    next: VecDeque<u32>,
}

/// From which chunks of a class with room objects are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// From any.
    Any,
    /// From those of which enough is free, if the objects of the class, of which a chunk holds so many, fill too small a part of its
    /// chunks.
    Gathered { slots: u32 },
}

impl ClassLists {
    /// The lists of a class without chunks.
    pub(crate) fn new() -> ClassLists {
        let (current, grades, next) = (NONE, [const { Vec::new() }; GRADES], VecDeque::new());
        ClassLists { current, live: 0, chunks: 0, grades, hand: 0, next }
    }

    /// Adds a chunk that has room and is in no list.
    pub(crate) fn add(&mut self, chunk: &mut Chunk, index: u32, grade: u8) {
        let list = &mut self.grades[usize::from(grade)];
        chunk.listed = list.len() as u32;
        chunk.grade = grade;
        list.push(index);
    }

    /// Takes a chunk out of its list.
    pub(crate) fn remove(&mut self, chunks: &mut [Chunk], index: u32) {
        let chunk = &mut chunks[index as usize];
        let list = &mut self.grades[usize::from(chunk.grade)];
        let position = std::mem::replace(&mut chunk.listed, NONE);
        list.swap_remove(position as usize);
        if let Some(&moved) = list.get(position as usize) {
            chunks[moved as usize].listed = position;
        }
    }

    /// The grades of chunks that may be taken.
    fn allowed(&self, chunks: &[Chunk], choice: Choice) -> std::ops::Range<usize> {
        match choice {
            Choice::Any => 0..GRADES,
            Choice::Gathered { slots } => {
                let room =
                    |index: &u32| u64::from(slots.saturating_sub(chunks[*index as usize].live));
                let taken = self.live + self.next.iter().map(room).sum::<u64>();
                let is_dense = taken * 3 >= u64::from(self.chunks) * u64::from(slots) * 2;
                if is_dense { GRADES..GRADES } else { GRADE_LEAST..GRADES }
            }
        }
    }

    /// Takes the next chunk out of its list.
    pub(crate) fn take(&mut self, chunks: &mut [Chunk], choice: Choice) -> Option<u32> {
        self.next.pop_front().or_else(|| self.take_listed(chunks, choice))
    }

    /// Takes an allowed chunk out of its list: one of the emptiest.
    fn take_listed(&mut self, chunks: &mut [Chunk], choice: Choice) -> Option<u32> {
        let allowed = self.allowed(chunks, choice);
        let index = self.grades[allowed].iter_mut().rev().find_map(Vec::pop)?;
        chunks[index as usize].listed = NONE;
        Some(index)
    }

    /// Takes a chunk that is `wanted` out of its list. Looks only at some chunks, each time at others.
    pub(crate) fn take_wanted(
        &mut self,
        chunks: &mut [Chunk],
        choice: Choice,
        wanted: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let hand = self.hand;
        let lists = self.grades[self.allowed(chunks, choice)].iter().rev();
        let mut looked_at = 0;
        let mut is_found = |index: &u32| {
            looked_at += 1;
            wanted(*index)
        };
        let found = lists.flat_map(|list| from_place(list, hand)).take(LOOK).find(&mut is_found);
        self.hand = hand.wrapping_add(looked_at);
        self.remove(chunks, found?);
        found
    }

    /// Fills the queue with chunks of at least so many slots. Returns the chunks whose free slots are to be prefetched: those
    /// that were added, and the current one if it was not in the queue before.
    pub(crate) fn fill_queue(
        &mut self,
        chunks: &mut [Chunk],
        choice: Choice,
        slots: usize,
    ) -> Vec<u32> {
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
            && let Some(index) = self.take_listed(chunks, choice)
        {
            let chunk = &mut chunks[index as usize];
            count += chunk.free.len().max(1);
            ask(chunk, index);
            self.next.push_back(index);
        }
        asked
    }

    /// Removes all chunks from the lists.
    pub(crate) fn clear(&mut self, chunks: &mut [Chunk]) {
        let current = std::mem::replace(&mut self.current, NONE);
        let lists = self.grades.iter_mut().flat_map(|list| list.drain(..));
        for index in lists.chain(self.next.drain(..)).chain([current]) {
            if let Some(chunk) = chunks.get_mut(index as usize) {
                (chunk.listed, chunk.is_asked) = (NONE, false);
            }
        }
    }
}

/// The entries of a list, from a place in it on, and then those before it.
fn from_place(list: &[u32], hand: usize) -> impl Iterator<Item = u32> + '_ {
    let (begin, end) = list.split_at(hand % list.len().max(1));
    end.iter().chain(begin).copied()
}

/// The grade of a chunk of so many `slots`.
pub(crate) fn grade(chunk: &Chunk, slots: u32) -> u8 {
    let free = u64::from(slots.saturating_sub(chunk.live));
    (free * GRADES as u64 / u64::from(slots.max(1))).min(GRADES as u64 - 1) as u8
}
