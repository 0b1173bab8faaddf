//! A line of threads that wait for a lock.
//!
//! Where many threads want a lock that each holds for some microseconds, waking one at each release costs more than what
//! the lock is held for. So of those that wait one is *next*: it looks for the lock without sleeping, as long as that is
//! cheap. The others sleep, and a release that finds a next one wakes none (a restricted set of active threads: Dice,
//! *Malthusian Locks*, EuroSys 2017).
//!
//! ```text
//!   has the lock        next: looks         asleep, the first to come first
//!       A                   B                   C D E
//!       releases            gets it
//!       comes back: next    releases                           none is woken
//!       ...
//!       A                   B ── after some passes ──► C       B gets the lock, C is woken and is next, A comes back: asleep
//! ```
//!
//! # Why no thread sleeps for ever
//! A thread falls asleep only if there is a next one when it joins those asleep: the state of the line is one word, so one
//! of the two changes comes first. The next one gets the lock, and either hands its place on or leaves it; and looks at the
//! line when it [releases](Line::release) the lock. If there is no next one then, it wakes the first of those asleep. After
//! [`PASSES`] of those that were next, or when one had to look for long, the place is handed on: so all come.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::Thread;

use super::wait::{lock, wait};

/// How often the next thread looks before it sleeps at the lock itself: for about a hundred microseconds.
const LOOKS: usize = 400;

/// A lock that was looked for so often is held for long: to wake a thread costs little beside that.
const LOOKS_LONG: usize = 200;

/// Threads that were next before one hands its place to the first of those asleep.
const PASSES: u32 = 64;

/// State of a line: there is a next one.
const NEXT: usize = 1;
/// State of a line: one more is asleep.
const ASLEEP: usize = 2;

/// A line before a lock.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Line {
    state: AtomicUsize,
    /// How many were next since the place was handed on. The next one changes it.
    passes: AtomicU32,
    asleep: Mutex<VecDeque<Arc<Sleeper>>>,
}

#[derive(Debug)]
struct Sleeper {
    thread: Thread,
    is_next: AtomicBool,
}

impl Line {
    /// Gets a lock that another thread has: by `tries`, or by `blocks` if that fails for long. Each thread that has the lock
    /// calls [`release`](Line::release) before it gives it up.
    #[cold]
    pub fn wait<G>(&self, tries: impl Fn() -> Option<G>, blocks: impl FnOnce() -> G) -> G {
        while self.state.fetch_or(NEXT, Ordering::AcqRel) & NEXT != 0 {
            if self.sleep() {
                break;
            }
        }
        let looked = (0..LOOKS).find_map(|round| {
            let got = tries();
            if got.is_none() {
                wait(round);
            }
            got.map(|got| (got, round))
        });
        let (got, rounds) = looked.unwrap_or_else(|| (blocks(), LOOKS));
        let passes = self.passes.load(Ordering::Relaxed) + 1;
        if passes >= PASSES || rounds >= LOOKS_LONG {
            self.passes.store(0, Ordering::Relaxed);
            self.hand_on();
        } else {
            self.passes.store(passes, Ordering::Relaxed);
            self.state.fetch_and(!NEXT, Ordering::AcqRel);
        }
        got
    }

    /// The caller is about to release the lock.
    #[inline]
    pub fn release(&self) {
        let state = self.state.load(Ordering::Relaxed);
        if state >= ASLEEP && state & NEXT == 0 {
            self.call();
        }
    }

    /// Wakes the first of those asleep, if there is no next one.
    #[cold]
    fn call(&self) {
        if self.state.fetch_or(NEXT, Ordering::AcqRel) & NEXT == 0 {
            self.hand_on();
        }
    }

    /// Makes the first of those asleep the next one. The place is the caller's to give.
    fn hand_on(&self) {
        let mut asleep = lock(&self.asleep);
        let Some(first) = asleep.pop_front() else {
            // With the list locked: a thread that comes later finds no next one, and does not sleep.
            self.state.fetch_and(!NEXT, Ordering::AcqRel);
            return;
        };
        self.state.fetch_sub(ASLEEP, Ordering::AcqRel);
        drop(asleep);
        first.is_next.store(true, Ordering::Release);
        first.thread.unpark();
    }

