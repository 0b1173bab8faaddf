//! Evacuation: chunks that few objects share become empty, because a tenant moves its objects elsewhere.
//!
//! The objects of the emptiest chunks of a class move to free slots in its other chunks, as long as there is room. Live objects
//! then fill at least four fifths of the chunks of their class, except one chunk and objects that cannot be moved. When no
//! chunk is so sparse any more, chunks are emptied that lie behind the place where the pool would end if it had no gaps.

use crate::allocator::{Allocator, Knowledge};
use crate::chunk::{Chunk, Use};
use crate::class::size_of_class;
use crate::geometry::Layout;
use crate::object::GRANULE;
use crate::{Object, Pool};

/// A chunk is emptied if fewer than so many in five of its slots are taken.
const DENSE: u64 = 4;
const OF: u64 = 5;

/// Chunks are ordered by how full they are, in so many grades; chunks of one grade by where they lie.
const GRADES: u64 = 16;

/// Chunks whose objects are to be moved elsewhere: see [`Pool::begin_evacuation`](crate::Pool::begin_evacuation).
#[derive(Clone, Debug)]
pub struct Evacuation {
    layout: Layout,
    /// A bit for each chunk.
    bits: Vec<u64>,
    chunks: u32,
}

impl Evacuation {
    /// Whether an object lay in one of these chunks when they were chosen. A chunk that has become empty since is used again.
    #[inline]
    pub fn has(&self, object: Object) -> bool {
        let chunk = self.layout.chunk_of(object.offset());
        let word = self.bits.get(chunk as usize / 64);
        word.is_some_and(|word| word >> (chunk % 64) & 1 == 1)
    }

    /// How many chunks there are.
    pub fn chunks(&self) -> u64 {
        self.chunks.into()
    }
}

impl Pool {
    /// Begins a pass of a compaction: from here on objects go to the lowest free chunks, and not to chunks with objects,
    /// until one of these is freed. So objects that are written anew lie close together, and the end of the pool
    /// becomes free.
    pub fn begin_compaction(&self) {
        let mut allocator = self.space.shared.lock();
        allocator.is_compacting = true;
        allocator.set_aside();
    }

    /// Ends a compaction: objects go where they fit best.
    pub fn end_compaction(&self) {
        self.space.shared.lock().end_compaction();
    }

    /// Begins an evacuation by a tenant that can move its objects: chunks that few objects share are to become empty, or, if
    /// there are none, chunks behind the place where a pool without gaps would end. Until [`end_evacuation`](Pool::end_evacuation)
    /// objects go to other chunks that have room, or to the lowest free ones. `None`: a sweep is owed or running.
    pub fn begin_evacuation(&self) -> Option<Evacuation> {
        self.space.shared.lock().begin_evacuation()
    }

    /// Ends an evacuation: objects go where they fit best, and chunks that have not become empty are used again.
    pub fn end_evacuation(&self) {
        self.space.shared.lock().end_evacuation();
    }
}

impl Allocator {
    /// Chooses the chunks that are to be emptied. From here on objects are taken from other chunks that have room, or from
    /// the lowest free ones. `None`: a sweep is owed or running.
    pub(crate) fn begin_evacuation(&mut self) -> Option<Evacuation> {
        if self.knowledge != Knowledge::Whole {
            return None;
        }
        self.is_compacting = true;
        self.set_aside();
        let leaving = self.sparse().or_else(|| self.behind());
        let mut found = Evacuation { layout: self.layout, bits: Vec::new(), chunks: 0 };
        for index in leaving.unwrap_or_default() {
            self.chunks[index as usize].is_leaving = true;
            found.bits.resize((index as usize / 64 + 1).max(found.bits.len()), 0);
            found.bits[index as usize / 64] |= 1 << (index % 64);
            found.chunks += 1;
        }
        self.list_all();
        Some(found)
    }

    /// Ends an evacuation. Chosen chunks that have not become empty are used again.
    pub(crate) fn end_evacuation(&mut self) {
        self.chunks.iter_mut().for_each(|chunk| chunk.is_leaving = false);
        self.end_compaction();
    }

