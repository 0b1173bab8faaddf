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
    /// Ticks that a fence takes for losing time, beyond what passes between its readings of the clock.
    overhead_ticks: u64,
}

/// How long the clock is watched to know its rate.
const CALIBRATION: Duration = Duration::from_millis(2);

/// Of so many measurements of the overhead the least is taken.
const OVERHEAD_ROUNDS: usize = 200;

/// Fences in such a measurement: few, so that some measurements run undisturbed on a loaded machine.
const OVERHEAD_BATCH: u32 = 16;

/// Nanoseconds that each of them loses.
const OVERHEAD_NS: u32 = 100;

/// Overheads by which one fence may lose too much or too little for the next to make up for it.
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
            overhead_ticks: overhead_ticks(ticks(OVERHEAD_NS) as i64),
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
        let lost = wait_and_lose(owed);
        CARRIED.set(self.carried(owed, lost));
    }

    /// What the next fence is to lose more, or less: a step of the clock, but no time in which the system has
    /// run something else.
    fn carried(&self, owed: i64, lost: i64) -> i64 {
        // Where nothing was to be lost the clock was not read, and the overhead was not lost either.
        let beside = if lost == 0 { self.overhead_ticks as i64 } else { 0 };
        let carried = owed - lost + beside;
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

/// What a fence does, and what is measured to know what it takes besides: the same code for both, never a copy of it
/// that the compiler has made faster.
#[inline(never)]
fn wait_and_lose(ticks: i64) -> i64 {
    lose(ticks, wait_for_stores, clock)
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

/// Ticks that a fence takes for losing time besides what passes between its readings of the clock: what readings
/// outside see of fences that lose so many ticks, less what they have lost, and less what fences take that lose
/// nothing. So the end of the loop is in it. Nothing is flushed: what a line takes differs with where it lies.
fn overhead_ticks(ticks: i64) -> u64 {
    let beside = |ticks: i64| {
        let start = clock();
        let lost: i64 = (0..OVERHEAD_BATCH).map(|_| wait_and_lose(ticks)).sum();
        clock().wrapping_sub(start) as i64 - lost
    };
    let (mut least, mut reading) = ([i64::MAX; 2], i64::MAX);
    // One beside the other, so that all meet the same machine.
    for _ in 0..OVERHEAD_ROUNDS {
        for (least, ticks) in least.iter_mut().zip([0, ticks]) {
            *least = beside(ticks).min(*least);
        }
        let start = clock();
        reading = (clock().wrapping_sub(start) as i64).min(reading);
    }
    let [without, with] = least;
    // No less than a reading: a half of one stands before the first, and a half behind the last.
    let ticks = ((with - without) / OVERHEAD_BATCH as i64).max(reading);
    ticks.unsigned_abs()
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

    const MEDIUM: SlowMedium = SlowMedium {
        instruction: FlushInstruction::Clflush,
        waits: true,
        line_ticks: 0,
        fence_ticks: 0,
        overhead_ticks: 15,
    };

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
        let medium = SlowMedium { line_ticks: 180, fence_ticks: 20, ..MEDIUM };
        assert_eq!([1, 8, 47].map(|lines| medium.owed(lines, 0)), [185, 1_445, 8_465]);
        // Time in which something else ran is no time of the medium: what comes next is not cheaper for it.
        assert_eq!(medium.carried(185, 185 + 10_000_000), 0);
        // A medium as fast as the memory loses nothing.
        let medium = SlowMedium { line_ticks: 0, fence_ticks: 0, ..medium };
        assert_eq!(medium.owed(8, 0), 0);
    }

    /// Steps of the counted clock.
    const STEP: i64 = 37;

    /// Ticks that fences lose behind so many lines each, by a clock that counts.
    fn lost_by(medium: SlowMedium, fences: i64, lines: u64) -> i64 {
        let (mut carried, mut lost) = (0, 0);
        for _ in 0..fences {
            let owed = medium.owed(lines, carried);
            let mut now = 0;
            let this = lose(owed, || {}, || (now, now += STEP as u64).0);
            carried = medium.carried(owed, this);
            lost += if this > 0 { this + medium.overhead_ticks as i64 } else { 0 };
        }
        lost
    }

    /// What one fence loses too many, the next loses fewer, so that many lose what was asked for: of slow lines, of
    /// lines that are little slower than losing time itself, and of such as are faster.
    #[test]
    fn many_fences_lose_what_was_asked_for() {
        for line_ticks in [1, 8, 14, 15, 16, 20, 51, 125, 180, 450] {
            let medium = SlowMedium { line_ticks, ..MEDIUM };
            for (fences, lines) in [(1_000, 1), (1_000, 8), (1_000, 47)] {
                let asked = fences * line_ticks as i64 * lines as i64;
                let lost = lost_by(medium, fences, lines);
                let step = STEP + medium.overhead_ticks as i64;
                assert!((lost - asked).abs() <= step, "{line_ticks} {lines}: {lost} of {asked}");
            }
        }
    }
}