    /// Sleeps until the thread is the next one; false: it need not sleep, for there is no next one any more.
    fn sleep(&self) -> bool {
        let sleeper =
            Arc::new(Sleeper { thread: std::thread::current(), is_next: AtomicBool::new(false) });
        let mut asleep = lock(&self.asleep);
        asleep.push_back(sleeper.clone());
        if self.state.fetch_add(ASLEEP, Ordering::AcqRel) & NEXT == 0 {
            self.state.fetch_sub(ASLEEP, Ordering::AcqRel);
            asleep.pop_back();
            return false;
        }
        drop(asleep);
        while !sleeper.is_next.load(Ordering::Acquire) {
            std::thread::park();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// Takes the lock, calls `work`, and releases the lock.
    fn locked<T>(line: &Line, mutex: &Mutex<T>, work: impl FnOnce(&mut T)) {
        let mut guard = match mutex.try_lock() {
            Ok(guard) => guard,
            Err(_) => line.wait(|| mutex.try_lock().ok(), || mutex.lock().unwrap()),
        };
        work(&mut guard);
        line.release();
    }

    fn spin(rounds: u64) {
        (0..rounds).for_each(|_| std::hint::spin_loop());
    }

    /// Threads that do little, much or nothing between their uses of a lock, which is held for a short or a long time.
    #[test]
    fn all_threads_come_to_their_end_and_leave_an_empty_line() {
        const THREADS: u64 = 8;
        const USES: u64 = 3_000;
        for held in [0, 20, 2_000] {
            let (line, mutex) = (Line::default(), Mutex::new(0));
            let uses = if held > 1_000 { USES / 10 } else { USES };
            std::thread::scope(|scope| {
                for thread in 0..THREADS {
                    let (line, mutex) = (&line, &mutex);
                    scope.spawn(move || {
                        for nth in 0..uses {
                            locked(line, mutex, |count| {
                                spin(held);
                                *count += 1;
                            });
                            if thread % 2 == 0 {
                                spin(thread * nth % 500);
                            }
                            if nth % 1_000 == 999 {
                                std::thread::yield_now();
                            }
                        }
                    });
                }
            });
            assert_eq!(*mutex.lock().unwrap(), THREADS * uses);
            assert_eq!(line.state.load(Ordering::Relaxed), 0);
            assert!(lock(&line.asleep).is_empty());
        }
    }

    /// Two threads that always want the lock do not keep the others from it.
    #[test]
    fn a_thread_that_sleeps_comes_though_others_always_want_the_lock() {
        let (line, mutex) = (Line::default(), Mutex::new([0_u64; 6]));
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..6 {
                let (line, mutex, is_over) = (&line, &mutex, &is_over);
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        locked(line, mutex, |counts| {
                            spin(200);
                            counts[thread] += 1;
                        });
                    }
                });
            }
            let began = Instant::now();
            let mut least = 0;
            while least < 100 && began.elapsed() < LONG {
                std::thread::yield_now();
                locked(&line, &mutex, |counts| least = *counts.iter().min().unwrap());
            }
            is_over.store(true, Ordering::Relaxed);
            assert!(least >= 100, "{least}");
        });
    }

    #[test]
    fn a_release_wakes_one_if_there_is_no_next_one() {
        let (line, mutex) = (Line::default(), Mutex::new(0));
        let held = mutex.lock().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| locked(&line, &mutex, |count| *count += 1));
            }
            let began = Instant::now();
            // One is next, and two sleep.
            while line.state.load(Ordering::Relaxed) != NEXT + 2 * ASLEEP {
                assert!(began.elapsed() < LONG, "they do not wait");
                std::thread::yield_now();
            }
            line.release();
            assert_eq!(line.state.load(Ordering::Relaxed), NEXT + 2 * ASLEEP, "none was woken");
            drop(held);
        });
        assert_eq!((*mutex.lock().unwrap(), line.state.load(Ordering::Relaxed)), (3, 0));
    }
}
