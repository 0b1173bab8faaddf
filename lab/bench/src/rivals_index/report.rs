//! What a run has found.

use serde::Serialize;

use super::candidate::Candidate;
use super::driver::DriverBuild;
use crate::machine::Machine;
use crate::{Operation, Spread};

/// All figures of a run.
#[derive(Clone, Debug, Serialize)]
pub struct RivalsReport {
    /// The machine, and its load when the run began.
    pub machine: Machine,
    /// The folder of the pools and files.
    pub folder: String,
    /// Rounds, each with structures of its own.
    pub rounds: u32,
    /// Where keys and orders come from.
    pub seed: u64,
    /// What was compiled.
    pub builds: Vec<DriverBuild>,
    /// What is missing, and why.
    pub missing: Vec<NotMeasured>,
    /// How the figures are to be read; then what is left out or added, contender by contender.
    pub notes: Vec<&'static str>,
    /// By keys; strings last.
    pub tables: Vec<RivalTable>,
    /// Rounds were left out because a signal asked for an end.
    pub stopped: bool,
}

/// A contender or a part of its figures that is missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NotMeasured {
    /// Which.
    pub candidate: Candidate,
    /// What of it; empty: all of it.
    pub what: String,
    /// Why.
    pub why: String,
}

/// Contenders side by side with one number of keys.
#[derive(Clone, Debug, Serialize)]
pub struct RivalTable {
    /// Keys in each structure.
    pub keys: u64,
    /// Keys of 16 to 32 bytes with values of 100, or else both of 8.
    pub is_strings: bool,
    /// The contenders, in the order of columns.
    pub candidates: Vec<Candidate>,
    /// Each contender in each operation that it was measured in, by operation.
    pub cells: Vec<RivalCell>,
    /// Ours beside the best rival, and the store beside the bare index, in the same rounds.
    pub ratios: Vec<RivalRatio>,
    /// Two threads.
    pub pairs: Vec<RivalPair>,
    /// Bytes an entry after the insertion in random order.
    pub spaces: Vec<RivalSpace>,
    /// Single insertions in random order, of one round.
    pub latencies: Vec<RivalLatency>,
    /// Keys with which instructions were counted; 0: they were not.
    pub counted_keys: u64,
}

/// One contender in one operation.
#[derive(Clone, Debug, Serialize)]
pub struct RivalCell {
    /// What.
    pub operation: Operation,
    /// The contender.
    pub candidate: Candidate,
    /// Millions of operations a second of the process's CPU time, its threads in the background included.
    pub process: Spread,
    /// Millions of operations a second of the CPU time of the thread that does them.
    pub cpu: Spread,
    /// Millions of operations a second on the wall.
    pub wall: Spread,
    /// Instructions an operation, by callgrind.
    pub instructions: Option<f64>,
}

/// The rates of two contenders in the same rounds, divided.
#[derive(Clone, Debug, Serialize)]
pub struct RivalRatio {
    /// What they did.
    pub operation: Operation,
    /// The dividend.
    pub above: Candidate,
    /// The divisor: the rival with the greatest median, or the bare index.
    pub below: Candidate,
    /// Round by round, by the process's CPU time.
    pub ratio: Spread,
}

/// Two threads of a contender.
#[derive(Clone, Debug, Serialize)]
pub struct RivalPair {
    /// What they did.
    pub operation: Operation,
    /// The contender.
    pub candidate: Candidate,
    /// Millions of operations a second on the wall, two threads on one structure.
    pub together: Spread,
    /// As `together`, of two processes with a structure each, at once.
    pub apart: Spread,
    /// `together` divided by `apart`, in the same rounds.
    pub ratio: Spread,
}

/// Single insertions in random order, in nanoseconds of thread CPU time.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RivalLatency {
    /// The contender.
    pub candidate: Candidate,
    /// Half of them take no longer.
    pub median_ns: u64,
    /// 999 of 1000 take no longer.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// Bytes an entry.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RivalSpace {
    /// The contender.
    pub candidate: Candidate,
    /// In its pool, file or log.
    pub pool: f64,
    /// Of other memory.
    pub memory: f64,
    /// Share of the process's resident memory that has pages of 2 MiB; `None`: the system does not say.
    pub large_pages: Option<f64>,
}
