//! A medium that is slower than the memory under it, for experiments: time is lost for each line that is
//! flushed and for each fence.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::flush::{FlushInstruction, line_count};

/// What a medium adds to the memory that stands in for it, in the `flush` domain. Nothing but
/// experiments asks for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Emulation {
    /// The instruction that flushes lines; `None`: the best one.
    pub flush: Option<FlushInstruction>,
    /// Nanoseconds lost for each line flushed.
    pub line_ns: u32,
    /// Nanoseconds lost for each fence.
    pub fence_ns: u32,
}

/// An emulation, in ticks of the processor's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlowMedium {
    instruction: FlushInstruction,
    line_ticks: u64,
    fence_ticks: u64,
}

/// How long the clock is watched to know its rate.
const CALIBRATION: Duration = Duration::from_millis(2);

impl SlowMedium {
    pub(crate) fn new(emulation: Emulation, best: FlushInstruction) -> SlowMedium {
        let Emulation { flush, line_ns, fence_ns } = emulation;
        let rate = if line_ns == 0 && fence_ns == 0 { 0.0 } else { ticks_per_ns() };
        let ticks = |ns: u32| (f64::from(ns) * rate) as u64;
        let instruction = flush.unwrap_or(best);
        SlowMedium { instruction, line_ticks: ticks(line_ns), fence_ticks: ticks(fence_ns) }
    }

    /// Flushes the lines that hold `len` bytes at `at`. Their time is lost at the next fence: a
    /// flush is waited for there, and time lost before would pass beside it.
    ///
    /// # Safety
    /// They are mapped, and the instruction is supported.
    pub(crate) unsafe fn flush(&self, at: *const u8, len: u64) {
        // SAFETY: the caller's promise.
        unsafe { self.instruction.flush(at, len) };
        let ticks = self.line_ticks * line_count(at.addr() as u64, len);
        OWED.set(OWED.get() + ticks);
    }

    /// Loses the time of the thread's lines and of a fence, which is behind the caller.
    pub(crate) fn fence(&self) {
        lose(OWED.replace(0) + self.fence_ticks);
    }
}

thread_local! {
    /// Ticks of lines that the thread has flushed since its last fence.
    static OWED: Cell<u64> = const { Cell::new(0) };
}

fn lose(ticks: u64) {
    if ticks == 0 {
        return;
    }
    let start = clock();
    while clock().wrapping_sub(start) < ticks {
        std::hint::spin_loop();
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn clock() -> u64 {
    // SAFETY: every x86-64 processor has rdtsc, and Linux lets programs use it.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// There is no flush domain here.
#[cfg(any(miri, not(target_arch = "x86_64")))]
fn clock() -> u64 {
    u64::MAX
}

fn ticks_per_ns() -> f64 {
    let (start, ticks) = (Instant::now(), clock());
    while start.elapsed() < CALIBRATION {}
    clock().wrapping_sub(ticks) as f64 / start.elapsed().as_nanos() as f64
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use crate::{Counters, DomainRequest, Emulation, Region, RegionOptions};

    /// A slower medium is a medium: the same bytes, lines and fences, and no less time than it says.
    #[test]
    fn an_emulated_medium_loses_the_time_that_it_says() {
        let path = std::env::temp_dir().join(format!("tembo-emulation-{}", std::process::id()));
        let emulation = Emulation { line_ns: 100_000, fence_ns: 300_000, ..Emulation::default() };
        let mut options =
            RegionOptions { domain: DomainRequest::Flush, ..RegionOptions::default() };
        options.emulation = Some(emulation);
        let fill = |_: &Region| Ok::<(), crate::Error>(());
        let region = Region::create(&path, 1 << 20, &options, fill).unwrap();
        std::fs::remove_file(&path).unwrap();
        let (before, start) = (Counters::thread(), std::time::Instant::now());
        region.write("emulation.test.write", 8192, &[&[7; 640]]).unwrap();
        region.fence("emulation.test.fence");
        let elapsed = start.elapsed();
        let cost = Counters::thread() - before;
        assert_eq!((cost.lines, cost.fences), (10, 1));
        assert_eq!(region.media_bytes(8192, 640).unwrap().to_vec(), [7; 640]);
        // A lower bound is not a matter of speed.
        assert!(elapsed.as_micros() >= 1_250, "{elapsed:?}");
    }
}