    /// From here on takes from all chunks that have room.
    pub(crate) fn end_compaction(&mut self) {
        self.is_compacting = false;
        self.set_aside();
        self.list_all();
    }

    /// Adds all chunks that have room and are not to be emptied to the lists of their classes. No chunk is in a list before.
    fn list_all(&mut self) {
        let (granules, first) = (self.layout.granules(), self.layout.first());
        for index in first.max(self.limit)..self.top() {
            let chunk = &self.chunks[index as usize];
            let size = size_of_class(chunk.class);
            let has_more = || chunk.bump + (size / GRANULE) as u32 <= granules;
            if chunk.usage == Use::Shared
                && !chunk.is_leaving
                && (!chunk.free.is_empty() || has_more())
            {
                self.list(index);
            }
        }
    }

    fn is_sparse(&self, chunk: &Chunk) -> bool {
        chunk.usage == Use::Shared && u64::from(chunk.live) * OF < self.slots(chunk) * DENSE
    }

    /// Slots of a chunk that objects share.
    fn slots(&self, chunk: &Chunk) -> u64 {
        self.layout.slots(size_of_class(chunk.class)).into()
    }

    /// The sparse chunks whose objects have room in others of their class: the emptiest ones first, and among equal ones the
    /// last. `None`: there are none.
    fn sparse(&self) -> Option<Vec<u32>> {
        let mut room = vec![0; self.classes.len()];
        let mut sparse = Vec::new();
        for (at, chunk) in (0..).zip(&self.chunks) {
            if chunk.usage == Use::Shared {
                room[usize::from(chunk.class)] += self.slots(chunk) - u64::from(chunk.live);
                if self.is_sparse(chunk) {
                    let fill = u64::from(chunk.live) * GRADES / self.slots(chunk);
                    sparse.push((fill, std::cmp::Reverse(at)));
                }
            }
        }
        sparse.sort_unstable();
        let mut found = Vec::new();
        for (_, std::cmp::Reverse(at)) in sparse {
            let chunk = &self.chunks[at as usize];
            let room = &mut room[usize::from(chunk.class)];
            // Its own free slots are none from then on, and others are taken.
            if let Some(left) = room.checked_sub(self.slots(chunk)) {
                *room = left;
                found.push(at);
            }
        }
        (!found.is_empty()).then_some(found)
    }

