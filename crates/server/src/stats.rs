//! Counters of the server since it started.

use std::time::{Duration, Instant};

/// Samples of a rate.
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
    /// Reads of sockets.
    pub(crate) reads: u64,
    /// Writes to sockets.
    pub(crate) writes: u64,
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
    /// Snapshots saved.
    pub(crate) saves: u64,
    sampled_ms: u64,
    commands_rate: Rate,
    input_rate: Rate,
    output_rate: Rate,
}

/// How fast a counter has risen of late.
#[derive(Default)]
struct Rate {
    samples: [u64; SAMPLES],
    next: usize,
    count: u64,
}

impl Rate {
    /// The counter has this value, so many milliseconds after the sample before.
    fn sample(&mut self, count: u64, elapsed_ms: u64) {
        let risen = count.saturating_sub(self.count);
        self.samples[self.next % SAMPLES] = risen.saturating_mul(1000) / elapsed_ms;
        self.next += 1;
        self.count = count;
    }

    /// How much it rises in a second.
    fn per_second(&self) -> u64 {
        self.samples.iter().sum::<u64>() / SAMPLES as u64
    }
}

impl Stats {
    /// Takes a sample of the rates; to be called every tenth of a second or so.
    pub(crate) fn sample(&mut self, now_ms: u64) {
        let elapsed_ms = now_ms.saturating_sub(self.sampled_ms);
        if elapsed_ms == 0 {
            return;
        }
        self.commands_rate.sample(self.commands, elapsed_ms);
        self.input_rate.sample(self.input_bytes, elapsed_ms);
        self.output_rate.sample(self.output_bytes, elapsed_ms);
        self.sampled_ms = now_ms;
    }

    /// Commands a second, of late.
    pub(crate) fn commands_per_second(&self) -> u64 {
        self.commands_rate.per_second()
    }

    /// Bytes read a second, and bytes replied, of late.
    pub(crate) fn bytes_per_second(&self) -> (u64, u64) {
        (self.input_rate.per_second(), self.output_rate.per_second())
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
        let Stats { changes, saves, sampled_ms, .. } = *self;
        *self = Stats { changes, saves, sampled_ms, ..Stats::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_means_of_the_last_samples() {
        let mut stats = Stats::default();
        stats.sample(1000);
        for tenth in 1..=SAMPLES as u64 {
            (stats.commands, stats.input_bytes) = (stats.commands + 3, stats.input_bytes + 100);
            stats.output_bytes += 200;
            stats.sample(1000 + tenth * 100);
        }
        assert_eq!(stats.commands_per_second(), 30);
        assert_eq!(stats.bytes_per_second(), (1000, 2000));
        stats.reset();
        assert_eq!((stats.commands_per_second(), stats.bytes_per_second()), (0, (0, 0)));
        stats.output_bytes = 160;
        stats.sample(1000 + (SAMPLES as u64 + 1) * 100);
        assert_eq!(stats.bytes_per_second(), (0, 100));
    }
}
