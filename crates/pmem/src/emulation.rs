//! A medium that is slower than the memory under it, for experiments: time is lost for each line that is
//! flushed and for each fence.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::flush::{FlushInstruction, line_count, store_fence};

/// What a medium adds to the memory that stands in for it, in the `flush` domain. Nothing but
/// experiments asks for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Emulation {
    /// The instruction that flushes lines; `None`: the best one.
    pub flush: Option<FlushInstruction>,
    /// Whether a fence waits until what was flushed is written, as `mfence` does; else later
    /// instructions run beside it. A medium that loses time always waits.
    pub waits: bool,
    /// Nanoseconds lost for each line flushed.
    pub line_ns: u32,
    /// Nanoseconds lost for each fence.
    pub fence_ns: u32,
}

/// An emulation, in ticks of the processor's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlowMedium {
    instruction: FlushInstruction,
    waits: bool,
    line_ticks: u64,
    fence_ticks: u64,
    /// Ticks that losing time takes beyond what passes between its readings of the clock.
    overhead_ticks: u64,
}

/// How long the clock is watched to know its rate.
const CALIBRATION: Duration = Duration::from_millis(2);

/// Of so many measurements of the overhead the least is taken.
const OVERHEAD_ROUNDS: usize = 200;

/// Readings of the clock by which one fence may lose too much or too little for the next to make up for it.
const STEPS_MAX: i64 = 4;

impl SlowMedium {
    pub(crate) fn new(emulation: Emulation, best: FlushInstruction) -> SlowMedium {
        let Emulation { flush, waits, line_ns, fence_ns } = emulation;
        let instruction = flush.unwrap_or(best);
        if line_ns == 0 && fence_ns == 0 {
            return SlowMedium {
                instruction,
                waits,
                line_ticks: 0,
                fence_ticks: 0,
                overhead_ticks: 0,
            };
        }
        let rate = ticks_per_ns();
        let ticks = |ns: u32| (f64::from(ns) * rate) as u64;
        SlowMedium {
            instruction,
            waits: true,
            line_ticks: ticks(line_ns),
            fence_ticks: ticks(fence_ns),
            overhead_ticks: overhead_ticks(),
        }
    }

    /// Flushes the lines that hold `len` bytes at `at`. Their time is lost at the next fence: a
    /// flush is waited for there, and time lost before would pass beside it.
    ///
    /// # Safety
    /// They are mapped, and the instruction is supported.
    pub(crate) unsafe fn flush(&self, at: *const u8, len: u64) {
        // SAFETY: the caller's promise.
        unsafe { self.instruction.flush(at, len) };
        OWED_LINES.set(OWED_LINES.get() + line_count(at.addr() as u64, len));
    }

    /// Waits for what the thread has flushed, and then loses the time of its lines and of a fence.
    pub(crate) fn fence(&self) {
        let lines = OWED_LINES.replace(0);
        if !self.waits {
            return store_fence();
        }
        let owed = self.owed(lines, CARRIED.get());
        let lost = lose(owed, wait_for_stores, clock);
        CARRIED.set(self.carried(owed, lost));
    }

    /// What the next fence is to lose more, or less: a step of the clock, but no time in which the system has
    /// run something else.
    fn carried(&self, owed: i64, lost: i64) -> i64 {
        let carried = owed - lost;
        let steps = STEPS_MAX * self.overhead_ticks as i64;
        if self.is_slower() && carried.abs() <= steps { carried } else { 0 }
    }

    fn is_slower(&self) -> bool {
        self.line_ticks + self.fence_ticks > 0
    }

    /// Ticks to lose at a fence behind so many lines, with what the fence before has lost too few of. Below
    /// zero: it has lost too many.
    fn owed(&self, lines: u64, carried: i64) -> i64 {
        if !self.is_slower() {
            return 0;
        }
        (self.line_ticks * lines + self.fence_ticks) as i64 - self.overhead_ticks as i64 + carried
    }
}

thread_local! {
    /// Lines that the thread has flushed since its last fence.
    static OWED_LINES: Cell<u64> = const { Cell::new(0) };

    /// Ticks that its last fence has lost too few; below zero: too many, for the clock advances in steps that
    /// are not short beside a line of STT-RAM.
    static CARRIED: Cell<i64> = const { Cell::new(0) };
}

