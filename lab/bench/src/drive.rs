//! One operation on one contender: the loop that is timed, and what it costs below the waist.

use std::time::Duration;

use hdrhistogram::Histogram;
use tembo_pmem::Counters;

use crate::bplus::Flushed;
use crate::clock::{Elapsed, Stopwatch, thread_cpu};
use crate::nvtree_paper::Rebuilds;
use crate::operation::SCAN_LEN;
use crate::{Contender, Error, Operation, Shared};

/// The cost of one trial.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trial {
    pub(crate) operations: u64,
    pub(crate) elapsed: Elapsed,
    pub(crate) counters: Counters,
    /// Answers that were as expected, or entries that scans visited: all that
    /// [`Operation::expected`] says, or the figures mean nothing.
    pub(crate) right: u64,
}

/// The contenders' trait as it is called once a trial, so that the loop within is the contender's own.
pub(crate) trait Driven {
    /// Does `operation` with each key of `plan`.
    fn trial(&mut self, operation: Operation, plan: &[u64]) -> Result<Trial, Error>;

    /// As [`trial`](Driven::trial), without asking a clock: how many answers were right.
    fn untimed(&mut self, operation: Operation, plan: &[u64]) -> Result<u64, Error>;

    /// Inserts the keys, each timed by itself in thread CPU time.
    fn timed_inserts(&mut self, plan: &[u64]) -> Result<Histogram<u64>, Error>;

    fn offers(&self, operation: Operation) -> bool;

    fn used_bytes(&self) -> u64;

    fn shared(&self) -> Option<&dyn Shared>;

    fn rebuilds(&self) -> Option<Rebuilds>;

    fn flushed(&self) -> Option<Flushed>;

    /// Inserts keys without asking a clock, which not every tool that watches survives.
    fn inserts(&mut self, plan: &[u64]) -> Result<(), Error>;

    /// Puts values of so many bytes.
    fn insert_records(&mut self, plan: &[u64], size: usize) -> Result<(), Error>;

    /// Does reads and updates in that order: the keys, and whether each is updated.
    fn mixed(&mut self, plan: &[(bool, u64)]) -> Result<Trial, Error>;
}

impl<C: Contender> Driven for C {
    fn trial(&mut self, operation: Operation, plan: &[u64]) -> Result<Trial, Error> {
        let (before, watch) = (Counters::thread(), Stopwatch::start());
        let right = act(self, operation, plan)?;
        let elapsed = watch.elapsed();
        let counters = Counters::thread() - before;
        Ok(Trial { operations: plan.len() as u64, elapsed, counters, right })
    }

    fn untimed(&mut self, operation: Operation, plan: &[u64]) -> Result<u64, Error> {
        act(self, operation, plan)
    }

    fn timed_inserts(&mut self, plan: &[u64]) -> Result<Histogram<u64>, Error> {
        // From a nanosecond to a minute, three digits.
        let mut histogram = Histogram::new_with_bounds(1, 60_000_000_000, 3)?;
        let clock_ns = clock_ns();
        let mut start = thread_cpu();
        for &key in plan {
            self.insert(key, key)?;
            let end = thread_cpu();
            let ns = nanoseconds(end.saturating_sub(start)).saturating_sub(clock_ns);
            histogram.saturating_record(ns.max(1));
            start = end;
        }
        Ok(histogram)
    }

    fn offers(&self, operation: Operation) -> bool {
        Contender::offers(self, operation)
    }

    fn used_bytes(&self) -> u64 {
        Contender::used_bytes(self)
    }

    fn shared(&self) -> Option<&dyn Shared> {
        Contender::shared(self)
    }

    fn rebuilds(&self) -> Option<Rebuilds> {
        Contender::rebuilds(self)
    }

    fn flushed(&self) -> Option<Flushed> {
        Contender::flushed(self)
    }

    fn inserts(&mut self, plan: &[u64]) -> Result<(), Error> {
        plan.iter().try_for_each(|key| self.insert(*key, *key))
    }

    fn insert_records(&mut self, plan: &[u64], size: usize) -> Result<(), Error> {
        plan.iter().try_for_each(|key| self.put_record(*key, size))
    }

    fn mixed(&mut self, plan: &[(bool, u64)]) -> Result<Trial, Error> {
        let (before, watch) = (Counters::thread(), Stopwatch::start());
        let mut right = 0;
        for &(is_update, key) in plan {
            right += u64::from(if is_update {
                self.update(key, !key)?
            } else {
                self.get(key)?.is_some()
            });
        }
        let elapsed = watch.elapsed();
        let counters = Counters::thread() - before;
        Ok(Trial { operations: plan.len() as u64, elapsed, counters, right })
    }
}

/// Performs the operations. Returns how many answers were right.
fn act<C: Contender>(c: &mut C, operation: Operation, plan: &[u64]) -> Result<u64, Error> {
    let mut right = 0;
    match operation {
        Operation::Insert | Operation::SequentialInsert => {
            for &key in plan {
                c.insert(key, key)?;
            }
            right = plan.len() as u64;
        }
        Operation::Lookup => {
            for &key in plan {
                // The value that the insertion gave it.
                right += u64::from(c.get(key)? == Some(key));
            }
        }
        Operation::ZipfLookup => {
            for &key in plan {
                right += u64::from(c.get(key)?.is_some());
            }
        }
        Operation::MissingLookup => {
            for &key in plan {
                right += u64::from(c.get(key)?.is_none());
            }
        }
        Operation::Update | Operation::ZipfUpdate => {
            for (at, &key) in plan.iter().enumerate() {
                right += u64::from(c.update(key, at as u64)?);
            }
        }
        Operation::Scan => {
            for &key in plan {
                right += c.scan(key, SCAN_LEN)? as u64;
            }
        }
        Operation::Remove => {
            for &key in plan {
                right += u64::from(c.remove(key)?);
            }
        }
    }
    Ok(right)
}

/// What asking the clock takes, which is no part of an operation.
fn clock_ns() -> u64 {
    let mut least = u64::MAX;
    for _ in 0..1000 {
        let start = thread_cpu();
        least = least.min(nanoseconds(thread_cpu().saturating_sub(start)));
    }
    least
}

fn nanoseconds(duration: Duration) -> u64 {
    duration.as_nanos().min(u64::MAX.into()) as u64
}
