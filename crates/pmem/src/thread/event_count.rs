//! An event count: threads and event loops wait until something has happened, and a thread that makes it happen pays
//! a load.
//!
//! The notifier changes what is waited for, then looks whether a thread waits; the waiter says that it waits, then looks
//! at what it waits for (an event count: Reed and Kanodia, *Synchronization with eventcounts and sequencers*, CACM
//! 1979). One of the two must see the other. The waiter comes much more rarely, and pays for both by a
//! [barrier](super::barrier): [`notify`](EventCount::notify) is a load and a branch.
//!
//! ```text
//!   notifier:  publish ── is it armed? ─ no ──► on
//!                              └ yes ─► disarm, count a wake, wake all
//!   waiter:    read the count ── arm ── barrier ── look ─ ready ──► on
//!                    ▲                              └ not yet ─► sleep until the count is another
//!                    └──────────────────────────────────────────────┘
//! ```
//!
//! # Why no wake is lost
//! What is published before a waiter's barrier is seen by its look; what is published after it finds the count armed,
//! or disarmed since by another notifier, which counts a wake after that. The waiter has read the count before it
//! armed: so it finds another one, and does not sleep. A notifier that has disarmed for one waiter wakes all.
//!
//! A descriptor is readable from a wake until [`rearm`](EventCount::rearm) finds nothing. It drains the descriptor before it
//! arms: what comes afterwards makes it readable again.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};

use super::barrier::full_barrier;
use super::wait::{lock, wait_for};

/// Wakes threads and event loops that wait for what is published elsewhere.
///
/// Away from the lines of others: the notifiers read it with each of their changes.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct EventCount {
    /// A waiter needs a wake.
    is_armed: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    wakes: u64,
    interrupts: u64,
    descriptors: Vec<Weak<OwnedFd>>,
}

/// A file descriptor that an event loop waits for: readable when there may be something. Not to be read or written but
/// by its [`EventCount`].
#[derive(Clone, Debug)]
pub struct EventFd(Arc<OwnedFd>);

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for EventFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Makes a descriptor readable.
fn signal(descriptor: &OwnedFd) {
    // It can fail only if the descriptor is readable already.
    let _ = rustix::io::write(descriptor, &1u64.to_ne_bytes());
}

