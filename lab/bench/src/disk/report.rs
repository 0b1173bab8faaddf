//! The report of a run.

use serde::{Deserialize, Serialize};

use super::spec::{Figure, Part, Phase};
use crate::machine::Machine;

/// All cells of a run, and of older ones.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DiskReport {
    /// Where.
    pub machine: Machine,
    /// Seconds since 1970, at the end.
    pub time_s: u64,
    /// Few records, and phases that are too short to mean anything.
    pub quick: bool,
    /// Bytes of memory that a contender has.
    pub memory: u64,
    /// The mechanism that limits the memory.
    pub limit: String,
    /// How long phases were. `None`: the report is older than this field.
    #[serde(default)]
    pub bounds: Option<Bounds>,
    /// Each contender in each cell and round.
    pub cells: Vec<DiskCell>,
    /// Measurements that were asked for and are in no cell, and why.
    #[serde(default)]
    pub missed: Vec<String>,
}

/// Limits at which phases end though not everything is done.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bounds {
    /// Longest time of a phase.
    pub seconds: f64,
    /// Longest time of a load in random order.
    pub load_seconds: f64,
}

/// One contender in one cell of one round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DiskCell {
    /// The part of the benchmark.
    pub part: Part,
    /// On the command line.
    pub contender: String,
    /// The title in tables.
    pub title: String,
    /// Bytes of a value.
    pub value_size: usize,
    /// Bytes of keys and values to a byte of memory.
    pub ratio: f64,
    /// Records that are loaded; of the server, requests.
    pub records: u64,
    /// The number of the round, from 1.
    pub round: u32,
    /// The command that does this.
    pub command: String,
    /// The contender's settings that are not its defaults.
    pub settings: Vec<String>,
    /// Operations, in their order.
    pub phases: Vec<Phase>,
    /// Other numbers.
    pub figures: Vec<Figure>,
    /// Why it ended early.
    pub failure: Option<String>,
}

impl DiskCell {
    /// How many records were loaded, if not all, and nothing failed.
    pub(super) fn partly_loaded(&self) -> Option<u64> {
        let loads = self.phases.iter().filter(|phase| phase.is_load());
        let count = loads.clone().map(|phase| phase.operations).sum();
        let was_loaded = loads.count() > 0 && self.failure.is_none();
        (was_loaded && count < self.records).then_some(count)
    }

    /// Whether it is what `other` is to be: the same command, contender and round; and was measured to its end.
    pub(super) fn replaces(&self, other: &DiskCell) -> bool {
        let is_same = self.is_of(other) && self.command == other.command;
        is_same && self.round == other.round && self.failure.is_none()
    }

    fn is_of(&self, other: &DiskCell) -> bool {
        let key = |cell: &DiskCell| (cell.part, cell.value_size, cell.ratio.to_bits());
        key(self) == key(other) && self.contender == other.contender
    }
}

impl DiskReport {
    /// This report with those cells of an older one that it does not have.
    pub fn with_older(mut self, older: DiskReport) -> DiskReport {
        let is_kept = |cell: &DiskCell| !self.cells.iter().any(|own| own.is_of(cell));
        let kept: Vec<DiskCell> = older.cells.into_iter().filter(is_kept).collect();
        self.cells.extend(kept);
        self
    }
}
