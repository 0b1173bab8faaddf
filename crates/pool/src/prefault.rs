//! Large pages for a pool in memory, where it will be used next.
//!
//! A large pool is searched faster with pages of 2 MiB, and the first store into a page that is there
//! meets no page fault. But it takes milliseconds to make such a page, and a thread that touches it meanwhile
//! waits. So a thread of the background makes them above the frontier, which no thread touches. What the
//! frontier has passed keeps the pages that it has.

use std::sync::atomic::{AtomicU64, Ordering};

use tembo_pmem::Region;

use crate::growth::Growth;
use crate::shared::Shared;

/// A large page.
const PAGE: u64 = 2 << 20;

/// Bytes above the frontier that are to be ready.
const PREFAULTED: u64 = 4 << 20;

/// Pools of this size and more grow before they are full.
const LARGE: u64 = 64 << 20;

/// How far the memory of a pool is ready.
pub(crate) struct Prefault {
    /// The offset below which pages were made large, or the frontier has passed them before.
    ready: AtomicU64,
}

impl Prefault {
    /// The state of a pool that is used up to `frontier`.
    pub(crate) fn new(frontier: u64) -> Prefault {
        Prefault { ready: AtomicU64::new(frontier.next_multiple_of(PAGE)) }
    }

    /// Whether less memory is ready than should be.
    #[inline]
    pub(crate) fn is_short(&self, frontier: u64) -> bool {
        self.ready.load(Ordering::Relaxed) < frontier + PREFAULTED
    }

    /// Makes as much memory ready as should be, as far as the pool reaches or may grow.
    pub(crate) fn run(&self, region: &Region, shared: &Shared, growth: &Growth) {
        let frontier = shared.layout.start(shared.frontier());
        let wanted = frontier + PREFAULTED;
        let mut ready = self.ready.load(Ordering::Relaxed).max(frontier.next_multiple_of(PAGE));
        while ready < wanted {
            if ready + PAGE > region.size()
                && !growth.grow_before(region, shared, ready + PAGE, LARGE)
            {
                break;
            }
            region.make_large_pages(ready, PAGE);
            ready += PAGE;
        }
        // Memory that could not be made ready is not tried again.
        self.ready.fetch_max(ready.max(wanted), Ordering::Relaxed);
    }
}
