//! A lock for short work by a thread that has it nearly for its own.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::wait_in_round;

/// A value for one thread at a time. Where nobody else wants it, having it costs one atomic exchange, and
/// giving it back no more than a store: a [`Mutex`](std::sync::Mutex) gives itself back by another
/// exchange, and that would wait for the flushes before it. Who finds it taken spins.
#[derive(Debug, Default)]
pub struct Latch<T> {
    is_taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `is_taken` lets one thread at a time at the value, with acquire and release between two.
unsafe impl<T: Send> Sync for Latch<T> {}

/// The value of a [`Latch`], until this is dropped.
///
/// Several threads may look at it only if they may look at the value:
/// ```compile_fail,E0277
/// fn may_be_looked_at<T: Sync>() {}
/// may_be_looked_at::<tembo_pmem::Latched<'_, std::cell::Cell<u8>>>();
/// ```
pub struct Latched<'l, T> {
    latch: &'l Latch<T>,
    /// As if it were the value's borrow.
    value: PhantomData<&'l mut T>,
}

impl<T> Latch<T> {
    /// That nobody has.
    pub const fn new(value: T) -> Latch<T> {
        Latch { is_taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// The value, if nobody has it.
    #[inline]
    pub fn try_lock(&self) -> Option<Latched<'_, T>> {
        let was_taken = self.is_taken.swap(true, Ordering::Acquire);
        // Not `then_some`: what it makes and does not need would give the latch back.
        if was_taken { None } else { Some(Latched { latch: self, value: PhantomData }) }
    }

    /// The value, once nobody has it.
    #[inline]
    pub fn lock(&self) -> Latched<'_, T> {
        self.try_lock().unwrap_or_else(|| self.lock_in_turn())
    }

    #[cold]
    fn lock_in_turn(&self) -> Latched<'_, T> {
        let mut round = 0;
        loop {
            if !self.is_taken.load(Ordering::Relaxed)
                && let Some(latched) = self.try_lock()
            {
                return latched;
            }
            wait_in_round(round);
            round += 1;
        }
    }
}

impl<T> Deref for Latched<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: nobody else is at the value while this lives; see `Latch::try_lock`.
        unsafe { &*self.latch.value.get() }
    }
}

impl<T> DerefMut for Latched<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and `self` is borrowed for as long.
        unsafe { &mut *self.latch.value.get() }
    }
}

impl<T> Drop for Latched<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.latch.is_taken.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_at_a_time_is_at_the_value() {
        const ADDED: u64 = 100_000;
        let (latch, begin) = (Latch::new((0u64, 0u64)), std::sync::Barrier::new(4));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    begin.wait();
                    for _ in 0..ADDED {
                        let mut both = latch.lock();
                        both.0 += 1;
                        both.1 += 1;
                        assert_eq!(both.0, both.1);
                    }
                });
            }
        });
        let both = latch.try_lock().unwrap();
        assert_eq!(*both, (4 * ADDED, 4 * ADDED));
        assert!(latch.try_lock().is_none() && latch.try_lock().is_none());
        drop(both);
        assert!(latch.try_lock().is_some());
    }
}
