//! What a run has found.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use tembo_pmem::Counters;

use crate::drive::Trial;
use crate::nvtree_paper::Rebuilds;
use crate::spread::Spread;
use crate::{Kind, Operation, Pair};

/// All figures of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Keys in each structure.
    pub keys: u64,
    /// Rounds.
    pub rounds: u32,
    /// Where keys and orders come from.
    pub seed: u64,
    /// Bytes in a node.
    pub node_size: u32,
    /// The contenders, in the order of tables.
    pub contenders: Vec<Kind>,
    /// Each contender in each operation that it has, by operation.
    pub cells: Vec<Cell>,
    /// Two threads with one structure against two with one each, for those that offer it.
    pub pairs: Vec<Pair>,
    /// What a contender costs beside time.
    pub costs: Vec<Cost>,
    /// Rounds were left out because a signal asked for an end.
    pub stopped: bool,
}

/// One contender in one operation.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// What.
    pub operation: Operation,
    /// The contender.
    pub contender: Kind,
    /// Millions of operations a second of thread CPU time.
    pub cpu: Spread,
    /// Millions of operations a second of wall time.
    pub wall: Spread,
    /// Thread CPU time of the one-line persist in the same round, divided by this one's: 1 is as
    /// fast. Of changes only.
    pub of_wall: Option<Spread>,
    /// As `of_wall`, by `BTreeMap`.
    pub of_btreemap: Option<Spread>,
    /// Fences an operation.
    pub fences: f64,
    /// Lines flushed an operation.
    pub lines: f64,
    /// Bytes stored an operation.
    pub bytes: f64,
}

/// What a contender costs beside time.
#[derive(Clone, Debug, Serialize)]
pub struct Cost {
    /// The contender.
    pub contender: Kind,
    /// After the insertion in random order.
    pub inserted: Space,
    /// After as many updates.
    pub updated: Option<Space>,
    /// Insertion in random order, each timed by itself.
    pub insert: Option<Latency>,
    /// Insertion of ascending keys, each timed by itself.
    pub sequential_insert: Option<Latency>,
    /// Rebuilds of inner nodes during the insertion in random order.
    pub rebuilds: Option<Rebuilds>,
    /// Rebuilds of inner nodes during the insertion of ascending keys.
    pub sequential_rebuilds: Option<Rebuilds>,
}

/// Space that a contender takes, in bytes for each entry.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Space {
    /// In the pool.
    pub pool: f64,
    /// Of other memory.
    pub memory: f64,
}

/// Times of single operations, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latency {
    /// Half take no longer.
    pub median_ns: u64,
    /// 99 of 100 take no longer.
    pub p99_ns: u64,
    /// 999 of 1000 take no longer.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl Latency {
    pub(crate) fn of(histogram: &Histogram<u64>) -> Latency {
        Latency {
            median_ns: histogram.value_at_quantile(0.5),
            p99_ns: histogram.value_at_quantile(0.99),
            p999_ns: histogram.value_at_quantile(0.999),
            max_ns: histogram.max(),
        }
    }
}

/// The trials of one contender in one operation, round by round.
pub(crate) struct Trials {
    pub(crate) operation: Operation,
    pub(crate) contender: Kind,
    pub(crate) trials: Vec<Trial>,
}

impl Trials {
    /// The figures of these trials, beside those of others in the same rounds.
    pub(crate) fn cell(&self, all: &[Trials]) -> Option<Cell> {
        let against = |kind| {
            let other =
                all.iter().find(|t| t.contender == kind && t.operation == self.operation)?;
            let pairs = self.trials.iter().zip(&other.trials);
            Spread::of(pairs.map(|(own, other)| cpu_rate(own) / cpu_rate(other)))
        };
        let sum = |count: fn(&Counters) -> u64| {
            let sum: u64 = self.trials.iter().map(|trial| count(&trial.counters)).sum();
            let operations: u64 = self.trials.iter().map(|trial| trial.operations).sum();
            sum as f64 / operations as f64
        };
        Some(Cell {
            operation: self.operation,
            contender: self.contender,
            cpu: Spread::of(self.trials.iter().map(cpu_rate))?,
            wall: Spread::of(self.trials.iter().map(wall_rate))?,
            of_wall: against(Kind::Wall),
            of_btreemap: against(Kind::Btreemap),
            fences: sum(|counters| counters.fences),
            lines: sum(|counters| counters.lines),
            bytes: sum(|counters| counters.bytes),
        })
    }
}

fn cpu_rate(trial: &Trial) -> f64 {
    rate(trial.operations, trial.elapsed.cpu.as_secs_f64())
}

fn wall_rate(trial: &Trial) -> f64 {
    rate(trial.operations, trial.elapsed.wall.as_secs_f64())
}

/// Millions a second. Never infinite, which JSON cannot say.
fn rate(operations: u64, seconds: f64) -> f64 {
    operations as f64 / seconds.max(1e-9) / 1e6
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use super::*;
    use crate::clock::Elapsed;

    fn trials(contender: Kind, milliseconds: &[u64]) -> Trials {
        let trial = |&ms: &u64| {
            let elapsed =
                Elapsed { cpu: Duration::from_millis(ms), wall: Duration::from_millis(2 * ms) };
            let counters = Counters { fences: 1000, lines: 2000, ..Counters::default() };
            Trial { operations: 1000, elapsed, counters, right: 1000 }
        };
        let trials = milliseconds.iter().map(trial).collect();
        Trials { operation: Operation::Insert, contender, trials }
    }

    /// A machine that slows down in one round slows both: the ratio is of the round, not of medians.
    #[test]
    fn ratios_are_taken_round_by_round() {
        let all = [trials(Kind::Wall, &[1, 10, 2]), trials(Kind::Cdds, &[2, 20, 4])];
        let cell = all[1].cell(&all).unwrap();
        assert_eq!(cell.of_wall, Some(Spread { median: 0.5, best: 0.5, worst: 0.5 }));
        assert_eq!(cell.of_btreemap, None);
        assert!((cell.cpu.median - 0.25).abs() < 1e-9 && (cell.wall.best - 0.25).abs() < 1e-9);
        assert_eq!((cell.fences, cell.lines), (1.0, 2.0));
    }
}
