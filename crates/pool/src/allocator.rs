//! The allocator's volatile state: which space is free. Nothing of it is on media; after an open
//! it knows only what it hands out itself, and a sweep teaches it the rest.

use tembo_pmem::Frees;

use crate::Object;
use crate::chunk::{Chunk, NONE, Use};
use crate::class::{CLASS_LAST, size_of_class};
use crate::class_lists::{Choice, ClassLists, grade};
use crate::frontier::first_step;
use crate::geometry::Layout;
use crate::holes::Holes;
use crate::object::GRANULE;
use crate::relief::reserved_chunks;
use crate::runs::Runs;

/// Bytes in a page of the machine.
const PAGE: u64 = 4096;

/// Objects are gathered while more than one part in so many of the pool is free chunks, or can be added to it.
const LEFT: u32 = 8;

/// What the allocator lacks when it cannot serve a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    /// The frontier must first be raised to this chunk, durably.
    Frontier(u32),
    /// The pool must first grow to this chunk.
    Size(u32),
}

/// How far the space below the limit is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Knowledge {
    /// There is no limit: all space is known.
    Whole,
    /// A sweep is due, which has to find out.
    Owed,
    /// A sweep is finding out.
    Sweeping,
}

pub(crate) struct Allocator {
    pub(crate) layout: Layout,
    /// State of the chunks before `top`.
    pub(crate) chunks: Vec<Chunk>,
    pub(crate) classes: Vec<ClassLists>,
    pub(crate) runs: Runs,
    pub(crate) holes: Holes,
    /// The durable frontier, as a chunk.
    pub(crate) frontier: u32,
    /// By how many chunks it may rise next.
    pub(crate) step: u32,
    /// The pool's durable end, as a chunk.
    pub(crate) end: u32,
    /// Where it may end, as far as is known.
    pub(crate) end_max: u32,
    /// Below this chunk nothing is known, nothing is handed out, and what is freed waits.
    pub(crate) limit: u32,
    pub(crate) knowledge: Knowledge,
    /// Space is taken from the lowest free run that has it, not from the one that fits best.
    pub(crate) is_compacting: bool,
    /// The pool is on a disk: objects are [gathered](crate::class_lists).
    pub(crate) gathers: bool,
    /// Pages come from the disk one by one.
    pub(crate) reads_alone: bool,
    /// Says whether free space may be overwritten at once.
    pub(crate) frees: Frees,
    /// The chunk behind the one that was last taken for objects that fill pages.
    behind: u32,
    /// Objects that were freed below the limit.
    pub(crate) freed: Vec<Object>,
    pub(crate) objects: u64,
    /// Bytes that the objects take.
    pub(crate) bytes: u64,
    /// The class that got another chunk last, until a caller takes note of that.
    pub(crate) renewed: Option<u8>,
}

