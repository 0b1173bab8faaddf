//! Measures operations of one kind: how many in how long, how long each, and what went to the disk.

use std::path::{Path, PathBuf};
use std::time::Instant;

use hdrhistogram::Histogram;

use super::spec::Phase;
use super::traffic::Traffic;
use crate::Error;
use crate::outcome::Latency;

/// Longest time that the meter distinguishes, in nanoseconds: ten minutes.
const LONGEST_NS: u64 = 600_000_000_000;

/// A phase that is under way.
pub(super) struct Meter {
    name: String,
    seconds: f64,
    folder: PathBuf,
    process: u32,
    start: Instant,
    before: (Traffic, Option<Traffic>),
    histogram: Histogram<u64>,
    operations: u64,
    payload: u64,
}

impl Meter {
    /// Starts a meter of this process, for at most so many seconds.
    pub(super) fn start(name: &str, seconds: f64, folder: &Path) -> Result<Meter, Error> {
        let process = std::process::id();
        let before = Traffic::of_process(process).ok_or(Error::Absent("/proc/self/io"))?;
        Ok(Meter {
            name: name.to_owned(),
            seconds,
            folder: folder.to_owned(),
            process,
            before: (before, Traffic::of_disk(folder)),
            histogram: Histogram::new_with_bounds(1, LONGEST_NS, 3)?,
            operations: 0,
            payload: 0,
            start: Instant::now(),
        })
    }

    /// Whether its time is over.
    pub(super) fn is_over(&self) -> bool {
        self.start.elapsed().as_secs_f64() >= self.seconds
    }

    /// Does it, and counts it as so many operations that one caller waits for.
    pub(super) fn time<T>(
        &mut self,
        operations: u64,
        work: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let start = Instant::now();
        let done = work()?;
        let ns = start.elapsed().as_nanos().min(u128::from(LONGEST_NS)) as u64;
        self.histogram.saturating_record(ns.max(1));
        self.operations += operations;
        Ok(done)
    }

    /// Counts bytes of keys and values that were put.
    pub(super) fn put(&mut self, bytes: u64) {
        self.payload += bytes;
    }

    /// The end; `is_cut`: more was to be done.
    pub(super) fn finish(self, is_cut: bool) -> Phase {
        let seconds = self.start.elapsed().as_secs_f64();
        let (before, disk_before) = self.before;
        let traffic = Traffic::of_process(self.process).unwrap_or(before).since(before);
        let disk = Traffic::of_disk(&self.folder).zip(disk_before);
        Phase {
            name: self.name,
            operations: self.operations,
            seconds,
            is_cut,
            latency: Latency::of(&self.histogram),
            payload_written: self.payload,
            traffic,
            disk: disk.map(|(now, before)| now.since(before)),
        }
    }
}
