//! When space was last freed: what may be overwritten in the pool file, and what not yet.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    /// How often the thread has freed space.
    static FREED: Cell<u64> = const { Cell::new(0) };
}

/// Where the allocator of a region says that space is free. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Frees {
    marks: Arc<Marks>,
}

#[derive(Debug, Default)]
struct Marks {
    /// Sequence of the group of the log that will be appended next.
    next: AtomicU64,
    /// The same when space was last freed.
    freed: AtomicU64,
}

impl Frees {
    /// Of a log whose groups before `next` are durable.
    pub(crate) fn new(next: u64) -> Frees {
        let marks = Marks { next: AtomicU64::new(next), freed: AtomicU64::new(next) };
        Frees { marks: Arc::new(marks) }
    }

    /// Space is free that was not: to be called when its unlinking has been fenced, and before it is used again.
    #[inline]
    pub fn note(&self) {
        FREED.set(FREED.get() + 1);
        let next = self.marks.next.load(Ordering::Acquire);
        if self.marks.freed.load(Ordering::Acquire) < next {
            self.marks.freed.fetch_max(next, Ordering::AcqRel);
        }
    }

    /// How often the calling thread has freed space. What it has written and not fenced may be among it, and another
    /// thread's by now.
    pub(crate) fn count_here() -> u64 {
        FREED.get()
    }

    /// Space is free again to which nothing on media has referred since it was taken: there was no unlinking.
    #[inline]
    pub fn note_unused(&self) {
        FREED.set(FREED.get() + 1);
    }

    /// Group `next` will be appended next.
    pub(crate) fn appended(&self, next: u64) {
        self.marks.next.store(next, Ordering::Release);
    }

    /// All that was fenced before the call is in groups before this one.
    pub(crate) fn next(&self) -> u64 {
        self.marks.next.load(Ordering::Acquire)
    }

    /// All that was noted as free was unlinked by groups before this one.
    pub(crate) fn freed(&self) -> u64 {
        self.marks.freed.load(Ordering::Acquire)
    }
}
