//! Background work: what is due, and the steps by which it is done.
//!
//! [`Machine`] says what is due: one state at a time, changed under the writer's lock. Each step is a function of
//! its arguments, and knows neither the lock nor the other states; `ledger/upkeep.rs` takes the steps, and
//! `maintain.rs` has the thread that asks for them.

mod collect;
mod machine;
mod mark;
mod scrub;
mod status;
mod wake;

pub(crate) use collect::Collection;
pub(crate) use machine::{Machine, Phase};
pub(crate) use mark::{Found, Marking};
pub(crate) use scrub::Scrubbing;
pub(crate) use status::Status;
pub(crate) use wake::Wake;
