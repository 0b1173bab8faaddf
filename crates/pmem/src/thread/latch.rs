//! A lock for short work by a thread that has it nearly for its own.
//!
//! # Two ways in
//! A thread takes a latch by an atomic exchange, and releases it by a mere store: a
//! [`Mutex`](std::sync::Mutex) is released by another exchange, and each waits for the flushes before it.
//!
//! A latch that has an *owner*, the thread of one [number](super::number()), can be *biased* towards it while the owner
//! holds it ([`Latch::bias`]). From then on the owner enters by a store and a load and without any exchange
//! ([`Latch::enter`]), so that the processor can begin with what it does inside while a fence from before is still
//! under way. Any other thread that takes the latch revokes the bias first, by the [barrier](mod@super::barrier) that it pays
//! for both. (Biased locking, or lock reservation: Kawachiya, Koseki, Onodera, OOPSLA 2002; its revocation by
//! such a barrier: Dice, Huang, Yang, *Asymmetric Dekker synchronization*, 2001.)
//!
//! ```text
//!             bias, by the owner that has taken it
//!   free ◄──────────────────────────────────────────┐
//!    │ take (exchange)                               │
//!    ▼                                               │
//!   taken ── was it biased? clear, barrier, wait ──► held
//!                           until the owner is out
//!
//!   biased: the owner sets is_inside, looks at is_biased ──► held, or leaves and takes
//! ```
//!
//! # Why no two threads hold it
//! *Threads that have taken it* are one at a time, by the exchange. `is_biased` changes only in their hands.
//!
//! *The owner and a thread that has taken it*: the owner stores `is_inside`, then looks at `is_biased`; the other
//! clears `is_biased`, goes through the barrier, then looks at `is_inside`. So it sees the owner inside and
//! waits until the owner has left, or the owner sees that the bias is gone, and leaves without having looked at the
//! value. As long as the latch is not biased again the owner does not get in, and to bias it takes the latch.
//!
//! *The owner and itself*, which comes while it is in: it finds `is_inside`, which only it writes. *The owner
//! and another of its number*: they never live at a time, and all that the first did, the second comes after. A
//! guard does not leave its thread.
//!
//! *What one did is seen by the next*: `is_inside` and `is_taken` are cleared with release and looked at with
//! acquire. (Where the owner follows itself, nothing is needed; but a guard in a thread local may outlive its
//! thread's number, and then the next thread of that number follows it.)
//!
//! Where the system has no such barrier no latch is ever biased. A test that schedules threads (that take turns
//! on one thread of the system) sees nothing of this: there the owner meets only itself. What is between it
//! and others is argued here, and tested by threads on processors.
#![allow(unsafe_code)]

#[cfg(test)]
mod tests;

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence};

use super::barrier::{barrier, has_barrier};
use super::number::{NO_NUMBER, has_number};
use super::wait::wait;

/// A value for one thread at a time. A thread that finds it held spins.
#[derive(Debug)]
pub struct Latch<T> {
    /// The owner's number, or [`NO_OWNER`].
    owner: usize,
    /// The owner may enter by a store. Changed by a thread that has taken the latch.
    is_biased: AtomicBool,
    /// The owner is in, or looks whether it may be. Written by the owner alone.
    is_inside: AtomicBool,
    is_taken: AtomicBool,
    value: UnsafeCell<T>,
}

/// No thread's number, not even that of one that has none.
const NO_OWNER: usize = NO_NUMBER - 2;

// SAFETY: one thread at a time is at the value, and each sees what the one before did: see above.
unsafe impl<T: Send> Sync for Latch<T> {}

/// The value of a [`Latch`], held until this is dropped. It does not leave its thread:
/// ```compile_fail,E0277
/// fn may_leave<T: Send>() {}
/// may_leave::<tembo_pmem::thread::LatchGuard<'_, u8>>();
/// ```
pub struct LatchGuard<'l, T> {
    value: &'l UnsafeCell<T>,
    /// Set as long as this lives.
    flag: &'l AtomicBool,
    /// As if it were the value's borrow, of this thread.
    of_thread: PhantomData<(&'l mut T, *const ())>,
}

impl<T> Latch<T> {
    /// A latch that is free, without an owner.
    const fn new(value: T) -> Latch<T> {
        Latch::with_owner(NO_OWNER, value)
    }

    /// A latch that is free; it can be biased towards the thread of that [number](super::number()).
    pub const fn of(owner: usize, value: T) -> Latch<T> {
        Latch::with_owner(if owner < NO_OWNER { owner } else { NO_OWNER }, value)
    }

