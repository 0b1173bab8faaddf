//! A lock for short work by a thread that has it nearly for its own.
//!
//! # Two ways in
//! Whoever comes takes a latch by an atomic exchange, and gives it back by a mere store: a
//! [`Mutex`](std::sync::Mutex) gives itself back by another exchange, and each waits for the flushes before it.
//!
//! A latch that has an *owner*, the thread of one [number](crate::thread_number), can be *lent* to him while he has it
//! ([`Latch::lend`]). From then on he comes in by a store and a load and without any exchange
//! ([`Latch::reenter`]), so that the processor can begin with what he does inside while a fence from before is still
//! under way. Whoever else takes the latch takes it back from him first, by the [barrier](crate::barrier) that he pays
//! for both. (Biased locking, or lock reservation: Kawachiya, Koseki, Onodera, OOPSLA 2002; its revocation by
//! such a barrier: Dice, Huang, Yang, *Asymmetric Dekker synchronization*, 2001.)
//!
//! # Why nobody meets anybody inside
//! *Who have taken it* are one at a time, by the exchange. `is_lent` changes only in their hands.
//!
//! *The owner and who has taken it*: the owner stores `is_inside`, then looks at `is_lent`; who takes the latch
//! from him clears `is_lent`, goes through the barrier, then looks at `is_inside`. So he sees the owner inside and
//! waits until he has left, or the owner sees that it is not lent to him, and leaves without having looked at the value.
//! As long as it is not lent again he will not get in, and to lend it takes the latch.
//!
//! *The owner and himself*, who comes while he is in: he finds `is_inside`, which only he writes. *The owner
//! and another of his number*: they never live at a time, and all that the first did, the second comes after. A
//! guard does not leave its thread.
//!
//! *What one did is seen by the next*: `is_inside` and `is_taken` are cleared with release and looked at with
//! acquire; where the owner follows himself, nothing is needed.
//!
//! Where the system has no such barrier no latch is ever lent. Nor does who chooses schedules (threads that take turns
//! on one thread of the system) see anything of this: there the owner meets only himself. What is between him
//! and others is argued here, and tested by threads on processors.
#![allow(unsafe_code)]

#[cfg(test)]
mod tests;

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence};

use crate::barrier::{barrier, has_barrier};
use crate::number::{NO_NUMBER, has_number};
use crate::wait_in_round;

/// A value for one thread at a time. Who finds it taken spins.
#[derive(Debug)]
pub struct Latch<T> {
    /// The owner's number; [`NOBODY`]: none.
    owner: usize,
    /// The owner may come in by a store. Changed by who has taken the latch.
    is_lent: AtomicBool,
    /// The owner is in, or looks whether he may be. Written by him alone.
    is_inside: AtomicBool,
    is_taken: AtomicBool,
    value: UnsafeCell<T>,
}

/// No thread's number, not even one's that has none.
const NOBODY: usize = NO_NUMBER - 2;

// SAFETY: one thread at a time is at the value, and each sees what the one before did: see above.
unsafe impl<T: Send> Sync for Latch<T> {}

/// The value of a [`Latch`], until this is dropped. It does not leave its thread:
/// ```compile_fail,E0277
/// fn may_leave<T: Send>() {}
/// may_leave::<tembo_pmem::Latched<'_, u8>>();
/// ```
pub struct Latched<'l, T> {
    value: &'l UnsafeCell<T>,
    /// Set as long as this lives.
    flag: &'l AtomicBool,
    /// As if it were the value's borrow, of this thread.
    of_thread: PhantomData<(&'l mut T, *const ())>,
}

impl<T> Latch<T> {
    /// That nobody has, and nobody owns.
    pub const fn new(value: T) -> Latch<T> {
        Latch::with_owner(NOBODY, value)
    }

    /// That nobody has; it can be lent to the thread of that [number](crate::thread_number).
    pub const fn of(owner: usize, value: T) -> Latch<T> {
        Latch::with_owner(if owner < NOBODY { owner } else { NOBODY }, value)
    }

