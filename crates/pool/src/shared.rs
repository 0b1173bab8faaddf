//! The allocator behind its lock, which a pool, its sweep and its census share.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};

use tembo_pmem::Frees;
use tembo_pmem::thread::lock;

use crate::allocator::Allocator;
use crate::geometry::Layout;
use crate::{Error, Object};

pub(crate) struct Shared {
    pub(crate) layout: Layout,
    /// The durable frontier, as a chunk: read without the lock.
    frontier: AtomicU32,
    allocator: Mutex<Allocator>,
    frees: Frees,
}

impl Shared {
    pub(crate) fn new(allocator: Allocator, frees: Frees) -> Shared {
        Shared {
            layout: allocator.layout,
            frontier: AtomicU32::new(allocator.frontier),
            allocator: Mutex::new(allocator),
            frees,
        }
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, Allocator> {
        lock(&self.allocator)
    }

    /// Notes that an object whose unlinking has been fenced is about to be free.
    #[inline]
    pub(crate) fn note_free(&self, object: Object) {
        self.frees.note(object.offset(), self.layout.room(object));
    }

    /// The same for objects at any places.
    pub(crate) fn note_free_anywhere(&self) {
        self.frees.note_anywhere();
    }

    /// The same for an object to which nothing on media has ever referred.
    #[inline]
    pub(crate) fn note_unused(&self, object: Object) {
        self.frees.note_unused(object.offset(), self.layout.room(object));
    }

    pub(crate) fn frontier(&self) -> u32 {
        self.frontier.load(Ordering::Acquire)
    }

    pub(crate) fn set_frontier(&self, chunk: u32) {
        self.frontier.store(chunk, Ordering::Release);
    }

    pub(crate) fn valid(&self, object: Object) -> Result<(), Error> {
        self.layout.place(object, self.frontier()).map(|_| ())
    }
}
