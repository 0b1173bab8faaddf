//! Experiments: ordered indexes side by side, in one interleaved run.
//!
//! A figure of one machine and one hour says little about a program. Here contenders take turns,
//! operation by operation and round after round, and what is told is the ratio of two of them in the
//! same round, in thread CPU time and in wall time, with its spread.
//!
//! [`run()`] compares everything that implements [`Contender`]; the NV-Tree of its paper stands here
//! too ([`nvtree_paper`]), for it is a rival and nothing that a store is built on.

mod clock;
mod contender;
mod drive;
mod error;
mod keys;
pub mod nvtree_paper;
mod operation;
mod outcome;
mod pair;
mod records;
mod run;
mod table;

pub use contender::{Contender, Kind, Shared};
pub use error::Error;
pub use operation::Operation;
pub use outcome::{Cell, Cost, Latency, Outcome, Spread};
pub use pair::Pair;
pub use records::{Rate, Records, records};
pub use run::{Config, Progress, run};
