//! What threads need beside the standard library's tools, because a fence costs more than all else that a short
//! operation does, and each atomic exchange waits for it.
//!
//! - [`number()`]: a small number for each thread, by which it finds its own place in a table;
//! - [`Latch`]: a biased lock: its owner takes it by a store and a load, beside a fence that is still under way;
//! - [`Apart`]: a value that has its cache lines to itself;
//! - [`EventCount`]: threads and event loops wait until something has happened; to make it happen costs a load;
//! - [`Line`]: threads wait for a lock that is held for some microseconds, of which one looks for it and the others sleep;
//! - [`wait()`], [`park`], [`lock`], [`write()`]: the one place for loops that spin, and for locks that are held across
//!   steps of the waist. A test that schedules threads learns here that one waits.
//!
//! ```text
//!   Latch ──► barrier (membarrier: one thread pays for both)
//!     │
//!     ├─────► number  (is it the owner?)
//!     └─────► wait    (until the other has left)
//!   EventCount ──► barrier, wait
//!   Line ──► wait
//! ```

mod apart;
mod barrier;
mod event_count;
mod latch;
mod line;
mod number;
mod wait;

pub use apart::Apart;
pub use event_count::{EventCount, EventFd};
pub use latch::{Latch, LatchGuard};
pub use line::Line;
pub use number::number;
pub use wait::{lock, park, set_yield, wait, wait_for, write};
