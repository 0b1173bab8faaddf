//! Threads that change and read one NV-Tree, or one store, at the same time, and what a crash leaves of that.
//!
//! A scheduler is not part of it: a test gives the recorder, and lets the threads of a [`Run`] take
//! turns as it likes. What it hands back is judged twice. *As it went*: what the calls have returned, and what
//! is there at the end, must be explained by some order of the calls in which each takes effect between
//! its begin and its return (linearisability: Herlihy, Wing, TOPLAS 1990). *As a crash leaves it*: the
//! events, each with its own thread, whose fences guarantee only what the thread itself has flushed, go
//! through the explorer; what an image shows must be explained in the same way, with every call that had returned,
//! and of the others each whole or not at all (durable linearisability: Izraelevitz, Mendes, Scott, DISC
//! 2016). A read that has returned counts as well: what it has seen must still be there.

mod execution;
mod fixture;
mod order;
mod plan;
mod run;
mod start;

pub use execution::Execution;
pub use plan::{Call, Cast, Plan, Sight};
pub use run::Run;
pub use start::Start;
