//! Shrinking: a pool that is closed gives free space at its end back to the file system.
//!
//! ```text
//!   frontier, then size, in one line of the superblock ──► the region's own size ──► the file is cut
//! ```
//! If it is interrupted between two of these, the region is larger than the superblock says, or the file is larger than the
//! region. An interrupted growth leaves the same, and the next open adopts it.

use tembo_pmem::Region;

use crate::Error;
use crate::allocator::Knowledge;
use crate::format::{SUPERBLOCK, Sealed, Superblock};
use crate::shared::Shared;
use crate::superblock::seal_offset;

/// Least number of chunks that a pool keeps.
const CHUNKS_MIN: u32 = 16;

/// Lowers frontier and size to the end of the used space. Returns the size in bytes. `None`: there is nothing to give back,
/// or a sweep has still to find out. Fenced when it returns. From here on the pool can only be closed.
pub(crate) fn lower(region: &Region, shared: &Shared) -> Result<Option<u64>, Error> {
    let mut allocator = shared.lock();
    let layout = allocator.layout;
    if allocator.knowledge != Knowledge::Whole {
        return Ok(None);
    }
    allocator.trim();
    let end = allocator.top().max(layout.first() + CHUNKS_MIN);
    if end >= allocator.end {
        return Ok(None);
    }
    let _section = region.reserve(1)?;
    let superblock = Superblock::of(region)?;
    let frontier = layout.start(end.min(allocator.frontier));
    // ORDER: before the size: same line, store order. No frontier lies above the size.
    region.commit(
        "pool.shrink.frontier",
        &superblock.frontier,
        seal_offset(Sealed::Frontier, frontier),
    );
    // ORDER: after the frontier, as above.
    region.commit(
        "pool.shrink.size",
        &superblock.size,
        seal_offset(Sealed::Size, layout.start(end)),
    );
    // ORDER: durable before the region's own size: a region that is smaller than its pool is damage.
    region.flush("pool.shrink.flush", SUPERBLOCK + 64, 24);
    // ORDER: as above.
    region.fence("pool.shrink.fence");
    (allocator.frontier, allocator.end) = (end.min(allocator.frontier), end);
    shared.set_frontier(allocator.frontier);
    Ok(Some(layout.start(end)))
}
