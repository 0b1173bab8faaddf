//! Two clocks: what the thread was given of a processor, and what went by on the wall.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Time of the calling thread on a processor since it started.
pub(crate) fn thread_cpu() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

/// A span of time, on both clocks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Elapsed {
    pub(crate) cpu: Duration,
    pub(crate) wall: Duration,
}

/// Both clocks, started.
pub(crate) struct Stopwatch {
    cpu: Duration,
    wall: Instant,
}

impl Stopwatch {
    pub(crate) fn start() -> Stopwatch {
        Stopwatch { wall: Instant::now(), cpu: thread_cpu() }
    }

    pub(crate) fn elapsed(&self) -> Elapsed {
        Elapsed { cpu: thread_cpu().saturating_sub(self.cpu), wall: self.wall.elapsed() }
    }
}

/// More than any processor's caches have.
const EVICTED: usize = 256 << 20;

/// What is read in their place; kept, for the system takes longer to give it than the caches to fill.
static EVICTING: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Takes what the last operations used out of the processor's caches.
pub(crate) fn evict_caches() {
    let mut bytes = EVICTING.lock().unwrap_or_else(PoisonError::into_inner);
    bytes.resize(EVICTED, 0);
    for byte in bytes.iter_mut().step_by(64) {
        *byte = byte.wrapping_add(1);
    }
    std::hint::black_box(&*bytes);
}
