//! Large pages for a pool in memory, where it will be used next.
//!
//! Looking something up in a large pool is quicker with pages of 2 MiB, and whoever is the first to store into
//! one that is there meets no page fault. But to make one takes milliseconds, and whoever touches it meanwhile
//! waits. So they are made above the frontier, where nobody is, by a thread that nobody waits for; what the
//! frontier has passed keeps the pages that it has.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::Pool;

/// A large page.
const PAGE: u64 = 2 << 20;

/// So much above the frontier is to be ready.
const AHEAD: u64 = 4 << 20;

/// Pools of this size and more grow before they are full.
const LARGE: u64 = 64 << 20;

/// How far a pool is ready.
pub(crate) struct Ahead {
    /// Below it pages were made large, or were passed by the frontier before.
    ready: AtomicU64,
}

impl Ahead {
    /// Of a pool that is used up to `frontier`.
    pub(crate) fn new(frontier: u64) -> Ahead {
        Ahead { ready: AtomicU64::new(frontier.next_multiple_of(PAGE)) }
    }

    /// Whether there is less than should be.
    #[inline]
    pub(crate) fn is_short(&self, frontier: u64) -> bool {
        self.ready.load(Ordering::Relaxed) < frontier + AHEAD
    }

    /// Makes ready what should be, as far as the pool reaches, or is let grow.
    pub(crate) fn prepare(&self, pool: &Pool, frontier: u64) {
        let wanted = frontier + AHEAD;
        let mut ready = self.ready.load(Ordering::Relaxed).max(frontier.next_multiple_of(PAGE));
        while ready < wanted {
            if ready + PAGE > pool.region().size() && !pool.grow_ahead(ready + PAGE, LARGE) {
                break;
            }
            pool.region().make_large_pages(ready, PAGE);
            ready += PAGE;
        }
        // What could not be is not tried again.
        self.ready.fetch_max(ready.max(wanted), Ordering::Relaxed);
    }
}
