//! The allocator's volatile state: which space is free. Nothing of it is on media; after an open
//! it knows only what it hands out itself, and a sweep teaches it the rest.

use crate::Object;
use crate::chunk::{Chunk, NONE, Use};
use crate::class::{CLASS_LAST, size_of_class};
use crate::frontier::first_step;
use crate::geometry::Layout;
use crate::object::GRANULE;
use crate::relief::reserved_chunks;
use crate::runs::Runs;

/// Slots of a class that are asked for before they are taken: what a disk reads side by side.
const SLOTS_ASKED: usize = 32;

/// What the allocator lacks when it cannot serve a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    /// The frontier must first be raised to this chunk, durably.
    Frontier(u32),
    /// The pool must first grow to this chunk.
    Size(u32),
}

/// Whether space below the limit is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Knowledge {
    /// There is no limit: all is known.
    Whole,
    /// A sweep must still find out.
    Owed,
    /// A sweep is finding out.
    Sweeping,
}

#[derive(Clone, Debug)]
pub(crate) struct Class {
    /// The chunk from which slots are taken.
    pub(crate) current: u32,
    /// Other chunks that have room.
    pub(crate) partial: Vec<u32>,
}

pub(crate) struct Allocator {
    pub(crate) layout: Layout,
    /// State of the chunks before `top`.
    pub(crate) chunks: Vec<Chunk>,
    pub(crate) classes: Vec<Class>,
    pub(crate) runs: Runs,
    /// The durable frontier, as a chunk.
    pub(crate) frontier: u32,
    /// By how many chunks it may rise next.
    pub(crate) step: u32,
    /// The pool's durable end, as a chunk.
    pub(crate) end: u32,
    /// Below this chunk nothing is known, nothing is handed out, and what is freed waits.
    pub(crate) limit: u32,
    pub(crate) knowledge: Knowledge,
    /// Space is taken from the lowest free run that has it, not from the one that fits best.
    pub(crate) is_compacting: bool,
    /// Freed below the limit.
    pub(crate) freed: Vec<Object>,
    pub(crate) objects: u64,
    /// Bytes that the objects take.
    pub(crate) bytes: u64,
    /// The class that was given another chunk last, until that is looked at.
    pub(crate) renewed: Option<u8>,
}

impl Allocator {
    /// `frontier` and `end` are chunks. What lies below the frontier is unknown.
    pub(crate) fn new(layout: Layout, frontier: u32, end: u32) -> Allocator {
        let class = Class { current: NONE, partial: Vec::new() };
        let mut chunks = Vec::new();
        chunks.resize_with(frontier as usize, || Chunk::unused(Use::Unknown));
        let fresh = frontier == layout.first();
        Allocator {
            layout,
            chunks,
            classes: vec![class; usize::from(CLASS_LAST) + 1],
            runs: Runs::default(),
            frontier,
            step: first_step(layout),
            end,
            limit: if fresh { 0 } else { frontier },
            knowledge: if fresh { Knowledge::Whole } else { Knowledge::Owed },
            is_compacting: false,
            freed: Vec::new(),
            objects: 0,
            bytes: 0,
            renewed: None,
        }
    }

    /// The first chunk that was never handed out, or has come back to the end.
    pub(crate) fn top(&self) -> u32 {
        self.chunks.len() as u32
    }

    /// Takes an object of a class.
    #[inline]
    pub(crate) fn take(&mut self, class: u8) -> Result<Object, Lack> {
        let size = size_of_class(class);
        if !self.layout.shares(size) {
            return self.take_run(class, size);
        }
        let current = self.classes[usize::from(class)].current;
        if current != NONE
            && let Some(object) = self.take_slot(current, class, size)
        {
            return Ok(object);
        }
        self.renew(class)?;
        let current = self.classes[usize::from(class)].current;
        self.take_slot(current, class, size).ok_or(Lack::Frontier(self.frontier))
    }

    #[inline]
    fn take_slot(&mut self, chunk: u32, class: u8, size: u64) -> Option<Object> {
        let granules = self.layout.granules();
        let granule = self.chunks[chunk as usize].take((size / GRANULE) as u32, granules)?;
        self.objects += 1;
        self.bytes += size;
        Some(Object::new(self.layout.start(chunk) + u64::from(granule) * GRANULE, class))
    }

    /// Gives a class a current chunk that has room.
    #[cold]
    fn renew(&mut self, class: u8) -> Result<(), Lack> {
        let chunk = match self.classes[usize::from(class)].partial.pop() {
            Some(chunk) => chunk,
            None => {
                let chunk = self.acquire(1)?;
                let fresh = &mut self.chunks[chunk as usize];
                (fresh.usage, fresh.class) = (Use::Shared, class);
                chunk
            }
        };
        self.chunks[chunk as usize].listed = NONE;
        self.classes[usize::from(class)].current = chunk;
        self.renewed = Some(class);
        Ok(())
    }