impl EventCount {
    /// What was published before the call wakes those that wait for it. A load, if there are none.
    #[inline]
    pub fn notify(&self) {
        compiler_fence(Ordering::SeqCst);
        if self.is_armed.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    /// Ends the sleep of all threads that wait now, whatever they wait for.
    pub fn interrupt(&self) {
        lock(&self.state).interrupts += 1;
        self.wake_all();
    }

    #[cold]
    fn wake(&self) {
        if self.is_armed.swap(false, Ordering::SeqCst) {
            self.wake_all();
        }
    }

    fn wake_all(&self) {
        let mut state = lock(&self.state);
        state.wakes += 1;
        state.descriptors.retain(|descriptor| {
            let descriptor = descriptor.upgrade();
            descriptor.iter().for_each(|descriptor| signal(descriptor));
            descriptor.is_some()
        });
        drop(state);
        self.changed.notify_all();
    }

    /// What is published from here on wakes; what was published before can be seen.
    fn arm(&self) {
        self.is_armed.store(true, Ordering::SeqCst);
        full_barrier();
    }

    /// Sleeps until `is_ready` is true, which is asked at the begin and after each wake; false: the time is over, or an
    /// [`interrupt`](EventCount::interrupt) came. [`Duration::MAX`]: without a limit of time.
    pub fn wait(&self, timeout: Duration, is_ready: impl Fn() -> bool) -> bool {
        is_ready() || wait_for(|| is_ready().then_some(true), || self.sleep(timeout, &is_ready))
    }

    fn sleep(&self, timeout: Duration, is_ready: &dyn Fn() -> bool) -> bool {
        let until = Instant::now().checked_add(timeout);
        let interrupts = lock(&self.state).interrupts;
        loop {
            let wakes = lock(&self.state).wakes;
            self.arm();
            if is_ready() {
                return true;
            }
            let mut state = lock(&self.state);
            while state.wakes == wakes && state.interrupts == interrupts {
                let left = until.map(|until| until.saturating_duration_since(Instant::now()));
                state = match left {
                    None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                    Some(Duration::ZERO) => return false,
                    Some(left) => {
                        let waited = self.changed.wait_timeout(state, left);
                        waited.unwrap_or_else(PoisonError::into_inner).0
                    }
                };
            }
            if state.interrupts != interrupts {
                drop(state);
                return is_ready();
            }
        }
    }

    /// A descriptor that each wake makes readable; it is so at first.
    ///
    /// # Errors
    /// Those of the system: too many files are open.
    pub fn subscribe(&self) -> io::Result<EventFd> {
        let descriptor = Arc::new(eventfd(1, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        lock(&self.state).descriptors.push(Arc::downgrade(&descriptor));
        Ok(EventFd(descriptor))
    }

    /// Makes a descriptor unreadable until the next wake, unless `is_ready` is true, which is returned.
    pub fn rearm(&self, descriptor: &EventFd, is_ready: impl Fn() -> bool) -> bool {
        // An error says that it is not readable.
        let _ = rustix::io::read(&*descriptor.0, &mut [0; 8]);
        self.arm();
        let ready = is_ready();
        if ready {
            signal(&descriptor.0);
        }
        ready
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn is_readable(descriptor: &EventFd, seconds: i64) -> bool {
        let timeout = Timespec { tv_sec: seconds, tv_nsec: 0 };
        poll(&mut [PollFd::new(descriptor, PollFlags::IN)], Some(&timeout)).unwrap() == 1
    }

    /// Each of two publishers waits for the waiters after each value: a wake that is lost is a minute's sleep.
    #[test]
    fn no_wake_is_lost() {
        const ROUNDS: u64 = 3_000;
        let (event, value) = (EventCount::default(), AtomicU64::new(0));
        let seen = [const { AtomicU64::new(0) }; 3];
        let descriptor = event.subscribe().unwrap();
        std::thread::scope(|scope| {
            for seen in &seen[..2] {
                let (event, value) = (&event, &value);
                scope.spawn(move || {
                    for round in 1..=ROUNDS {
                        assert!(event.wait(LONG, || value.load(Ordering::Relaxed) >= round));
                        seen.store(round, Ordering::Relaxed);
                    }
                });
            }
            scope.spawn(|| {
                for round in 1..=ROUNDS {
                    let is_ready = || value.load(Ordering::Relaxed) >= round;
                    while !event.rearm(&descriptor, is_ready) {
                        assert!(is_readable(&descriptor, 60), "{round}");
                    }
                    seen[2].store(round, Ordering::Relaxed);
                }
            });
            for round in 1..=ROUNDS {
                value.store(round, Ordering::Release);
                event.notify();
                let began = Instant::now();
                while seen.iter().any(|seen| seen.load(Ordering::Relaxed) < round) {
                    assert!(began.elapsed() < LONG, "a wake was lost in round {round}");
                    std::thread::yield_now();
                }
            }
        });
    }

    #[test]
    fn a_descriptor_is_readable_from_a_wake_until_nothing_is_found() {
        let event = EventCount::default();
        let (one, two) = (event.subscribe().unwrap(), event.subscribe().unwrap());
        assert!(is_readable(&one, 0) && is_readable(&two, 0), "at first");
        assert!(!event.rearm(&one, || false) && !event.rearm(&two, || false));
        assert!(!is_readable(&one, 0) && !is_readable(&two, 0));
        event.notify();
        assert!(is_readable(&one, 0) && is_readable(&two, 0));
        assert!(event.rearm(&one, || true) && is_readable(&one, 0), "there is something");
        assert!(!event.rearm(&one, || false) && !is_readable(&one, 0));
        drop(two);
        event.notify();
        assert!(is_readable(&one, 0));
        assert_eq!(lock(&event.state).descriptors.len(), 1, "the other was forgotten");
    }

    #[test]
    fn a_wait_ends_by_its_time_or_by_an_interrupt() {
        let event = EventCount::default();
        assert!(!event.wait(Duration::from_millis(1), || false));
        assert!(event.wait(Duration::ZERO, || true));
        let waits = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                event.wait(Duration::MAX, || {
                    waits.store(true, Ordering::Relaxed);
                    false
                })
            });
            // Until it sleeps: an interrupt before that is none of its own.
            while !waiter.is_finished() {
                if waits.load(Ordering::Relaxed) {
                    event.interrupt();
                }
                std::thread::yield_now();
            }
            assert!(!waiter.join().unwrap());
        });
    }

    #[test]
    fn notifying_without_a_waiter_wakes_none() {
        let event = EventCount::default();
        event.notify();
        assert_eq!(lock(&event.state).wakes, 0);
        assert!(!event.wait(Duration::ZERO, || false));
        // The wait has armed it, and is over: one notifier finds that out.
        event.notify();
        event.notify();
        assert_eq!(lock(&event.state).wakes, 1);
    }
}