    const fn with_owner(owner: usize, value: T) -> Latch<T> {
        Latch {
            owner,
            is_biased: AtomicBool::new(false),
            is_inside: AtomicBool::new(false),
            is_taken: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// The value, by its owner, if the latch is biased and the owner does not hold it.
    #[inline]
    pub fn enter(&self) -> Option<LatchGuard<'_, T>> {
        // Acquire: a guard of an earlier thread of this number may outlive the number.
        if !has_number(self.owner) || self.is_inside.load(Ordering::Acquire) {
            return None;
        }
        self.is_inside.store(true, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        if !self.is_biased.load(Ordering::Acquire) {
            self.is_inside.store(false, Ordering::Release);
            return None;
        }
        Some(self.guard(&self.is_inside))
    }

    /// The value, if no thread holds it; then the latch is not biased any more.
    pub fn try_lock(&self) -> Option<LatchGuard<'_, T>> {
        let guard = self.try_take()?;
        if self.revoke() {
            barrier();
        }
        (!self.is_inside.load(Ordering::Acquire)).then_some(guard)
    }

    /// The value, once no thread holds it; then the latch is not biased any more. A thread that holds it itself waits
    /// for ever.
    pub fn lock(&self) -> LatchGuard<'_, T> {
        let guard = self.take();
        if self.revoke() {
            barrier();
        }
        self.wait_for_owner();
        guard
    }

    /// The values of several, as by [`Latch::lock`] in this order, but with one barrier at the most. Each is
    /// given to `visit` with its name, and then released.
    pub fn lock_each<'l, N>(
        latches: impl Iterator<Item = (N, &'l Latch<T>)>,
        mut visit: impl FnMut(N, &mut T),
    ) where
        T: 'l,
    {
        let take = |(name, latch): (N, &'l Latch<T>)| (name, latch, latch.take());
        let taken: Vec<_> = latches.map(take).collect();
        // Nothing that could panic comes between this and the barrier.
        let revoke = |needs, (_, latch, _): &(N, &Latch<T>, _)| latch.revoke() | needs;
        if taken.iter().fold(false, revoke) {
            barrier();
        }
        for (name, latch, mut guard) in taken {
            latch.wait_for_owner();
            visit(name, &mut guard);
        }
    }

    /// Biases the latch towards its owner, if that is the thread that has taken it here.
    pub fn bias<'l>(&'l self, guard: LatchGuard<'l, T>) -> LatchGuard<'l, T> {
        let is_owner =
            has_number(self.owner) && std::ptr::eq(guard.flag, &self.is_taken) && has_barrier();
        if !is_owner {
            return guard;
        }
        self.is_inside.store(true, Ordering::Relaxed);
        self.is_biased.store(true, Ordering::Relaxed);
        // Releases what was taken, behind the two: a thread that takes it next finds the owner inside.
        drop(guard);
        self.guard(&self.is_inside)
    }

    #[inline]
    fn guard<'l>(&'l self, flag: &'l AtomicBool) -> LatchGuard<'l, T> {
        LatchGuard { value: &self.value, flag, of_thread: PhantomData }
    }

    fn try_take(&self) -> Option<LatchGuard<'_, T>> {
        let was_taken = self.is_taken.swap(true, Ordering::Acquire);
        // Not `then_some`: a guard that it makes and does not need would release the latch.
        if was_taken { None } else { Some(self.guard(&self.is_taken)) }
    }

    fn take(&self) -> LatchGuard<'_, T> {
        let mut round = 0;
        loop {
            if let Some(guard) = self.try_take() {
                return guard;
            }
            while self.is_taken.load(Ordering::Relaxed) {
                wait(round);
                round += 1;
            }
        }
    }

    /// From here on it is not biased; true if the owner may not have seen that yet. By a thread that has taken it.
    fn revoke(&self) -> bool {
        let was_biased = self.is_biased.load(Ordering::Relaxed);
        if was_biased {
            self.is_biased.store(false, Ordering::Relaxed);
        }
        was_biased && !has_number(self.owner)
    }

    /// Behind the barrier.
    fn wait_for_owner(&self) {
        let mut round = 0;
        while self.is_inside.load(Ordering::Acquire) {
            wait(round);
            round += 1;
        }
    }
}

/// A latch that is free, without an owner.
impl<T: Default> Default for Latch<T> {
    fn default() -> Self {
        Latch::new(T::default())
    }
}

impl<T> Deref for LatchGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: no other thread is at the value while this lives; see above.
        unsafe { &*self.value.get() }
    }
}

impl<T> DerefMut for LatchGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and `self` is borrowed for as long.
        unsafe { &mut *self.value.get() }
    }
}

impl<T> Drop for LatchGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.flag.store(false, Ordering::Release);
    }
}