    /// Free slots that objects of the class will take next, each with its size, as far as no call has named them before.
    pub(crate) fn next_slots(&mut self, class: u8) -> Vec<(u64, u64)> {
        let (size, lists) = (size_of_class(class), &self.classes[usize::from(class)]);
        let chunks = std::iter::once(lists.current).chain(lists.partial.iter().rev().copied());
        let (mut count, mut slots) = (0, Vec::new());
        for index in chunks {
            let Some(chunk) = self.chunks.get_mut(index as usize) else { continue };
            if !std::mem::replace(&mut chunk.is_asked, true) {
                let start = self.layout.start(index);
                let offset = |granule: &u16| start + u64::from(*granule) * GRANULE;
                slots.extend(chunk.free.iter().rev().map(|granule| (offset(granule), size)));
            }
            count += chunk.free.len().max(1);
            if count >= SLOTS_ASKED {
                break;
            }
        }
        slots
    }

    fn take_run(&mut self, class: u8, size: u64) -> Result<Object, Lack> {
        let count = self.layout.chunks_for(size);
        let start = self.acquire(count)?;
        for chunk in start..start + count {
            let usage = if chunk == start { Use::Head } else { Use::Body };
            self.chunks[chunk as usize].usage = usage;
        }
        let head = &mut self.chunks[start as usize];
        (head.class, head.live) = (class, 1);
        self.objects += 1;
        self.bytes += self.layout.start(count);
        Ok(Object::new(self.layout.start(start), class))
    }

    /// Takes `count` chunks in a row: from the free runs, else below the frontier.
    /// Leaves the [reserve](crate::relief) free.
    fn acquire(&mut self, count: u32) -> Result<u32, Lack> {
        let missing = u64::from(count).saturating_sub(self.spare_chunks());
        if missing > 0 {
            if self.trim() {
                return self.acquire(count);
            }
            let missing = u32::try_from(missing).unwrap_or(u32::MAX);
            return Err(Lack::Size(self.end.saturating_add(missing)));
        }
        let run = match self.is_compacting {
            true => self.runs.take_lowest(count),
            false => self.runs.take(count),
        };
        if let Some(start) = run {
            return Ok(start);
        }
        let top = self.top();
        if self.frontier - top >= count {
            let usage = || Chunk::unused(Use::Free);
            self.chunks.resize_with((top + count) as usize, usage);
            return Ok(top);
        }
        if self.trim() {
            return self.acquire(count);
        }
        let needed = top.saturating_add(count);
        Err(if needed <= self.end { Lack::Frontier(needed) } else { Lack::Size(needed) })
    }

    /// Returns the empty current chunks of all classes; whether there were any.
    pub(crate) fn trim(&mut self) -> bool {
        let mut any = false;
        for class in 0..self.classes.len() {
            let current = self.classes[class].current;
            if current != NONE && self.chunks[current as usize].live == 0 {
                self.classes[class].current = NONE;
                self.release(current, 1);
                any = true;
            }
        }
        any
    }

    /// Gives an object back. One below the limit waits for the sweep to finish.
    #[inline]
    pub(crate) fn give(&mut self, object: Object) {
        let index = self.layout.chunk_of(object.offset());
        if index < self.limit {
            self.freed.push(object);
            return;
        }
        let Some(chunk) = self.chunks.get_mut(index as usize) else { return };
        match chunk.usage {
            Use::Shared if chunk.class == object.class() => {
                let inside = object.offset() & (self.layout.chunk_size() - 1);
                if !chunk.give((inside / GRANULE) as u32) {
                    debug_assert!(false, "freed, but never allocated: {object:?}");
                    return;
                }
                self.objects -= 1;
                self.bytes -= object.size();
                if chunk.listed == NONE || chunk.live == 0 {
                    self.relist(index, object.class());
                }
            }
            Use::Head if chunk.class == object.class() => {
                let count = self.layout.chunks_for(object.size());
                self.objects -= 1;
                self.bytes -= self.layout.start(count);
                self.release(index, count);
            }
            _ => debug_assert!(false, "freed, but never allocated: {object:?}"),
        }
    }

    /// Puts a chunk that has room among those of its class, or returns an empty one.
    #[inline]
    fn relist(&mut self, index: u32, class: u8) {
        let lists = &mut self.classes[usize::from(class)];
        if lists.current == index {
            return;
        }
        let chunk = &mut self.chunks[index as usize];
        if chunk.live > 0 {
            chunk.listed = lists.partial.len() as u32;
            chunk.is_asked = false;
            lists.partial.push(index);
            return;
        }
        if chunk.listed != NONE {
            let position = chunk.listed as usize;
            lists.partial.swap_remove(position);
            if let Some(&moved) = lists.partial.get(position) {
                self.chunks[moved as usize].listed = position as u32;
            }
        }
        self.release(index, 1);
    }

