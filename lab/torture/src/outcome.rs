//! How far an exploration goes, and what came of it.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::Target;

/// How far an exploration goes.
#[derive(Clone, Copy)]
pub struct Effort<'a> {
    /// The seed of the random numbers.
    pub seed: u64,
    /// Images after which it ends; the workloads may end before.
    pub images_max: u64,
    /// Only the workload of that name, as a violation has it.
    pub workload: Option<&'a str>,
    /// Called now and then with the number of images judged so far; returns false to end the exploration.
    pub progress: &'a (dyn Fn(u64) -> bool + Sync),
}

impl Effort<'_> {
    /// An exploration of so many images from that seed on, without progress reports.
    pub fn of(seed: u64, images_max: u64) -> Effort<'static> {
        Effort { seed, images_max, workload: None, progress: &|_| true }
    }
}

/// What an exploration found.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was explored.
    pub target: Target,
    /// Images judged.
    pub images: u64,
    /// Images that differ in what recovery and oracle read.
    pub distinct: u64,
    /// How long it took.
    pub elapsed: Duration,
    /// Names of the steps that were done.
    pub steps: BTreeSet<&'static str>,
    /// The first thing that was wrong; the exploration ended there.
    pub violation: Option<Violation>,
}

/// Something that must not be.
#[derive(Clone, Debug)]
pub struct Violation {
    /// What was wrong, with the operations and the crash point.
    pub what: String,
    /// The workload that showed it.
    pub workload: String,
    /// Arguments of `tembo-lab crashtest` that show it again.
    pub replay: String,
}
