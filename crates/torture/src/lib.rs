//! Workloads, and oracles that judge what a crash leaves of them.
//!
//! `explore` is the one entrance: the command `tembo crashtest`, the tests and `cargo xtask
//! torture` all come through it.

mod outcome;
mod step;
mod steps;
mod target;

pub use outcome::{Effort, Outcome, Violation};
pub use step::{Step, StepKind};
pub use steps::STEPS;
pub use target::{Model, Mutation, Structure, Target, Twist};