    const fn with_owner(owner: usize, value: T) -> Latch<T> {
        Latch {
            owner,
            is_lent: AtomicBool::new(false),
            is_inside: AtomicBool::new(false),
            is_taken: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// The value, by the owner, if it is lent to him and he does not have it.
    #[inline]
    pub fn reenter(&self) -> Option<Latched<'_, T>> {
        // Acquire: a guard of an earlier thread of this number may outlive the number, in another of its
        // thread's locals.
        if !has_number(self.owner) || self.is_inside.load(Ordering::Acquire) {
            return None;
        }
        self.is_inside.store(true, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        if !self.is_lent.load(Ordering::Acquire) {
            self.is_inside.store(false, Ordering::Release);
            return None;
        }
        Some(self.latched(&self.is_inside))
    }

    /// The value, if nobody has it; then it is not lent any more.
    pub fn try_lock(&self) -> Option<Latched<'_, T>> {
        let latched = self.try_take()?;
        if self.take_back() {
            barrier();
        }
        (!self.is_inside.load(Ordering::Acquire)).then_some(latched)
    }

    /// The value, once nobody has it; then it is not lent any more. Who has it waits for ever.
    pub fn lock(&self) -> Latched<'_, T> {
        let latched = self.take();
        if self.take_back() {
            barrier();
        }
        self.wait_for_owner();
        latched
    }

    /// The values of several, as by [`Latch::lock`] in this order, but with one barrier at the most. Each is
    /// given to `visit` with its name, and then given back.
    pub fn lock_each<'l, N>(
        latches: impl Iterator<Item = (N, &'l Latch<T>)>,
        mut visit: impl FnMut(N, &mut T),
    ) where
        T: 'l,
    {
        let take = |(name, latch): (N, &'l Latch<T>)| (name, latch, latch.take());
        let taken: Vec<_> = latches.map(take).collect();
        // Nothing that could panic comes between this and the barrier.
        let take_back = |needs, (_, latch, _): &(N, &Latch<T>, _)| latch.take_back() | needs;
        if taken.iter().fold(false, take_back) {
            barrier();
        }
        for (name, latch, mut latched) in taken {
            latch.wait_for_owner();
            visit(name, &mut latched);
        }
    }

    /// Lends the latch to its owner, if it is he who has taken it here.
    pub fn lend<'l>(&'l self, latched: Latched<'l, T>) -> Latched<'l, T> {
        let is_his =
            has_number(self.owner) && std::ptr::eq(latched.flag, &self.is_taken) && has_barrier();
        if !is_his {
            return latched;
        }
        self.is_inside.store(true, Ordering::Relaxed);
        self.is_lent.store(true, Ordering::Relaxed);
        // Gives back what was taken, behind the two: who takes it next finds the owner inside.
        drop(latched);
        self.latched(&self.is_inside)
    }

    #[inline]
    fn latched<'l>(&'l self, flag: &'l AtomicBool) -> Latched<'l, T> {
        Latched { value: &self.value, flag, of_thread: PhantomData }
    }

    fn try_take(&self) -> Option<Latched<'_, T>> {
        let was_taken = self.is_taken.swap(true, Ordering::Acquire);
        // Not `then_some`: what it makes and does not need would give the latch back.
        if was_taken { None } else { Some(self.latched(&self.is_taken)) }
    }

    fn take(&self) -> Latched<'_, T> {
        let mut round = 0;
        loop {
            if let Some(latched) = self.try_take() {
                return latched;
            }
            while self.is_taken.load(Ordering::Relaxed) {
                wait_in_round(round);
                round += 1;
            }
        }
    }

    /// From here on it is not lent; true if the owner may not have seen that yet. By who has taken it.
    fn take_back(&self) -> bool {
        let was_lent = self.is_lent.load(Ordering::Relaxed);
        if was_lent {
            self.is_lent.store(false, Ordering::Relaxed);
        }
        was_lent && !has_number(self.owner)
    }

    /// Behind the barrier.
    fn wait_for_owner(&self) {
        let mut round = 0;
        while self.is_inside.load(Ordering::Acquire) {
            wait_in_round(round);
            round += 1;
        }
    }
}

impl<T: Default> Default for Latch<T> {
    fn default() -> Self {
        Latch::new(T::default())
    }
}

impl<T> Deref for Latched<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: nobody else is at the value while this lives; see above.
        unsafe { &*self.value.get() }
    }
}

impl<T> DerefMut for Latched<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and `self` is borrowed for as long.
        unsafe { &mut *self.value.get() }
    }
}

impl<T> Drop for Latched<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.flag.store(false, Ordering::Release);
    }
}
