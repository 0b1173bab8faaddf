//! The space of a pool: its region, its allocator, and its growth.

use std::sync::{Arc, MutexGuard};

use tembo_pmem::{Region, Section, Word};

use crate::allocator::{Allocator, Knowledge, Lack};
use crate::class::{CLASS_LAST, class_for, size_of_class};
use crate::class_lists::SLOTS_ASKED;
use crate::frontier::{SMALL_STEPS, frontier_step};
use crate::geometry::Layout;
use crate::growth::Growth;
use crate::prefault::Prefault;
use crate::shared::Shared;
use crate::superblock::Checked;
use crate::{Error, OBJECT_SIZE_MAX, Object, Usage};

/// Lines that raising the frontier flushes beside those of the operation, while it rises by small steps.
const OWN_LINES: u64 = 1 + SMALL_STEPS;

/// Space counts as short if less than one in so many chunks is left.
const SHORT: u32 = 32;

/// Greatest gap between two slots that are asked for in one piece, in bytes.
const GAP: u64 = 8 << 10;

/// Most bytes of slots that are prefetched before the first of them is taken.
const EXPECTED_MAX: u64 = 1 << 20;

/// Where an object was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// In the chunk of the last one, or in chunks of its own.
    Same,
    /// In another chunk of the class.
    OtherChunk,
    /// In a chunk that the pool had not used yet.
    NewChunk,
}

/// The region of a pool, and its allocator.
pub(crate) struct Space {
    pub(crate) region: Region,
    pub(crate) shared: Arc<Shared>,
    growth: Growth,
    prefault: Prefault,
}

impl Space {
    /// The space of a pool whose superblock was checked.
    pub(crate) fn new(region: Region, found: &Checked) -> Space {
        let size_max = region.report().size_max;
        let layout = Layout::new(found.geometry);
        let (frontier, end) = (layout.chunk_of(found.frontier), layout.chunks_in(found.size));
        let mut allocator = Allocator::new(layout, frontier, end);
        allocator.reads_alone = region.reads_alone();
        allocator.frees = region.frees();
        allocator.gathers = allocator.frees.is_logged();
        allocator.end_max = layout.chunks_in(size_max);
        Space {
            shared: Arc::new(Shared::new(allocator, region.frees())),
            region,
            growth: Growth::new(size_max),
            prefault: Prefault::new(found.frontier),
        }
    }

    pub(crate) fn layout(&self) -> Layout {
        self.shared.layout
    }

    /// Whether [`prefault`](Space::prefault) has something to do.
    #[inline]
    pub(crate) fn wants_prefault(&self) -> bool {
        let is_short = || self.prefault.is_short(self.layout().start(self.shared.frontier()));
        self.growth.is_due() || (self.region.is_emulated() && is_short())
    }

    /// Makes pages of the space that will be used next, or a part of the file.
    pub(crate) fn prefault(&self) {
        if self.growth.is_due() {
            self.growth.grow_early(&self.region, &self.shared);
        } else if self.wants_prefault() {
            self.prefault.run(&self.region, &self.shared, &self.growth);
        }
    }

