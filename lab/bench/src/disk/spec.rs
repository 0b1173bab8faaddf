//! What the measuring process gets, and what it answers: one JSON object each, since it is a process of its own.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::traffic::Traffic;
use crate::outcome::Latency;

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Load, get, overwrite, scan.
    Table,
    /// YCSB's workloads A to F.
    Ycsb,
    /// Space after deletions and changing sizes.
    Churn,
    /// Opening after SIGKILL with a full log.
    Restart,
    /// The server beside Redis.
    Server,
}

impl Part {
    /// All parts, in the order in which they run.
    pub const ALL: [Part; 5] = [Part::Table, Part::Ycsb, Part::Churn, Part::Restart, Part::Server];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Part::Table => "table",
            Part::Ycsb => "ycsb",
            Part::Churn => "churn",
            Part::Restart => "restart",
            Part::Server => "server",
        }
    }
}

/// What one process measures.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Spec {
    pub(super) part: Part,
    /// The name of the contender on the command line.
    pub(super) contender: String,
    pub(super) folder: PathBuf,
    /// The group that the process is in.
    pub(super) group: Option<PathBuf>,
    pub(super) memory: u64,
    pub(super) records: u64,
    pub(super) value_size: usize,
    /// Longest time of a phase.
    pub(super) seconds: f64,
    /// Longest time of the load.
    pub(super) load_seconds: f64,
    pub(super) seed: u64,
    /// The store is there: it is opened and read.
    pub(super) is_reopened: bool,
}

impl Spec {
    /// The rest that a load in random order has left may take so many times as long as that load.
    pub(super) const FILL: f64 = 2.0;
}

/// A message of the process: one line each.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Event {
    Settings(Vec<String>),
    /// Something has begun.
    Begun(String),
    Phase(Phase),
    Figure(Figure),
    /// The process that is to be killed has begun, and goes on writing.
    Ready,
    /// This build does not have the contender.
    Absent,
    Failed(String),
}

/// Operations of one kind, one after the other.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Phase {
    /// The name of the phase.
    pub name: String,
    /// The number of operations: keys of puts and gets, entries of scans.
    pub operations: u64,
    /// The time that they took.
    pub seconds: f64,
    /// The time was over before everything was done.
    pub is_cut: bool,
    /// The latency of what the caller waits for: an operation, or a commit of several.
    pub latency: Latency,
    /// Bytes of keys and values that were put.
    pub payload_written: u64,
    /// Traffic of the process.
    pub traffic: Traffic,
    /// Traffic of the disk, by all that use it.
    pub disk: Option<Traffic>,
}

impl Phase {
    /// The names of a load in random order, and of the load of the rest.
    pub(super) const LOAD: &str = "load";
    pub(super) const FILL: &str = "fill";

    /// Whether it puts records that were not there.
    pub(super) fn is_load(&self) -> bool {
        [Phase::LOAD, Phase::FILL].contains(&&self.name[..])
    }

    /// Operations a second.
    pub fn rate(&self) -> f64 {
        self.operations as f64 / self.seconds.max(1e-9)
    }

    /// Bytes written to a byte of keys and values: by the disk, where it says so, and by the process.
    pub fn write_amplification(&self) -> Option<(Option<f64>, f64)> {
        let payload = (self.payload_written > 0).then_some(self.payload_written as f64)?;
        let to_payload = |traffic: Traffic| traffic.written as f64 / payload;
        Some((self.disk.map(to_payload), to_payload(self.traffic)))
    }

    /// Bytes read from the disk for each operation; by the process where the disk does not say.
    pub fn read_per_operation(&self) -> f64 {
        let traffic = self.disk.unwrap_or(self.traffic);
        traffic.read as f64 / self.operations.max(1) as f64
    }
}

/// A number that is no rate.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Figure {
    /// The name of the figure.
    pub name: String,
    /// The unit.
    pub unit: String,
    /// The value.
    pub value: f64,
}
