//! Workloads, and oracles that judge what a crash leaves of them.
//!
//! `explore` is the one entrance: the command `tembo-lab crashtest`, the tests and `cargo xtask
//! torture` all come through it.

pub mod bank;
mod campaign;
mod command;
mod devices;
mod explore;
mod fs;
pub mod fuzz;
mod heap;
pub mod heap_programs;
pub mod history;
mod judge;
mod kv;
mod outcome;
mod pool;
mod pooled;
mod proof;
mod recording;
mod region;
mod seen;
mod server;
pub mod shared;
pub mod soak;
mod stack;
mod stacked;
mod step;
mod steps;
mod stores;
mod subject;
mod target;
pub mod tenants;
pub mod threads;
mod toys;
mod tree;
mod workload;

pub use explore::{OF_THREADS, explore, explore_sequence, harmless, mutations, prove, redundancy};
pub use outcome::{Effort, Outcome, Violation};
pub use step::{Step, StepKind};
pub use steps::STEPS;
pub use tembo_sim::{Done, Random, Redundancy};

pub use target::{Model, Mutation, Structure, Target, Twist};
