//! How often each command was executed, and how long it took.

use hdrhistogram::Histogram;

/// Longer times count as this, in nanoseconds.
const TIME_MAX_NS: u64 = 1_000_000_000;

/// What is known about a command.
#[derive(Default)]
pub(crate) struct Times {
    /// Executions.
    pub(crate) calls: u64,
    /// Executions that ended with an error.
    pub(crate) failed: u64,
    /// Requests that were refused before they were executed.
    pub(crate) rejected: u64,
    /// Time of all executions, in nanoseconds.
    pub(crate) total_ns: u64,
    /// Times in nanoseconds, to two digits; none before the first.
    pub(crate) histogram: Option<Box<Histogram<u32>>>,
}

/// By the number of the command in the table.
#[derive(Default)]
pub(crate) struct CommandTimes(Vec<Times>);

impl CommandTimes {
    fn row(&mut self, number: usize) -> &mut Times {
        if number >= self.0.len() {
            self.0.resize_with(number + 1, Times::default);
        }
        &mut self.0[number]
    }

    /// Counts an execution.
    #[inline]
    pub(crate) fn count(&mut self, number: usize, took_ns: u64, failed: bool, keeps_time: bool) {
        let row = self.row(number);
        row.calls += 1;
        row.failed += u64::from(failed);
        row.total_ns += took_ns;
        if keeps_time {
            match &mut row.histogram {
                Some(histogram) => histogram.saturating_record(took_ns.max(1)),
                none => *none = first(took_ns),
            }
        }
    }

    /// Counts a request that was refused.
    pub(crate) fn reject(&mut self, number: usize) {
        self.row(number).rejected += 1;
    }

    /// What is known about a command, if there is anything.
    pub(crate) fn of(&self, number: usize) -> Option<&Times> {
        self.0.get(number).filter(|times| times.calls + times.rejected > 0)
    }
}

/// A histogram with one time.
#[cold]
fn first(took_ns: u64) -> Option<Box<Histogram<u32>>> {
    let mut histogram = Histogram::new_with_bounds(1, TIME_MAX_NS, 2).ok()?;
    histogram.saturating_record(took_ns.max(1));
    Some(Box::new(histogram))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_counted_apart() {
        let mut times = CommandTimes::default();
        times.count(3, 5_000, false, true);
        times.count(3, 7_000, true, false);
        times.reject(1);
        let row = times.of(3).unwrap();
        assert_eq!((row.calls, row.failed, row.rejected, row.total_ns), (2, 1, 0, 12_000));
        assert_eq!(row.histogram.as_ref().unwrap().len(), 1);
        assert_eq!(times.of(1).unwrap().rejected, 1);
        assert!(times.of(0).is_none() && times.of(4).is_none());
    }
}
