//! The reserve: space that only removals may take.
//!
//! A removal needs space before it gives any back: an entry that says so, a node written anew because a snapshot keeps
//! the old one, an empty tree in the place of a full one. In a pool that is full to the last byte nothing could be
//! removed. So the last chunks are kept for a thread that says, by a [`Relief`], that what it does makes room.

use std::cell::Cell;
use std::marker::PhantomData;

/// One in so many chunks is kept.
const SHARE: u32 = 16;

/// At most so many chunks are kept.
const CHUNKS_MAX: u32 = 16;

thread_local! {
    /// How many reliefs of the thread live.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// The right of its thread to take the reserve of a pool, while it lives. See [`Pool::relief`](crate::Pool::relief).
#[must_use]
pub struct Relief {
    /// It stays on its thread.
    _thread: PhantomData<*const ()>,
}

impl Relief {
    pub(crate) fn begin() -> Relief {
        DEPTH.set(DEPTH.get() + 1);
        Relief { _thread: PhantomData }
    }
}

impl Drop for Relief {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// Chunks that the calling thread has to leave free, in a pool of `end` chunks.
pub(crate) fn reserved_chunks(end: u32) -> u32 {
    if DEPTH.get() > 0 { 0 } else { (end / SHARE).min(CHUNKS_MAX) }
}
