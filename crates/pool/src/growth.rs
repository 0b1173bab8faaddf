//! How a pool gets more space: the frontier is raised, and where it reaches the end the pool grows.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use tembo_pmem::Region;
use tembo_pmem::thread::lock;

use crate::Error;
use crate::allocator::{Allocator, Knowledge};
use crate::format::{SUPERBLOCK, Sealed, Superblock};
use crate::frontier::frontier_step;
use crate::geometry::Layout;
use crate::shared::Shared;
use crate::superblock::seal_offset;

/// Pools with chunks of 64 KiB and more grow by at least this many bytes.
const GROWTH_STEP_MIN: u64 = 16 << 20;

/// Pools in memory grow by this many bytes. A thread waits while these bytes are made, which takes well below a
/// millisecond, and their syncs cost nothing.
const GROWTH_STEP_IN_MEMORY: u64 = 256 << 10;

/// A pool in a file that has so many bytes grows before it is full: when fewer than these are left.
const EARLY: u64 = 8 << 20;
const EARLY_FROM: u64 = 64 << 20;

const FRONTIER_WORD: u64 = SUPERBLOCK + std::mem::offset_of!(Superblock, frontier) as u64;

/// How far a pool may grow.
pub(crate) struct Growth {
    one_at_a_time: Mutex<()>,
    size_max: u64,
    /// Whether little is left.
    is_due: AtomicBool,
}

impl Growth {
    /// The growth of a pool to at most so many bytes.
    pub(crate) fn new(size_max: u64) -> Growth {
        Growth { one_at_a_time: Mutex::new(()), size_max, is_due: AtomicBool::new(false) }
    }

    /// Where the pool ends at most, as a chunk.
    pub(crate) fn end_max(&self, layout: Layout) -> u32 {
        layout.chunks_in(self.size_max)
    }

    /// Whether a pool in a file is to grow, so that no operation waits for it.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.is_due.load(Ordering::Relaxed)
    }

    /// Notes how much is left when a chunk was taken that was never used.
    pub(crate) fn note_left(&self, region: &Region, allocator: &Allocator) {
        let layout = allocator.layout;
        let is_little = allocator.spare_chunks() < u64::from(layout.chunks_for(EARLY));
        let may_grow = allocator.end < allocator.end_max;
        let is_large = layout.start(allocator.end) >= EARLY_FROM && !region.is_emulated();
        if is_little && may_grow && is_large && allocator.knowledge == Knowledge::Whole {
            self.is_due.store(true, Ordering::Relaxed);
        }
    }

    /// Grows a pool that is [due](Growth::is_due), by a step.
    pub(crate) fn grow_early(&self, region: &Region, shared: &Shared) {
        let needed = shared.lock().end.saturating_add(1);
        // If that fails, the thread that needs the space tries it again, and has the error.
        let _ = self.grow_to(region, shared, needed, 0);
        self.is_due.store(false, Ordering::Relaxed);
    }

    /// Raises the frontier to the chunk `needed` or further, at most to the pool's end. Durable
    /// when it returns.
    pub(crate) fn raise_frontier(
        &self,
        region: &Region,
        shared: &Shared,
        allocator: &mut Allocator,
        needed: u32,
    ) -> Result<(), Error> {
        let layout = allocator.layout;
        let step = allocator.step.min(frontier_step(layout, allocator.end));
        let raised = needed.max(allocator.frontier.saturating_add(step)).min(allocator.end);
        let superblock = Superblock::of(region)?;
        let size = seal_offset(Sealed::Size, layout.start(allocator.end));
        if superblock.size.load() != size {
            // ORDER: the region's own size was durable before `end` rose. This word lies in the
            // frontier's line and is stored before it, so it is durable with it.
            region.commit("pool.size.raise", &superblock.size, size);
        }
        let word = seal_offset(Sealed::Frontier, layout.start(raised));
        // ORDER: after the size that covers it: same line, store order.
        region.commit("pool.frontier.raise", &superblock.frontier, word);
        // ORDER: the frontier is durable before anything above it is handed out.
        region.flush("pool.frontier.flush", FRONTIER_WORD, 8);
        // ORDER: as above.
        region.fence("pool.frontier.fence");
        allocator.frontier = raised;
        allocator.step = step.saturating_mul(2);
        shared.set_frontier(raised);
        Ok(())
    }

    /// Grows a pool of `large` bytes or more to `size`. Returns whether it has so many bytes.
    pub(crate) fn grow_before(
        &self,
        region: &Region,
        shared: &Shared,
        size: u64,
        large: u64,
    ) -> bool {
        if region.size() < large.max(size / 2) {
            return false;
        }
        let needed = shared.layout.chunks_in(size);
        self.grow_to(region, shared, needed, 0).is_ok() && region.size() >= size
    }

    /// Grows the pool until the chunk before `needed` is part of it; `size` is what was asked for.
    /// Durable when it returns, because the region's growth is. Others go on allocating meanwhile.
    pub(crate) fn grow_to(
        &self,
        region: &Region,
        shared: &Shared,
        needed: u32,
        size: u64,
    ) -> Result<(), Error> {
        let _one_at_a_time = lock(&self.one_at_a_time);
        let layout = shared.layout;
        let (end, recovering) = {
            let allocator = shared.lock();
            (allocator.end, allocator.knowledge != Knowledge::Whole)
        };
        if end >= needed {
            return Ok(());
        }
        let full = Error::PoolFull { size, recovering };
        let last = self.end_max(layout);
        if needed > last {
            return Err(full);
        }
        let (bytes, chunk) = (layout.start(end), layout.chunk_size());
        let step = if region.is_emulated() {
            GROWTH_STEP_IN_MEMORY.min(chunk * chunk / 64)
        } else {
            (bytes / 4).max(GROWTH_STEP_MIN.min(chunk * chunk / 64))
        };
        let wanted = needed.max(end.saturating_add(layout.chunks_for(step))).min(last);
        let grown = match region.grow(layout.start(wanted)) {
            Ok(()) => wanted,
            Err(_) if wanted > needed && region.grow(layout.start(needed)).is_ok() => needed,
            Err(_) if recovering => return Err(full),
            Err(tembo_pmem::Error::Fault(_)) => return Err(full),
            Err(error) => return Err(error.into()),
        };
        // The superblock's size follows with the next frontier. If a crash comes before, the next open adopts the region's
        // size.
        shared.lock().end = grown;
        Ok(())
    }
}
