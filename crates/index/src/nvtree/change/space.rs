//! Reservations that a change makes before its first store.

use tembo_pool::Object;

use crate::nvtree::format::SLOTS_PER_LINE;
use crate::{Error, Forest};

/// Any offset at which a large record may lie.
const ALIGNED: u64 = 1 << 30;

/// Reserves room for an element, and for its record if `size` is not 0.
pub(crate) fn reserve(forest: &Forest, size: u64) -> Result<tembo_pmem::Section<'_>, Error> {
    let pool = forest.pool();
    if size == 0 {
        return Ok(pool.reserve(0, 1)?);
    }
    let size = Object::size_for(size).unwrap_or(size);
    Ok(pool.reserve(size, 1 + lines_of_record(forest, size))?)
}

/// Lines to reserve for a record of that size.
pub(crate) fn lines_of_record(forest: &Forest, size: u64) -> u64 {
    forest.region().write_lines(ALIGNED, size)
}

/// Reserves room for what a change of the structure writes, and for a record if `size` is not 0.
pub(crate) fn reserve_structure(
    forest: &Forest,
    key_len: u64,
    size: u64,
) -> Result<tembo_pmem::Section<'_>, Error> {
    let pool = forest.pool();
    let node_size = u64::from(pool.geometry().node_size);
    let slots = (usize::from(forest.lines) * SLOTS_PER_LINE) as u64;
    // The change can make new leaves, their low keys, and records of keys that lose their prefix.
    let bytes = 2 * node_size + 2 * (key_len + 64) + slots * 128 + size;
    let lines = lines_of_structure(forest) + (key_len / 64 + 4) * 2 + lines_of_record(forest, size);
    Ok(pool.reserve(bytes, lines)?)
}

/// Reserves room for the flushes of a change of the structure that allocates nothing.
pub(crate) fn reserve_lines(forest: &Forest) -> Result<tembo_pmem::Section<'_>, Error> {
    Ok(forest.pool().reserve(0, lines_of_structure(forest))?)
}

/// Lines that a change of the structure flushes, without low keys.
fn lines_of_structure(forest: &Forest) -> u64 {
    let lines = u64::from(forest.lines);
    4 * (lines + 1) + 2 * lines * SLOTS_PER_LINE as u64
}