    /// Chunks behind the place where a pool without gaps would end, as many as have room before it. `None`: there are none.
    fn behind(&self) -> Option<Vec<u32>> {
        let mut objects = vec![0; self.classes.len()];
        for chunk in self.chunks.iter().filter(|chunk| chunk.usage == Use::Shared) {
            objects[usize::from(chunk.class)] += u64::from(chunk.live);
        }
        let in_use = (0..).zip(&objects).filter(|(_, objects)| **objects > 0);
        let filled = |(class, objects): (u8, &u64)| {
            objects.div_ceil(self.layout.slots(size_of_class(class)).into())
        };
        let (shared, in_use): (u64, u64) =
            (in_use.clone().map(filled).sum(), in_use.count() as u64);
        let is_run = |chunk: &&Chunk| matches!(chunk.usage, Use::Head | Use::Body);
        let runs = self.chunks.iter().filter(is_run).count() as u64;
        let line = u64::from(self.layout.first()) + runs + shared * OF / DENSE + in_use;
        let line = u32::try_from(line).unwrap_or(u32::MAX);
        let before = |(start, count): (u32, u32)| (start, count.min(line.saturating_sub(start)));
        let mut free: Vec<(u32, u32)> = self.runs.from(0).map(before).collect();
        let mut found = Vec::new();
        for at in (line..self.top()).rev() {
            let chunk = &self.chunks[at as usize];
            let count = match chunk.usage {
                Use::Shared => 1,
                Use::Head => self.layout.chunks_for(size_of_class(chunk.class)),
                _ => continue,
            };
            // As it will be given one: the lowest that has room.
            if let Some(run) = free.iter_mut().find(|(_, room)| *room >= count) {
                (run.0, run.1) = (run.0 + count, run.1 - count);
                found.push(at);
            }
        }
        (!found.is_empty()).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Geometry;
    use crate::class::class_for;

    fn allocator(chunks: u32) -> Allocator {
        let layout = Layout::new(Geometry::default());
        let first = layout.first();
        let mut allocator = Allocator::new(layout, first, first + chunks);
        allocator.frontier = first + chunks;
        allocator
    }

    /// Moves all objects that are to leave; the objects then.
    fn pass(allocator: &mut Allocator, objects: Vec<Object>) -> (Vec<Object>, u64) {
        let leaving = allocator.begin_evacuation().unwrap();
        let mut moved = 0;
        let place = |object: Object| {
            if !leaving.has(object) {
                return object;
            }
            moved += 1;
            let other = allocator.take(object.class()).unwrap();
            allocator.give(object);
            other
        };
        let objects = objects.into_iter().map(place).collect();
        allocator.end_evacuation();
        (objects, moved)
    }

    #[test]
    fn what_is_left_of_many_objects_fills_few_chunks_at_the_beginning() {
        let mut allocator = allocator(400);
        let sizes = [64, 320, 1280];
        let all: Vec<Object> = (0..12_000)
            .map(|at| allocator.take(class_for(sizes[at % 3]).unwrap()).unwrap())
            .collect();
        let (mut state, mut left) = (1_u64, Vec::new());
        for object in all {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if (state >> 40) % 10 == 0 { left.push(object) } else { allocator.give(object) }
        }
        let before = allocator.top();
        for _ in 0..8 {
            let (others, moved) = pass(&mut allocator, left);
            left = others;
            if moved == 0 {
                break;
            }
        }
        let count = |size| left.iter().filter(|object| object.size() == size).count() as u64;
        let least: u64 = sizes
            .iter()
            .map(|size| count(*size).div_ceil(allocator.layout.slots(*size).into()))
            .sum();
        let used = allocator.chunks.iter().filter(|chunk| chunk.usage == Use::Shared).count();
        assert!(used as u64 <= least * OF / DENSE + 3, "{used} chunks for what fills {least}");
        let end = allocator.top() - allocator.layout.first();
        assert!(end <= used as u32 + 5 && before > 6 * end, "{before} {end} {used}");
        // All is as at first: objects go, and chunks come back.
        left.into_iter().for_each(|object| allocator.give(object));
        allocator.trim();
        assert_eq!((allocator.objects, allocator.top()), (0, allocator.layout.first()));
    }

    #[test]
    fn what_cannot_be_moved_keeps_its_chunk_and_the_chunk_is_used_again() {
        let mut allocator = allocator(40);
        let class = class_for(1024).unwrap();
        let slots = allocator.layout.slots(1024);
        let all: Vec<Object> = (0..4 * slots).map(|_| allocator.take(class).unwrap()).collect();
        let is_kept = |at: usize| at as u32 % slots == 7;
        for (_, object) in all.iter().enumerate().filter(|(at, _)| !is_kept(*at)) {
            allocator.give(*object);
        }
        let leaving = allocator.begin_evacuation().unwrap();
        assert_eq!(leaving.chunks(), 3);
        assert!(!leaving.has(allocator.take(class).unwrap()));
        // One goes: its chunk is free. The others stay.
        allocator.give(all[slots as usize + 7]);
        allocator.end_evacuation();
        let layout = allocator.layout;
        let in_chunks: Vec<u32> = (0..4 * slots)
            .map(|_| allocator.take(class).unwrap())
            .map(|object| layout.chunk_of(object.offset()))
            .collect();
        for at in [0, 2, 3] {
            let kept = layout.chunk_of(all[at * slots as usize + 7].offset());
            assert!(in_chunks.contains(&kept), "{kept} of {in_chunks:?}");
        }
    }

    #[test]
    fn nothing_leaves_while_a_sweep_is_owed() {
        let mut allocator = allocator(4);
        allocator.knowledge = Knowledge::Owed;
        assert!(allocator.begin_evacuation().is_none());
    }
}
