//! Counters of the server since it started.

use std::time::{Duration, Instant};

/// Samples of the command rate.
const SAMPLES: usize = 16;

/// Counters.
#[derive(Default)]
pub(crate) struct Stats {
    /// Connections accepted.
    pub(crate) connections: u64,
    /// Connections refused at `maxclients`.
    pub(crate) rejected: u64,
    /// Commands executed.
    pub(crate) commands: u64,
    /// Turns.
    pub(crate) turns: u64,
    /// Turns that failed.
    pub(crate) failed_turns: u64,
    /// Bytes read.
    pub(crate) input_bytes: u64,
    /// Bytes replied.
    pub(crate) output_bytes: u64,
    /// Keys removed because they had expired.
    pub(crate) expired_keys: u64,
    /// Keys removed because the data took more than `maxmemory`.
    pub(crate) evicted_keys: u64,
    /// Clients disconnected because all together took more than `maxmemory-clients`.
    pub(crate) evicted_clients: u64,
    /// How long the data has taken more than `maxmemory`, until it was last less.
    pub(crate) excess: Duration,
    /// Since when it takes more.
    pub(crate) excess_since: Option<Instant>,
    /// Reads that found their key.
    pub(crate) hits: u64,
    /// Reads that did not.
    pub(crate) misses: u64,
    /// Error replies.
    pub(crate) errors: u64,
    /// Connections closed because their output waited too long or was too much.
    pub(crate) output_limit_closes: u64,
    /// Connections closed because they had sent too much that was not executed.
    pub(crate) input_limit_closes: u64,
    /// Changes since the last save.
    pub(crate) changes: u64,
    rate: Rate,
}

#[derive(Default)]
struct Rate {
    samples: [u64; SAMPLES],
    next: usize,
    commands: u64,
    at_ms: u64,
}

impl Stats {
    /// Takes a sample of the command rate; to be called every tenth of a second or so.
    pub(crate) fn sample(&mut self, now_ms: u64) {
        let elapsed_ms = now_ms.saturating_sub(self.rate.at_ms);
        let commands = self.commands.saturating_sub(self.rate.commands);
        let Some(rate) = (commands * 1000).checked_div(elapsed_ms) else { return };
        self.rate.samples[self.rate.next % SAMPLES] = rate;
        self.rate.next += 1;
        self.rate.commands = self.commands;
        self.rate.at_ms = now_ms;
    }

    /// Commands a second, of late.
    pub(crate) fn commands_per_second(&self) -> u64 {
        self.rate.samples.iter().sum::<u64>() / SAMPLES as u64
    }

    /// The data takes more than it should.
    pub(crate) fn begin_excess(&mut self) {
        self.excess_since.get_or_insert_with(Instant::now);
    }

    /// The data does not take more than it should.
    pub(crate) fn end_excess(&mut self) {
        if let Some(since) = self.excess_since.take() {
            self.excess += since.elapsed();
        }
    }

    /// CONFIG RESETSTAT.
    pub(crate) fn reset(&mut self) {
        let (changes, at_ms) = (self.changes, self.rate.at_ms);
        *self = Stats { changes, ..Stats::default() };
        self.rate.at_ms = at_ms;
    }
}
