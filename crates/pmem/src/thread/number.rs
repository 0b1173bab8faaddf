//! Numbers of threads.
//!
//! What belongs to a thread in a table, as a slot, is found by its number. No two threads have the
//! same at a time, and a thread that begins gets the least that is free: so few numbers are in use where few threads
//! are, however many there have been. A number goes back when its thread ends, and is given out under the same
//! lock: so all that its thread did comes before all that its successor does.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Mutex, PoisonError};

/// Of a thread that is about to end, and has no number any more.
pub(super) const NO_NUMBER: usize = usize::MAX;

/// In a thread that has not asked yet.
const UNKNOWN: usize = NO_NUMBER - 1;

static FREE: Mutex<Free> = Mutex::new(Free { given_back: BinaryHeap::new(), next: 0 });

struct Free {
    given_back: BinaryHeap<Reverse<usize>>,
    /// This and all above it were never given out.
    next: usize,
}

thread_local! {
    static NUMBER: Cell<usize> = const { Cell::new(UNKNOWN) };
    static LEASE: Lease = Lease::draw();
}

/// A thread's right to its number.
struct Lease(usize);

impl Lease {
    fn draw() -> Lease {
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        let number = free.given_back.pop().map_or(free.next, |Reverse(least)| least);
        free.next = free.next.max(number + 1);
        Lease(number)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        NUMBER.set(NO_NUMBER);
        FREE.lock().unwrap_or_else(PoisonError::into_inner).given_back.push(Reverse(self.0));
    }
}

/// The number of the calling thread, which no other has as long as it lives; `usize::MAX` of a thread that is
/// about to end.
#[inline]
pub fn number() -> usize {
    match NUMBER.get() {
        UNKNOWN => draw(),
        number => number,
    }
}

/// Whether the calling thread has asked and has that number.
#[inline]
pub(super) fn has_number(number: usize) -> bool {
    NUMBER.get() == number
}

#[cold]
fn draw() -> usize {
    let number = LEASE.try_with(|lease| lease.0).unwrap_or(NO_NUMBER);
    NUMBER.set(number);
    number
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn threads_that_live_at_a_time_have_different_numbers_and_give_them_back() {
        const AT_A_TIME: usize = 20;
        let own = number();
        let mut greatest = 0;
        for _ in 0..50 {
            let all_have_one = Barrier::new(AT_A_TIME);
            let numbers: Vec<usize> = std::thread::scope(|scope| {
                let ask = || {
                    let own = number();
                    all_have_one.wait();
                    assert_eq!(number(), own);
                    own
                };
                let threads: Vec<_> = (0..AT_A_TIME).map(|_| scope.spawn(ask)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let different: HashSet<usize> = numbers.iter().copied().chain([own]).collect();
            assert_eq!(different.len(), AT_A_TIME + 1);
            greatest = numbers.into_iter().fold(greatest, usize::max);
        }
        // Other tests of the process have some too.
        assert!(greatest < 10 * AT_A_TIME, "{greatest}");
    }

    #[test]
    fn a_thread_that_ends_has_no_number() {
        struct Asks(std::sync::mpsc::Sender<usize>);
        impl Drop for Asks {
            fn drop(&mut self) {
                self.0.send(number()).unwrap();
            }
        }
        thread_local!(static LAST: Cell<Option<Asks>> = const { Cell::new(None) });
        let (sender, receiver) = std::sync::mpsc::channel();
        let end = move || {
            // What is set up first is dropped last.
            LAST.set(Some(Asks(sender)));
            assert_ne!(number(), NO_NUMBER);
        };
        std::thread::spawn(end).join().unwrap();
        assert_eq!(receiver.recv().unwrap(), NO_NUMBER);
    }
}