/// Calls `wait`, and then watches `clock` until `ticks` have passed; how many have. What is waited for is
/// over when the clock is read first: time that is lost beside a flush would not be lost.
fn lose(ticks: i64, wait: impl FnOnce(), mut clock: impl FnMut() -> u64) -> i64 {
    wait();
    if ticks <= 0 {
        return 0;
    }
    let start = clock();
    // Without the processor's hint for loops that wait: it alone takes as long as a line of STT-RAM.
    loop {
        let passed = clock().wrapping_sub(start);
        if passed >= ticks as u64 {
            return passed as i64;
        }
    }
}

/// Ends when all stores and flushes of the thread before it have been written.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn wait_for_stores() {
    // `mfence` orders flushes before loads, but not before the clock, which is no load; `lfence`
    // begins nothing behind it, the clock included, until `mfence` is over. (Behind `sfence` alone the
    // clock is read while the flush is still going on.)
    // SAFETY: every x86-64 processor has both, and neither touches memory.
    unsafe {
        std::arch::x86_64::_mm_mfence();
        std::arch::x86_64::_mm_lfence();
    }
}

#[cfg(any(miri, not(target_arch = "x86_64")))]
fn wait_for_stores() {
    store_fence();
}

/// What a reading of the clock takes: a half before the first reading and a half behind the last are lost
/// besides what passes between them.
fn overhead_ticks() -> u64 {
    let readings = (0..OVERHEAD_ROUNDS).map(|_| {
        let start = clock();
        clock().wrapping_sub(start)
    });
    readings.min().unwrap_or(0)
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn clock() -> u64 {
    // SAFETY: every x86-64 processor has both, and Linux lets programs use them. Nothing before the
    // clock is still to be done when it is read.
    unsafe {
        std::arch::x86_64::_mm_lfence();
        std::arch::x86_64::_rdtsc()
    }
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

    use std::cell::RefCell;

    use super::{SlowMedium, lose};
    use crate::flush::FlushInstruction;
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

    /// The clock runs from the moment at which the flush is over: what was asked for is lost behind it.
    #[test]
    fn time_is_lost_behind_the_flush_and_not_beside_it() {
        let calls = RefCell::new(Vec::new());
        let mut now = 0;
        let lost = lose(
            175,
            || calls.borrow_mut().push("flushed"),
            || {
                calls.borrow_mut().push("clock");
                now += 10;
                now
            },
        );
        let calls = calls.into_inner();
        assert_eq!(calls[0], "flushed");
        // 175 ticks end with the 18th step after the first reading.
        assert_eq!((calls.len(), lost), (1 + 1 + 18, 180));
        assert_eq!(lose(0, || {}, || unreachable!("nothing is owed")), 0);
    }

    #[test]
    fn lines_and_fences_cost_what_was_asked_for_less_what_losing_time_takes() {
        let medium = SlowMedium {
            instruction: FlushInstruction::Clflush,
            waits: true,
            line_ticks: 180,
            fence_ticks: 20,
            overhead_ticks: 15,
        };
        assert_eq!([1, 8, 47].map(|lines| medium.owed(lines, 0)), [185, 1_445, 8_465]);
        // What one fence loses too many, the next loses fewer, so that many lose what was asked for.
        let (mut carried, mut lost, fences) = (0, 0, 1_000);
        for _ in 0..fences {
            let owed = medium.owed(1, carried);
            let (mut now, step) = (0, 37);
            let this = lose(owed, || {}, || (now, now += step).0);
            carried = medium.carried(owed, this);
            lost += this + 15;
        }
        assert!((lost - fences * (180 + 20)).abs() <= 37, "{lost}");
        // Time in which something else ran is no time of the medium: what comes next is not cheaper for it.
        assert_eq!(medium.carried(185, 185 + 10_000_000), 0);
        // A medium as fast as the memory loses nothing.
        let medium = SlowMedium { line_ticks: 0, fence_ticks: 0, ..medium };
        assert_eq!(medium.owed(8, 0), 0);
    }
}