impl Allocator {
    /// `frontier` and `end` are chunks. What lies below the frontier is unknown.
    pub(crate) fn new(layout: Layout, frontier: u32, end: u32) -> Allocator {
        let mut chunks = Vec::new();
        chunks.resize_with(frontier as usize, || Chunk::unused(Use::Unknown));
        let fresh = frontier == layout.first();
        Allocator {
            layout,
            chunks,
            classes: vec![ClassLists::new(); usize::from(CLASS_LAST) + 1],
            runs: Runs::default(),
            holes: Holes::default(),
            frontier,
            step: first_step(layout),
            end,
            end_max: end,
            limit: if fresh { 0 } else { frontier },
            knowledge: if fresh { Knowledge::Whole } else { Knowledge::Owed },
            is_compacting: false,
            gathers: false,
            reads_alone: false,
            frees: Frees::default(),
            behind: 0,
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

    /// Takes an object of a class from its current chunk, if it has one that has room.
    #[inline]
    pub(crate) fn take_current(&mut self, class: u8) -> Option<Object> {
        let current = self.classes[usize::from(class)].current;
        if current == NONE { None } else { self.take_slot(current, class, size_of_class(class)) }
    }

    /// Takes an object of a class if the class has a slot at hand: in the chunk from which it took the last object or, where
    /// the choice of a chunk does not matter, in the next one that has room.
    #[inline]
    pub(crate) fn take_at_hand(&mut self, class: u8) -> Option<Object> {
        let size = size_of_class(class);
        let current = self.classes[usize::from(class)].current;
        if current == NONE {
            // Objects of the class share no chunks, or the class has no current chunk: `take` chooses one.
            return None;
        }
        self.take_slot(current, class, size).or_else(|| self.take_listed(class, size))
    }

    /// Takes an object from another chunk of the class that has room, which becomes the current one.
    #[inline(never)]
    fn take_listed(&mut self, class: u8, size: u64) -> Option<Object> {
        if self.frees.is_logged() {
            // In the `logged` domain `take` chooses a chunk, and has its slots prefetched.
            return None;
        }
        let lists = &mut self.classes[usize::from(class)];
        let chunk = lists.take(&mut self.chunks, Choice::Any)?;
        lists.current = chunk;
        self.take_slot(chunk, class, size)
    }

    #[inline]
    fn take_slot(&mut self, chunk: u32, class: u8, size: u64) -> Option<Object> {
        let granules = self.layout.granules();
        let granule = self.chunks[chunk as usize].take((size / GRANULE) as u32, granules)?;
        self.objects += 1;
        self.bytes += size;
        self.classes[usize::from(class)].live += 1;
        Some(Object::new(self.layout.start(chunk) + u64::from(granule) * GRANULE, class))
    }

    /// From which chunks of a class with room objects are taken. Free chunks are left to other classes where there are few.
    fn choice(&self, class: u8) -> Choice {
        let left = self.spare_chunks() + u64::from(self.end_max.saturating_sub(self.end));
        match self.gathers && !self.is_compacting && left > u64::from(self.end / LEFT) {
            true => Choice::Gathered { slots: self.layout.slots(size_of_class(class)) },
            false => Choice::Any,
        }
    }

    /// Gives a class a current chunk that has room.
    #[cold]
    fn renew(&mut self, class: u8) -> Result<(), Lack> {
        let choice = self.choice(class);
        let fills_pages = self.frees.is_logged() && size_of_class(class) >= PAGE;
        let settled = match fills_pages && !self.is_compacting && !self.reads_alone {
            true => self.take_settled(class, choice)?,
            false => None,
        };
        let lists = &mut self.classes[usize::from(class)];
        let chunk = match settled.or_else(|| lists.take(&mut self.chunks, choice)) {
            Some(chunk) => chunk,
            None => {
                let chunk = self.acquire(1)?;
                self.share(chunk, class);
                chunk
            }
        };
        self.make_current(chunk, class);
        Ok(())
    }

    /// An empty chunk is one of a class from here on.
    fn share(&mut self, chunk: u32, class: u8) {
        let fresh = &mut self.chunks[chunk as usize];
        (fresh.usage, fresh.class) = (Use::Shared, class);
        self.classes[usize::from(class)].chunks += 1;
    }

    fn make_current(&mut self, chunk: u32, class: u8) {
        if self.gathers {
            // Slots that are taken one after the other lie one after the other.
            self.chunks[chunk as usize].free.sort_unstable_by(|one, other| other.cmp(one));
        }
        let full = std::mem::replace(&mut self.classes[usize::from(class)].current, chunk);
        if let Some(full) = self.chunks.get_mut(full as usize) {
            full.is_asked = false;
        }
        self.renewed = Some(class);
    }

    /// Takes an object of a class from any chunk that has room, in a pool that cannot grow. `None`: there is none.
    #[cold]
    pub(crate) fn take_last(&mut self, class: u8) -> Option<Object> {
        let size = size_of_class(class);
        if !self.layout.shares(size) {
            return None;
        }
        let chunk = self.classes[usize::from(class)].take(&mut self.chunks, Choice::Any)?;
        self.make_current(chunk, class);
        self.take_slot(chunk, class, size)
    }

    /// Free slots that the next `count` objects of the class will take, each with its size, except those that a call has
    /// named before.
    pub(crate) fn next_slots(&mut self, class: u8, count: usize) -> Vec<(u64, u64)> {
        let size = size_of_class(class);
        let choice = self.choice(class);
        let lists = &mut self.classes[usize::from(class)];
        let chunks = lists.fill_queue(&mut self.chunks, choice, count);
        let slots = chunks.into_iter().flat_map(|index| {
            let start = self.layout.start(index);
            let free = self.chunks[index as usize].free.iter().rev();
            free.map(move |granule| (start + u64::from(*granule) * GRANULE, size))
        });
        slots.collect()
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

    /// Takes a chunk all of whose free space may be overwritten at once: a chunk of the class, else an empty one, preferably
    /// the one behind the last, else one that was never used. `None`: there is none. The pool does not grow for this.
    fn take_settled(&mut self, class: u8, choice: Choice) -> Result<Option<u32>, Lack> {
        let (layout, frees) = (self.layout, &self.frees);
        let is_settled = |chunk| frees.is_settled(layout.start(chunk), layout.chunk_size());
        let lists = &mut self.classes[usize::from(class)];
        if let Some(chunk) = lists.take_wanted(&mut self.chunks, choice, is_settled) {
            return Ok(Some(chunk));
        }
        if self.spare_chunks() == 0 {
            return Ok(None);
        }
        let chunk = match self.runs.take_wanted(self.behind, is_settled) {
            Some(chunk) => {
                self.holes.remove(chunk, 1);
                chunk
            }
            None => match self.take_top(1) {
                Err(Lack::Size(_)) => return Ok(None),
                taken => taken?,
            },
        };
        self.behind = chunk + 1;
        self.share(chunk, class);
        Ok(Some(chunk))
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
            self.holes.remove(start, count);
            return Ok(start);
        }
        match self.take_top(count) {
            Err(_) if self.trim() => self.acquire(count),
            taken => taken,
        }
    }

    /// Takes `count` chunks that were never handed out, or have come back to the end.
    fn take_top(&mut self, count: u32) -> Result<u32, Lack> {
        let top = self.top();
        if self.frontier - top >= count {
            let usage = || Chunk::unused(Use::Free);
            self.chunks.resize_with((top + count) as usize, usage);
            self.holes.remove(top, count);
            return Ok(top);
        }
        let needed = top.saturating_add(count);
        Err(if needed <= self.end { Lack::Frontier(needed) } else { Lack::Size(needed) })
    }

    /// Gives back the empty current chunks of all classes. Returns whether there were any.
    pub(crate) fn trim(&mut self) -> bool {
        let mut any = false;
        for class in 0..self.classes.len() {
            let current = self.classes[class].current;
            if current != NONE && self.chunks[current as usize].live == 0 {
                self.classes[class].current = NONE;
                self.classes[class].chunks -= 1;
                self.release(current, 1);
                any = true;
            }
        }
        any
    }

    /// Gives an object back. An object below the limit waits for the sweep to finish.
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
                self.classes[usize::from(object.class())].live -= 1;
                if chunk.listed == NONE || chunk.live == 0 || self.gathers {
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
        let chunk = &mut self.chunks[index as usize];
        if lists.current == index || chunk.is_asked || (chunk.is_leaving && chunk.live > 0) {
            return;
        }
        let (is_listed, is_empty) = (chunk.listed != NONE, chunk.live == 0);
        let grade = grade_in(self.layout, self.gathers, chunk);
        if is_listed && !is_empty && chunk.grade == grade {
            return;
        }
        if is_listed {
            lists.remove(&mut self.chunks, index);
        }
        if is_empty {
            lists.chunks -= 1;
            self.release(index, 1);
        } else {
            lists.add(&mut self.chunks[index as usize], index, grade);
        }
    }

    /// Puts a chunk of a class that has room, and is in no list, among the others.
    pub(crate) fn list(&mut self, index: u32) {
        let chunk = &mut self.chunks[index as usize];
        let grade = grade_in(self.layout, self.gathers, chunk);
        self.classes[usize::from(chunk.class)].add(chunk, index, grade);
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
    /// Chunks without objects that the calling thread may take, without empty current chunks.
    pub(crate) fn spare_chunks(&self) -> u64 {
        let spare = self.runs.total() + u64::from(self.end - self.top());
        spare.saturating_sub(reserved_chunks(self.end).into())
    }

    /// Bytes known to be free that the calling thread may take, including those in chunks with objects.
    pub(crate) fn free_bytes(&self) -> u64 {
        let known = self.layout.start(self.end - self.limit.max(self.layout.first()));
        (known - self.bytes).saturating_sub(self.layout.start(reserved_chunks(self.end)))
    }
}

impl Allocator {
    /// From here on takes nothing from chunks with objects, until one of these objects is freed.
    pub(crate) fn set_aside(&mut self) {
        self.trim();
        self.classes.iter_mut().for_each(|class| class.clear(&mut self.chunks));
    }

    /// Forgets all known free space: a sweep will find it again.
    pub(crate) fn forget(&mut self) {
        self.limit = self.top();
        self.classes.iter_mut().for_each(|class| class.clear(&mut self.chunks));
        self.classes.iter_mut().for_each(|class| (class.live, class.chunks) = (0, 0));
        self.runs = Runs::default();
        (self.objects, self.bytes) = (0, 0);
    }

    /// Takes over what a sweep has learnt of the chunks from `lower` to the limit, which falls to
    /// `lower`. The caller goes from the top down, so that a body is known before its head can be freed.
    pub(crate) fn remember(&mut self, lower: u32, learnt: Vec<Chunk>) {
        let granules = self.layout.granules();
        self.limit = lower;
        let mut run = (lower, 0);
        for (index, chunk) in (lower..).zip(learnt) {
            let size = size_of_class(chunk.class);
            let step = (size / GRANULE) as u32;
            self.objects += u64::from(chunk.live);
            self.bytes += u64::from(chunk.live) * self.layout.footprint(size);
            let usage = chunk.usage;
            let has_room = !chunk.free.is_empty() || chunk.bump + step <= granules;
            if usage == Use::Shared {
                let lists = &mut self.classes[usize::from(chunk.class)];
                lists.live += u64::from(chunk.live);
                lists.chunks += 1;
            }
            self.chunks[index as usize] = chunk;
            match usage {
                Use::Free if run.0 + run.1 == index => run.1 += 1,
                Use::Free => {
                    self.give_run(run);
                    run = (index, 1);
                }
                Use::Shared if has_room => self.list(index),
                _ => {}
            }
        }
        self.give_run(run);
    }

    fn give_run(&mut self, (start, count): (u32, u32)) {
        if count > 0 {
            self.release(start, count);
        }
    }
}

/// The grade of a chunk that has room. Where objects are not gathered, all chunks are alike.
fn grade_in(layout: Layout, gathers: bool, chunk: &Chunk) -> u8 {
    if gathers { grade(chunk, layout.slots(size_of_class(chunk.class))) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Geometry;
    use crate::class::class_for;
    use crate::class_lists::SLOTS_ASKED;
    use crate::holes::{Measure, Spare};

    #[test]
    fn what_is_at_hand_is_what_would_be_taken_next_and_takes_no_empty_chunk() {
        let layout = Layout::new(Geometry::default());
        let (first, class) = (layout.first(), class_for(192).unwrap());
        let mut allocator = Allocator::new(layout, first, first + 4);
        allocator.frontier = first + 4;
        assert_eq!(allocator.take_at_hand(class), None, "no object was taken");
        let mut taken = vec![allocator.take(class).unwrap()];
        let top = allocator.top();
        while let Some(object) = allocator.take_at_hand(class) {
            taken.push(object);
        }
        assert_eq!((allocator.top(), taken.len()), (top, layout.slots(192) as usize));
        assert_eq!(allocator.objects, taken.len() as u64);
        allocator.give(taken[7]);
        assert_eq!(allocator.take_at_hand(class), Some(taken[7]));
        taken.sort_unstable();
        taken.dedup();
        assert_eq!(taken.len(), layout.slots(192) as usize);
        let large = class_for(layout.chunk_size()).unwrap();
        assert!(allocator.take(large).is_ok() && allocator.take_at_hand(large).is_none());
        // Of two full chunks the first has a slot again, and then the second.
        let other = allocator.take(class).unwrap();
        while allocator.take_at_hand(class).is_some() {}
        let top = allocator.top();
        allocator.give(taken[3]);
        assert_eq!(allocator.take_at_hand(class), Some(taken[3]));
        allocator.give(other);
        assert_eq!(allocator.take_at_hand(class), Some(other));
        assert_eq!((allocator.take_at_hand(class), allocator.top()), (None, top));
    }

    /// An allocator that gathers, with room for so many chunks, and objects of a class that fill `chunks` of them.
    fn gathering(class: u8, room: u32, chunks: usize) -> (Allocator, Vec<Object>) {
        let layout = Layout::new(Geometry::default());
        let first = layout.first();
        let mut allocator = Allocator::new(layout, first, first + room);
        (allocator.frontier, allocator.gathers) = (first + room, true);
        let count = chunks * layout.slots(size_of_class(class)) as usize;
        let live = (0..count).map(|_| allocator.take(class).unwrap()).collect();
        (allocator, live)
    }

    /// Replaces objects, each chosen at random; how many chunks that took.
    fn replace(allocator: &mut Allocator, live: &mut [Object], rounds: usize) -> usize {
        let (mut state, mut renewals) = (7_u64, 0);
        for _ in 0..rounds {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let at = (state >> 33) as usize % live.len();
            let new = allocator.take(live[at].class()).unwrap();
            let old = std::mem::replace(&mut live[at], new);
            allocator.give(old);
            if let Some(class) = allocator.renewed.take() {
                renewals += 1;
                let _ = allocator.next_slots(class, SLOTS_ASKED);
            }
        }
        renewals
    }

    #[test]
    fn gathered_objects_come_many_to_a_chunk_and_fill_two_thirds_of_the_chunks() {
        let class = class_for(1280).unwrap();
        let (mut allocator, mut live) = gathering(class, 1000, 100);
        replace(&mut allocator, &mut live, 50_000);
        let rounds = 50_000;
        let renewals = replace(&mut allocator, &mut live, rounds);
        let used = (allocator.top() - allocator.layout.first()) as usize;
        assert!(used <= 150 + 4, "{used} chunks for what fills 100");
        // More than half of a chunk each time: of 51 slots 28.
        assert!(renewals * 28 <= rounds, "{renewals} chunks for {rounds} slots");
        let lists = &allocator.classes[usize::from(class)];
        assert_eq!((lists.live, lists.chunks as usize), (live.len() as u64, used));
        // All is found again, and a pool that cannot grow has what there is.
        let mut numbers: Vec<u64> = live.iter().map(|object| object.offset()).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), live.len());
        (allocator.frontier, allocator.end) = (allocator.top(), allocator.top());
        while let Some(object) = allocator.take(class).ok().or_else(|| allocator.take_last(class)) {
            live.push(object);
        }
        let shared = allocator.chunks.iter().filter(|chunk| chunk.usage == Use::Shared);
        let slots = allocator.layout.slots(1280);
        assert!(shared.into_iter().all(|chunk| chunk.live == slots));
        live.into_iter().for_each(|object| allocator.give(object));
        allocator.trim();
        assert!(allocator.objects == 0 && allocator.bytes == 0);
        let lists = &allocator.classes[usize::from(class)];
        assert_eq!((lists.live, lists.chunks), (0, 0));
    }

    #[test]
    fn free_chunks_are_left_to_other_classes_where_there_are_few() {
        let (class, other) = (class_for(1280).unwrap(), class_for(320).unwrap());
        for (room, can_grow, used_most) in [(125, false, 112), (110, false, 101), (110, true, 110)]
        {
            let (mut allocator, mut live) = gathering(class, room, 100);
            allocator.end_max = allocator.end + if can_grow { 1000 } else { 0 };
            for _ in 0..50_000 {
                let Ok(new) = allocator.take(class) else { break };
                let at = new.offset() as usize * 31 % live.len();
                let old = std::mem::replace(&mut live[at], new);
                allocator.give(old);
            }
            let used = allocator.top() - allocator.layout.first();
            assert!(used <= used_most, "{used} chunks of {room}");
            assert_eq!(allocator.take(other).is_ok(), !can_grow);
        }
    }

    #[test]
    fn the_emptiest_chunk_is_taken_first_and_its_slots_in_their_order() {
        let class = class_for(1280).unwrap();
        let (mut allocator, live) = gathering(class, 10, 4);
        let slots = allocator.layout.slots(1280) as usize;
        // Of the first chunk an eighth is free, of the second a half, of the third all but an eighth.
        for (chunk, eighths) in [(0, 1), (1, 4), (2, 7)] {
            let freed = &live[chunk * slots..][..slots * eighths / 8];
            freed.iter().rev().for_each(|object| allocator.give(*object));
        }
        let (top, count) = (allocator.top(), slots * 7 / 8);
        let taken: Vec<Object> = (0..count).map(|_| allocator.take(class).unwrap()).collect();
        assert_eq!(taken, live[2 * slots..][..count]);
        // The objects fill more than two thirds of the chunks: there is another one.
        let next = allocator.take(class).unwrap();
        assert_eq!(allocator.layout.chunk_of(next.offset()), top);
        // With more that go, and that chunk full, it is the turn of the emptiest one again.
        live[3 * slots..].iter().for_each(|object| allocator.give(*object));
        taken.iter().for_each(|object| allocator.give(*object));
        let rest = (1..slots).map(|_| allocator.take(class).unwrap()).count();
        assert_eq!((rest, allocator.take(class).unwrap()), (slots - 1, live[2 * slots]));
    }

    /// Full chunks of a class, of which some objects were freed: a few of each chunk, more of some; and how many.
    fn with_holes(class: u8) -> (Allocator, usize) {
        let layout = Layout::new(Geometry::default());
        let first = layout.first();
        let mut allocator = Allocator::new(layout, first, first + 100);
        allocator.frontier = first + 100;
        let objects: Vec<Object> = (0..40 * 51).map(|_| allocator.take(class).unwrap()).collect();
        let freed = objects.iter().enumerate().filter(|(at, _)| at % 17 < at / 51 % 5);
        let freed: Vec<Object> = freed.map(|(_, object)| *object).collect();
        freed.iter().for_each(|object| allocator.give(*object));
        (allocator, freed.len())
    }

    #[test]
    fn the_slots_of_objects_that_are_taken_together_are_asked_for_at_once() {
        let class = class_for(1280).unwrap();
        let (mut allocator, _) = with_holes(class);
        let count = 200;
        let asked: Vec<u64> =
            allocator.next_slots(class, count).into_iter().map(|(offset, _)| offset).collect();
        for _ in 0..count {
            let object = allocator.take(class).unwrap();
            assert!(asked.contains(&object.offset()), "{object:?}");
        }
        // Those of the last chunk but for a few.
        assert!(asked.len() < count + 51, "{} slots", asked.len());
    }

    #[test]
    fn a_slot_that_is_taken_again_was_asked_for_once_before() {
        let class = class_for(1280).unwrap();
        let (mut allocator, freed) = with_holes(class);
        let mut asked = Vec::new();
        allocator.renewed = None;
        for _ in 0..freed {
            let object = allocator.take(class).unwrap();
            if let Some(class) = allocator.renewed.take() {
                let slots = allocator.next_slots(class, SLOTS_ASKED);
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

    fn all(measure: Measure, allocator: &mut Allocator) -> Vec<(u32, u32)> {
        let mut found = Vec::new();
        loop {
            match allocator.take_spare(measure) {
                Spare::Chunks(start, count) => {
                    found.push((start, count));
                    assert_eq!(allocator.take_spare(measure), Spare::Nothing, "one at a time");
                    assert!(!allocator.put_spare(start, count, true));
                }
                Spare::More => {}
                Spare::Nothing => return found,
            }
        }
    }

    #[test]
    fn free_chunks_are_given_back_once_until_they_were_used_again() {
        let layout = Layout::new(Geometry::default());
        let first = layout.first();
        let mut allocator = Allocator::new(layout, first, first + 100);
        allocator.frontier = first + 100;
        let class = class_for(layout.chunk_size()).unwrap();
        let objects: Vec<_> = (0..60).map(|_| allocator.take(class).unwrap()).collect();
        for (at, object) in objects.iter().enumerate() {
            if (10..30).contains(&at) || (40..42).contains(&at) {
                allocator.give(*object);
            }
        }
        let some = Measure { least: 4, most: 16, kept: 10, begin: 30 };
        let mut given = all(some, &mut allocator);
        let sum = |given: &[(u32, u32)]| given.iter().map(|(_, count)| count).sum::<u32>();
        // Of 62 free ones, the two that lie alone are too few, and some are kept.
        assert!((50..=53).contains(&sum(&given)), "{given:?}");
        assert!(given.iter().all(|(_, count)| (4..=16).contains(count)), "{given:?}");
        given.sort_unstable();
        assert!(given.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "{given:?}");
        assert_eq!(allocator.top(), first + 60);
        // What begins is less than what was once enough to begin.
        assert!(all(some, &mut allocator).is_empty());
        let rest = Measure { least: 1, most: 100, kept: 0, begin: 0 };
        assert_eq!(sum(&all(rest, &mut allocator)), 62 - sum(&given));
        // A chunk that was used is no hole any more.
        let again: Vec<_> = (0..3).map(|_| allocator.take(class).unwrap()).collect();
        again.iter().for_each(|object| allocator.give(*object));
        assert_eq!(sum(&all(rest, &mut allocator)), 3);
        objects[..10].iter().chain(&objects[30..40]).for_each(|object| allocator.give(*object));
        assert_eq!(sum(&all(rest, &mut allocator)), 20);
    }

    #[test]
    fn a_sweep_waits_for_what_is_out() {
        let layout = Layout::new(Geometry::default());
        let first = layout.first();
        let mut allocator = Allocator::new(layout, first, first + 8);
        allocator.frontier = first + 8;
        let rest = Measure { least: 1, most: 100, kept: 0, begin: 0 };
        assert_eq!(allocator.take_spare(rest), Spare::Chunks(first, 8));
        assert!(allocator.holes.is_busy);
        allocator.holes.has_refused = true;
        assert!(allocator.put_spare(first, 8, false));
        assert_eq!(allocator.top(), first);
        allocator.knowledge = Knowledge::Owed;
        assert_eq!(allocator.take_spare(rest), Spare::Nothing);
    }
}
