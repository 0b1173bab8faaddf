//! How full a pool is.

use crate::allocator::{Allocator, Knowledge};

/// A pool's space. The bytes before the data area, `allocated_bytes`, `free_bytes` and
/// `unknown_bytes` add up to `frontier`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes in the pool.
    pub size: u64,
    /// Bytes from the start of the region below which space may have been handed out.
    pub frontier: u64,
    /// Where the data area begins, in bytes.
    pub data_start: u64,
    /// Bytes that the known objects take.
    pub allocated_bytes: u64,
    /// Bytes below the frontier known to be free.
    pub free_bytes: u64,
    /// Bytes of which only a sweep finds out whether they are in use.
    pub unknown_bytes: u64,
    /// Objects known.
    pub objects: u64,
    /// Whether a sweep is owed or running.
    pub recovering: bool,
}

impl Usage {
    pub(crate) fn of(allocator: &Allocator) -> Usage {
        let layout = allocator.layout;
        let data_start = layout.start(layout.first());
        let frontier = layout.start(allocator.frontier);
        let unknown_bytes = layout.start(allocator.limit).saturating_sub(data_start);
        Usage {
            size: layout.start(allocator.end),
            frontier,
            data_start,
            allocated_bytes: allocator.bytes,
            free_bytes: frontier - data_start - unknown_bytes - allocator.bytes,
            unknown_bytes,
            objects: allocator.objects,
            recovering: allocator.knowledge != Knowledge::Whole,
        }
    }
}
