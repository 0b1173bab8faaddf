//! What the server notes about the commands that it executes: how often, how long, with which errors.

mod command_times;
mod latency_events;
mod slow_log;

use std::collections::BTreeMap;

use tembo_kv::pmem::TickClock;

pub(crate) use command_times::{CommandTimes, Times};
pub(crate) use latency_events::{Event, LatencyEvents};
pub(crate) use slow_log::{SlowCommand, SlowLog, shortened};

/// Codes of errors that are counted one by one; those behind them are not counted.
const CODES_MAX: usize = 128;
/// Bytes of a code that are kept: a script chooses its own.
const CODE_SIZE_MAX: usize = 64;

/// What was noted.
pub(crate) struct Observed {
    /// By command.
    pub(crate) times: CommandTimes,
    /// Commands that took long.
    pub(crate) slow: SlowLog,
    /// Events that took long.
    pub(crate) events: LatencyEvents,
    /// Error replies by code.
    pub(crate) errors: BTreeMap<String, u64>,
    /// What commands are timed by.
    pub(crate) clock: TickClock,
    /// When the last command ended, or the execution of a client's commands began: there the next one begins.
    mark: u64,
}

impl Observed {
    /// Nothing yet.
    pub(crate) fn new() -> Observed {
        let clock = TickClock::begin();
        Observed {
            times: CommandTimes::default(),
            slow: SlowLog::default(),
            events: LatencyEvents::default(),
            errors: BTreeMap::new(),
            clock,
            mark: clock.now(),
        }
    }

    /// The execution of a client's commands begins.
    pub(crate) fn begin(&mut self) {
        self.mark = self.clock.now();
    }

    /// When the command that is executed now began.
    pub(crate) fn began(&self) -> u64 {
        self.mark
    }

    /// The command that began then has ended; how long it took, in nanoseconds.
    #[inline]
    pub(crate) fn end_command(&mut self, began: u64) -> u64 {
        self.mark = self.clock.now();
        self.clock.ns_between(began, self.mark)
    }

    /// Counts an error reply by its first word.
    #[cold]
    pub(crate) fn count_error(&mut self, text: &[u8]) {
        let code = text.split(|&byte| byte == b' ').next().unwrap_or_default();
        let code = &code[..code.len().min(CODE_SIZE_MAX)];
        let code = String::from_utf8_lossy(code).into_owned();
        if self.errors.len() < CODES_MAX || self.errors.contains_key(&code) {
            *self.errors.entry(code).or_default() += 1;
        }
    }

    /// CONFIG RESETSTAT.
    pub(crate) fn reset(&mut self) {
        self.times = CommandTimes::default();
        self.errors.clear();
    }
}
