//! A clock for what is timed very often: the processor's counter of ticks, read in a third of the time of the system's clock.
//!
//! The counter serves only where Linux itself keeps time by it: then it runs at one rate, in all sleep states, and all
//! processors agree. Anywhere else a tick is a nanosecond of the system's steady clock.
//!
//! ```text
//!   start ──────────────── refine ───────────────── refine ──► rate = time elapsed / ticks elapsed
//!     └ watched for half a millisecond: the first rate, good to a thousandth or so
//! ```
#![allow(unsafe_code)]

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long the counter is watched to know its first rate.
const FIRST_WATCH: Duration = Duration::from_micros(500);

/// What Linux keeps time by.
const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// How often both clocks are read, to know them at one moment.
const TRIES: u32 = 8;

/// A rate is a fraction of two to this power.
const RATE_BITS: u32 = 32;

/// A clock of ticks, and their rate.
#[derive(Clone, Copy, Debug)]
pub struct TickClock {
    began: (Instant, u64),
    /// Nanoseconds a tick, times 2³².
    rate: u64,
    counts: bool,
}

impl TickClock {
    /// A clock that begins now. This takes half a millisecond, where the processor's counter serves.
    pub fn begin() -> TickClock {
        let counts = counter_serves();
        let mut clock = TickClock { began: (Instant::now(), 0), rate: 1 << RATE_BITS, counts };
        if counts {
            clock.began = both();
            while clock.began.0.elapsed() < FIRST_WATCH {
                std::hint::spin_loop();
            }
            clock.refine();
        }
        clock
    }

    /// Now, in ticks: they mean nothing by themselves.
    #[inline]
    pub fn now(&self) -> u64 {
        if self.counts { counter() } else { self.began.0.elapsed().as_nanos() as u64 }
    }

    /// The nanoseconds from one tick to another; 0 if they are in the other order.
    #[inline]
    pub fn ns_between(&self, from: u64, to: u64) -> u64 {
        let ticks = u128::from(to.saturating_sub(from));
        ((ticks * u128::from(self.rate)) >> RATE_BITS) as u64
    }

    /// Learns the rate from all the time since the clock began. To be called now and then.
    pub fn refine(&mut self) {
        if !self.counts {
            return;
        }
        let (now, count) = both();
        let elapsed_ns = now.duration_since(self.began.0).as_nanos();
        let ticks = count.saturating_sub(self.began.1);
        if let Some(rate) = (elapsed_ns << RATE_BITS).checked_div(u128::from(ticks)) {
            self.rate = rate as u64;
        }
    }
}

/// Whether the processor's counter is fit to keep time by: Linux judges it, and checks it as it runs.
fn counter_serves() -> bool {
    static SERVES: OnceLock<bool> = OnceLock::new();
    let reads = cfg!(all(target_arch = "x86_64", not(miri)));
    *SERVES.get_or_init(|| {
        reads && std::fs::read_to_string(CLOCK_SOURCE).is_ok_and(|source| source.trim() == "tsc")
    })
}

/// Both clocks at one moment: of some tries the one that nothing came between.
fn both() -> (Instant, u64) {
    let reading = || {
        let before = counter();
        let now = Instant::now();
        let width = counter().saturating_sub(before);
        (width, now, before + width / 2)
    };
    let least = (1..TRIES)
        .map(|_| reading())
        .fold(reading(), |least, other| if other.0 < least.0 { other } else { least });
    (least.1, least.2)
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
fn counter() -> u64 {
    // SAFETY: every x86-64 processor has rdtsc, and Linux lets programs use it.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Never asked: [`counter_serves`] says no.
#[cfg(any(miri, not(target_arch = "x86_64")))]
fn counter() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_turns_ticks_into_nanoseconds() {
        let clock =
            TickClock { began: (Instant::now(), 0), rate: 3 << (RATE_BITS - 1), counts: true };
        assert_eq!(clock.ns_between(100, 300), 300);
        assert_eq!(clock.ns_between(300, 100), 0);
        assert_eq!(clock.ns_between(0, 1 << 62), 3 << 61);
    }

    /// Between two readings of the system's clock the ticks have counted no more than lies between the readings around them.
    #[test]
    fn ticks_agree_with_the_systems_clock() {
        let mut clock = TickClock::begin();
        let outer = Instant::now();
        let from = clock.now();
        let inner = Instant::now();
        while inner.elapsed() < Duration::from_millis(20) {}
        let least_ns = inner.elapsed().as_nanos() as u64;
        let to = clock.now();
        let most_ns = outer.elapsed().as_nanos() as u64;
        clock.refine();
        let counted_ns = clock.ns_between(from, to);
        assert!(counted_ns >= least_ns - least_ns / 50, "{counted_ns} of {least_ns}");
        assert!(counted_ns <= most_ns + most_ns / 50, "{counted_ns} of {most_ns}");
    }

    #[test]
    fn where_the_counter_does_not_serve_a_tick_is_a_nanosecond() {
        let clock = TickClock { began: (Instant::now(), 0), rate: 1 << RATE_BITS, counts: false };
        let (from, to) = (clock.now(), clock.now());
        assert!(to >= from);
        assert_eq!(clock.ns_between(from, from + 17), 17);
    }
}
