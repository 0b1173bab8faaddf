//! How long the event loop takes for what it does, so that the time of the disk is distinguished from that of the server's own work.
//!
//! ```text
//!   expiry │ execute (lock: of it, waiting for the writer's lock) │ commit │ sync │ replies
//!   └────────────────────────────── turn ─────────────────────────────────────────────────┘
//! ```

use std::time::Duration;

use hdrhistogram::Histogram;

/// Longer times count as this, in microseconds: an hour.
const TIME_MAX_US: u64 = 3_600_000_000;

/// What takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// From the first command of a turn to its last reply.
    Turn,
    /// Keys that are due are removed.
    Expiry,
    /// Commands are read and executed.
    Execute,
    /// Waiting for background work that has the writer's lock.
    Lock,
    /// What was written becomes visible.
    Commit,
    /// The disk makes it durable.
    Sync,
}

impl Stage {
    /// All of them, in the order of their numbers.
    pub(crate) const ALL: [Stage; 6] =
        [Stage::Turn, Stage::Expiry, Stage::Execute, Stage::Lock, Stage::Commit, Stage::Sync];

    /// Its name, as clients give it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Stage::Turn => "turn",
            Stage::Expiry => "expiry",
            Stage::Execute => "execute",
            Stage::Lock => "lock",
            Stage::Commit => "commit",
            Stage::Sync => "sync",
        }
    }
}

/// Times of all stages, in microseconds, to two digits.
pub(crate) struct Latency {
    /// By stage; none if there was no memory for them.
    histograms: Vec<Histogram<u64>>,
}

impl Default for Latency {
    fn default() -> Latency {
        let made = Stage::ALL.iter().map(|_| Histogram::new_with_bounds(1, TIME_MAX_US, 2));
        Latency { histograms: made.collect::<Result<_, _>>().unwrap_or_default() }
    }
}

impl Latency {
    /// Counts one time.
    #[inline]
    pub(crate) fn record(&mut self, stage: Stage, took: Duration) {
        if let Some(histogram) = self.histograms.get_mut(stage as usize) {
            histogram.saturating_record(took.as_micros() as u64);
        }
    }

    /// The times of a stage.
    pub(crate) fn of(&self, stage: Stage) -> Option<&Histogram<u64>> {
        self.histograms.get(stage as usize)
    }

    /// Forgets the times of a stage; whether there were any.
    pub(crate) fn reset(&mut self, stage: Stage) -> bool {
        let Some(histogram) = self.histograms.get_mut(stage as usize) else { return false };
        let had_any = !histogram.is_empty();
        histogram.reset();
        had_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stage_has_its_own_times() {
        let mut latency = Latency::default();
        for (at, &stage) in Stage::ALL.iter().enumerate() {
            assert_eq!(stage as usize, at);
            latency.record(stage, Duration::from_micros(100 * at as u64));
            assert_eq!(latency.of(stage).unwrap().len(), 1);
        }
        latency.record(Stage::Sync, Duration::from_secs(1 << 40));
        assert!(latency.of(Stage::Sync).unwrap().max() >= TIME_MAX_US);
        assert!(latency.reset(Stage::Sync) && !latency.reset(Stage::Sync));
        assert_eq!(latency.of(Stage::Commit).unwrap().len(), 1);
    }
}