    /// Makes sure, before an operation's first store, that the pool has `bytes` to spare, growing
    /// if it can, and takes room below the waist for `lines` flushed lines.
    ///
    /// It holds the lines, not the bytes: only [`alloc`](crate::Pool::alloc) holds space.
    ///
    /// # Errors
    /// [`Error::PoolFull`]; the region's: disk full, poisoned.
    pub(crate) fn reserve(&self, bytes: u64, lines: u64) -> Result<Section<'_>, Error> {
        let step = self.layout().start(frontier_step(self.layout(), self.shared.frontier()));
        if bytes > 0 {
            self.spare(bytes)?;
        }
        Ok(self.region.reserve(lines + OWN_LINES + bytes / step)?)
    }

    /// Takes space for an object of `size` bytes (0 gives the smallest), whose content is undefined.
    /// Within a [section](crate::Pool::reserve), because the frontier may have to be raised.
    ///
    /// The reservation is volatile: after a crash the object is allocated if something durable
    /// refers to it, and free otherwise.
    ///
    /// # Errors
    /// [`Error::PoolFull`], [`Error::TooLarge`]; the region's, when the pool has to grow.
    #[inline]
    pub(crate) fn alloc(&self, size: u64) -> Result<Object, Error> {
        if let Some(class) = class_for(size)
            && let Some(object) = self.shared.lock().take_current(class)
        {
            return Ok(object);
        }
        self.alloc_elsewhere(size)
    }

    /// As [`alloc`](Space::alloc), of a class whose current chunk has no room, or of an object that shares no chunk.
    #[inline(never)]
    fn alloc_elsewhere(&self, size: u64) -> Result<Object, Error> {
        let (object, next, mut allocator) = self.take(size)?;
        if next == Next::NewChunk && !self.region.writes_beside(object.size()) {
            // Objects of the class will fill the chunk: its pages are prefaulted.
            let start = object.offset() & !(self.layout().chunk_size() - 1);
            drop(allocator);
            self.region.prefault(start, self.layout().chunk_size());
        } else if next == Next::OtherChunk
            && self.region.reads_alone()
            && !self.region.writes_alone(object.size())
        {
            let slots = allocator.next_slots(object.class(), SLOTS_ASKED);
            drop(allocator);
            self.ask_for(slots);
        }
        Ok(object)
    }

    /// Takes space for objects that will be written together, as far as there is some: the pages are not made ready for stores, but
    /// for those of the last chunk behind them.
    pub(crate) fn alloc_together(&self, sizes: impl Iterator<Item = u64>) -> Vec<Object> {
        let (mut objects, mut has_new_chunk) = (Vec::new(), false);
        for size in sizes {
            let Ok((object, next, allocator)) = self.take(size) else { break };
            drop(allocator);
            has_new_chunk |= next == Next::NewChunk;
            objects.push(object);
        }
        if let Some(last) = objects.last().filter(|_| has_new_chunk) {
            // Objects that are stored alone will fill the chunk.
            let end = last.offset() + last.size();
            self.region.will_store(end, end.next_multiple_of(self.layout().chunk_size()) - end);
        }
        objects
    }

    /// Takes an object, and what else has come with it.
    #[inline(always)]
    fn take(&self, size: u64) -> Result<(Object, Next, MutexGuard<'_, Allocator>), Error> {
        let Some(class) = class_for(size) else {
            return Err(Error::TooLarge { size, max: OBJECT_SIZE_MAX });
        };
        let mut allocator = self.shared.lock();
        loop {
            let top = allocator.top();
            match allocator.take(class) {
                Ok(object) => {
                    let next = match allocator.renewed.take() {
                        _ if allocator.top() == top + 1 => Next::NewChunk,
                        Some(_) => Next::OtherChunk,
                        None => Next::Same,
                    };
                    if next != Next::Same {
                        allocator.reads_alone = self.region.reads_alone();
                        self.growth.note_left(&self.region, &allocator);
                    }
                    return Ok((object, next, allocator));
                }
                Err(Lack::Frontier(needed)) => {
                    self.growth.raise_frontier(
                        &self.region,
                        &self.shared,
                        &mut allocator,
                        needed,
                    )?;
                }
                Err(Lack::Size(needed)) => {
                    drop(allocator);
                    let grown = self.growth.grow_to(&self.region, &self.shared, needed, size);
                    allocator = self.shared.lock();
                    // A disk that was full may have room again.
                    allocator.end_max = match grown {
                        Ok(()) => self.growth.end_max(self.layout()),
                        Err(_) => allocator.end,
                    };
                    if let Err(error) = grown {
                        let object = allocator.take_last(class).ok_or(error)?;
                        return Ok((object, Next::OtherChunk, allocator));
                    }
                }
            }
        }
    }

    /// Takes space for an object of `size` bytes if its class has a slot at hand. `None`: the caller needs
    /// [`alloc`](crate::Pool::alloc).
    #[inline]
    pub(crate) fn alloc_at_hand(&self, size: u64) -> Option<Object> {
        let class = class_for(size)?;
        self.shared.lock().take_at_hand(class)
    }

    /// Prefetches together the slots of objects of these sizes, which will soon be taken, where pages come from a disk one by
    /// one.
    pub(crate) fn expect(&self, sizes: impl Iterator<Item = u64>) {
        if !self.region.reads_alone() {
            return;
        }
        let mut counts = [0; CLASS_LAST as usize + 1];
        let are_read = |class: &u8| !self.region.writes_alone(size_of_class(*class));
        sizes
            .filter_map(class_for)
            .filter(are_read)
            .for_each(|class| counts[usize::from(class)] += 1);
        let mut slots = Vec::new();
        let mut allocator = self.shared.lock();
        for (class, count) in (0..).zip(counts).filter(|(_, count)| *count > 0) {
            let most = (EXPECTED_MAX / size_of_class(class)) as usize;
            slots.extend(allocator.next_slots(class, most.min(count)));
        }
        drop(allocator);
        self.ask_for(slots);
    }

    /// Asks the disk for the pages of some slots. These pages have other objects too, so they are read before a slot can be
    /// stored to.
    fn ask_for(&self, slots: Vec<(u64, u64)>) {
        in_runs(slots, |start, len| self.region.will_read(start, len));
    }

    /// Asks for the pages of objects that will be stored to, and for none around them.
    pub(crate) fn will_store(&self, objects: impl Iterator<Item = Object>) {
        let spaces = objects.map(|object| (object.offset(), object.size()));
        in_runs(spaces.collect(), |start, len| self.region.will_store(start, len));
    }

    /// Gives an object's space back. The caller vouches that it is allocated, that its unlinking
    /// has been fenced, and that no reader can still hold it.
    #[inline]
    pub(crate) fn free(&self, object: Object) {
        self.shared.note_free(object);
        self.shared.lock().give(object);
    }

    /// Gives the space of an object back to which nothing on media has referred since it was allocated, and in which the calling
    /// thread has written nothing that it has not fenced.
    #[inline]
    pub(crate) fn free_unused(&self, object: Object) {
        self.shared.note_unused(object);
        self.shared.lock().give(object);
    }

    /// Gives objects back that the calling thread may have written, and to which nothing on media has referred since they were
    /// allocated. What it has flushed is fenced, also where it gives none back.
    #[cold]
    pub(crate) fn give_up(&self, objects: impl IntoIterator<Item = Object>) {
        let objects: Vec<Object> = objects.into_iter().collect();
        objects.iter().for_each(|object| self.shared.note_unused(*object));
        // ORDER: what was written in the space is durable before another thread can take it, which leaves out what it finds there as
        // it wants it.
        self.region.fence_flushed("pool.given_up.fence");
        let mut allocator = self.shared.lock();
        objects.into_iter().for_each(|object| allocator.give(object));
    }

    /// As [`free`](crate::Pool::free), for many objects.
    pub(crate) fn free_all(&self, objects: impl IntoIterator<Item = Object>) {
        let mut objects = objects.into_iter().peekable();
        if objects.peek().is_none() {
            return;
        }
        let mut allocator = self.shared.lock();
        objects.for_each(|object| {
            self.shared.note_free(object);
            allocator.give(object);
        });
    }

    /// Allocates an object, lets `init` write and flush its content, and publishes it in `slot`,
    /// whose word becomes the object's bits. Durable when it returns; interrupted, the object is
    /// whole and published, or free. Two fences.
    ///
    /// # Errors
    /// Those of [`alloc`](crate::Pool::alloc) and of `init`; then nothing is allocated.
    pub(crate) fn alloc_into<E: From<Error>>(
        &self,
        slot: &Word,
        size: u64,
        init: impl FnOnce(&Region, Object) -> Result<(), E>,
    ) -> Result<Object, E> {
        let object = self.alloc(size)?;
        if let Err(error) = init(&self.region, object) {
            self.give_up([object]);
            return Err(error);
        }
        // ORDER: the content, flushed by `init`, is durable before the slot refers to it.
        self.region.fence("pool.alloc_into.content");
        // ORDER: after the content, as above.
        self.region.commit("pool.alloc_into.publish", slot, object.to_bits());
        // ORDER: the slot is durable before the caller says that there is an object.
        self.region.flush("pool.alloc_into.flush", self.region.offset_of(slot), 8);
        // ORDER: as above.
        self.region.fence("pool.alloc_into.fence");
        Ok(object)
    }

    /// Whether an object read from media can be one: its class exists, it lies below the frontier
    /// and where its class is placed. Whether it is allocated only its owner knows.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], [`Error::Misplaced`].
    #[inline]
    pub(crate) fn valid(&self, object: Object) -> Result<(), Error> {
        self.shared.valid(object)
    }

    /// Whether little space is left though a sweep is owed or running that may find more: the next allocation may make the
    /// pool grow because it does not wait for the sweep.
    pub(crate) fn is_short(&self) -> bool {
        self.shared.lock().knowledge != Knowledge::Whole && self.is_low()
    }

    /// Whether little space is left.
    pub(crate) fn is_low(&self) -> bool {
        let allocator = self.shared.lock();
        allocator.spare_chunks() < u64::from(allocator.end / SHORT + 2)
    }

    /// Whether no space is left.
    pub(crate) fn is_exhausted(&self) -> bool {
        let allocator = self.shared.lock();
        allocator.knowledge != Knowledge::Whole && allocator.spare_chunks() == 0
    }

    /// How full the pool is.
    pub(crate) fn usage(&self) -> Usage {
        Usage::of(&self.shared.lock())
    }

    /// Makes sure that `bytes` are free.
    fn spare(&self, bytes: u64) -> Result<(), Error> {
        let (end, spare, free) = {
            let allocator = self.shared.lock();
            (allocator.end, allocator.spare_chunks(), allocator.free_bytes())
        };
        let missing = bytes.div_ceil(self.layout().chunk_size()).saturating_sub(spare);
        if missing == 0 {
            return Ok(());
        }
        let needed = u64::from(end).saturating_add(missing).min(u32::MAX.into());
        match self.growth.grow_to(&self.region, &self.shared, needed as u32, bytes) {
            // There are no free chunks, but chunks with objects have room.
            Err(Error::PoolFull { .. } | Error::Region(tembo_pmem::Error::DiskFull { .. }))
                if free >= bytes =>
            {
                Ok(())
            }
            grown => grown,
        }
    }
}

/// Calls the function with the spaces (offset, size), those that lie near each other in one piece.
fn in_runs(mut spaces: Vec<(u64, u64)>, mut each: impl FnMut(u64, u64)) {
    spaces.sort_unstable();
    let near = |one: &(u64, u64), next: &(u64, u64)| next.0 <= one.0 + one.1 + GAP;
    for run in spaces.chunk_by(near) {
        let (start, (last, size)) = (run[0].0, run[run.len() - 1]);
        each(start, last + size - start);
    }
}