    /// Returns chunks that hold nothing. Free space at the end lowers the top.
    pub(crate) fn release(&mut self, start: u32, count: u32) {
        for chunk in start..start + count {
            self.chunks[chunk as usize] = Chunk::unused(Use::Free);
        }
        let (start, count) = self.runs.give(start, count);
        if start + count == self.top() {
            self.runs.remove(start, count);
            self.chunks.truncate(start as usize);
        }
    }
}

impl Allocator {
    /// Chunks that no object is in and that the calling thread may take, empty current ones excepted.
    pub(crate) fn spare_chunks(&self) -> u64 {
        let spare = self.runs.total() + u64::from(self.end - self.top());
        spare.saturating_sub(reserved_chunks(self.end).into())
    }

    /// Bytes known to be free that the calling thread may take, in chunks that have objects too.
    pub(crate) fn free_bytes(&self) -> u64 {
        let known = self.layout.start(self.end - self.limit.max(self.layout.first()));
        (known - self.bytes).saturating_sub(self.layout.start(reserved_chunks(self.end)))
    }
}

impl Allocator {
    /// Takes no more from chunks that objects are in, until one of them is freed.
    pub(crate) fn set_aside(&mut self) {
        self.trim();
        for class in &mut self.classes {
            class.current = NONE;
            for chunk in class.partial.drain(..) {
                self.chunks[chunk as usize].listed = NONE;
            }
        }
    }

    /// Sets all that is known aside: a sweep will find it out again.
    pub(crate) fn forget(&mut self) {
        self.limit = self.top();
        for class in &mut self.classes {
            class.current = NONE;
            class.partial = Vec::new();
        }
        self.runs = Runs::default();
        (self.objects, self.bytes) = (0, 0);
    }

    /// Takes over what a sweep has learnt of the chunks from `lower` to the limit, which falls to
    /// `lower`. From the top down: so a body is known before its head can be freed.
    pub(crate) fn remember(&mut self, lower: u32, learnt: Vec<Chunk>) {
        let granules = self.layout.granules();
        self.limit = lower;
        let mut run = (lower, 0);
        for (index, mut chunk) in (lower..).zip(learnt) {
            let size = size_of_class(chunk.class);
            let step = (size / GRANULE) as u32;
            self.objects += u64::from(chunk.live);
            self.bytes += u64::from(chunk.live) * self.layout.footprint(size);
            match chunk.usage {
                Use::Free if run.0 + run.1 == index => run.1 += 1,
                Use::Free => {
                    self.give_run(run);
                    run = (index, 1);
                }
                Use::Shared if !chunk.free.is_empty() || chunk.bump + step <= granules => {
                    let partial = &mut self.classes[usize::from(chunk.class)].partial;
                    chunk.listed = partial.len() as u32;
                    partial.push(index);
                }
                _ => {}
            }
            self.chunks[index as usize] = chunk;
        }
        self.give_run(run);
    }

    fn give_run(&mut self, (start, count): (u32, u32)) {
        if count > 0 {
            self.release(start, count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Geometry;
    use crate::class::class_for;

    #[test]
    fn a_slot_that_is_taken_again_was_asked_for_once_before() {
        let layout = Layout::new(Geometry::default());
        let (first, class) = (layout.first(), class_for(1280).unwrap());
        let mut allocator = Allocator::new(layout, first, first + 100);
        allocator.frontier = first + 100;
        let objects: Vec<Object> = (0..40 * 51).map(|_| allocator.take(class).unwrap()).collect();
        // A few slots of each chunk, more of some.
        let freed = objects.iter().enumerate().filter(|(at, _)| at % 17 < at / 51 % 5);
        let freed: Vec<Object> = freed.map(|(_, object)| *object).collect();
        freed.iter().for_each(|object| allocator.give(*object));
        let mut asked = Vec::new();
        allocator.renewed = None;
        for _ in 0..freed.len() {
            let object = allocator.take(class).unwrap();
            if let Some(class) = allocator.renewed.take() {
                let slots = allocator.next_slots(class);
                assert!(slots.len() < 2 * SLOTS_ASKED, "{} at once", slots.len());
                asked.extend(slots.into_iter().map(|(offset, _)| offset));
            } else if !asked.is_empty() {
                // Not of the chunk that was in use all the time.
                assert!(asked.contains(&object.offset()), "{object:?}");
            }
        }
        let count = asked.len();
        asked.sort_unstable();
        asked.dedup();
        assert_eq!(asked.len(), count, "none twice");
    }
}
