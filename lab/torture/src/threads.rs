//! Threads that change and read one NV-Tree, or one store, at the same time, and what a crash leaves of that.
//!
//! Who schedules them is not said here: a test gives the recorder, and lets the threads of a [`Play`] take
//! turns as it likes. What it hands back is judged twice. *As it went*: what the calls have returned, and what
//! is there at the end, must be explained by some order of the calls in which each takes effect between
//! its begin and its return (linearisability: Herlihy, Wing, TOPLAS 1990). *As a crash leaves it*: the
//! events, each with its own thread, whose fences guarantee only what the thread itself has flushed, go
//! through the explorer; what an image shows must be explained in the same way, with every call that had returned,
//! and of the others each whole or not at all (durable linearisability: Izraelevitz, Mendes, Scott, DISC
//! 2016). A read that has returned counts as well: what it has seen must still be there.

mod ground;
mod order;
mod performance;
mod plan;
mod play;

pub use performance::Performance;
pub use plan::{Call, Cast, Plan, Sight};
pub use play::{Play, Stage};
