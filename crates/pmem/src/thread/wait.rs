//! Waiting for another thread: one place for every loop that spins and every lock that is held across
//! steps of the waist.
//!
//! A test that decides itself which thread goes on (threads that take turns on one thread of the system)
//! must learn that one waits, or that one waits for ever. It gives a function that lets the others
//! go on. Otherwise nothing is asked but where a thread waits already.

use std::hint::spin_loop;
use std::sync::{
    Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockWriteGuard, TryLockError, TryLockResult,
};

/// Lets other threads go on; false if it has nothing to do with the calling thread.
type Yield = fn() -> bool;

/// Rounds before a thread that waits lets others have its processor.
const SPINS: usize = 200;

static YIELD: OnceLock<Yield> = OnceLock::new();

/// A thread that waits calls `others` from here on, in the whole process, which lets other threads go on and is false if it
/// has nothing to do with the calling thread; false if another function is called already. For tests that schedule threads.
pub fn set_yield(others: fn() -> bool) -> bool {
    std::ptr::fn_addr_eq(*YIELD.get_or_init(|| others), others)
}

fn others_went_on() -> bool {
    YIELD.get().is_some_and(|others| others())
}

/// One round of a loop that waits for another thread: the round with that number, from 0 on. Where there are
/// fewer processors than threads, the other may need this thread's: after some rounds it gets it.
#[cold]
pub fn wait(round: usize) {
    if !others_went_on() {
        if round < SPINS { spin_loop() } else { std::thread::yield_now() }
    }
}

/// Sleeps until the thread is unparked, or for no reason; where threads take turns, others go on.
#[cold]
pub fn park() {
    if !others_went_on() {
        std::thread::park();
    }
}

/// Locks. A panic of the thread that held the lock is not this caller's: what it guards is sound at every step.
#[inline]
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    taken(mutex.try_lock()).unwrap_or_else(|| in_turn(|| mutex.try_lock(), || mutex.lock()))
}

/// As [`lock`], to write.
#[inline]
pub fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    taken(lock.try_write()).unwrap_or_else(|| in_turn(|| lock.try_write(), || lock.write()))
}

fn taken<G>(tried: TryLockResult<G>) -> Option<G> {
    match tried {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Gets what another thread may have: by `tries` while a test decides which thread goes on, else by `blocks`. For
/// locks that [`lock`] does not know; after a first attempt that has failed.
#[cold]
pub fn wait_for<G>(mut tries: impl FnMut() -> Option<G>, blocks: impl FnOnce() -> G) -> G {
    while others_went_on() {
        if let Some(got) = tries() {
            return got;
        }
    }
    blocks()
}

#[cold]
fn in_turn<G>(
    tries: impl Fn() -> TryLockResult<G>,
    blocks: impl FnOnce() -> Result<G, PoisonError<G>>,
) -> G {
    while others_went_on() {
        if let Some(guard) = taken(tries()) {
            return guard;
        }
    }
    blocks().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    thread_local! {
        static HELD: RefCell<Option<MutexGuard<'static, ()>>> = const { RefCell::new(None) };
    }

    /// The lock's holder goes on and lets go. False on other threads.
    fn lets_go() -> bool {
        HELD.take().is_some()
    }

    #[test]
    fn a_thread_that_finds_a_lock_held_lets_its_holder_go_on() {
        static MUTEX: Mutex<()> = Mutex::new(());
        assert!(set_yield(lets_go) && set_yield(lets_go));
        assert!(!set_yield(|| true), "one function a process");
        HELD.set(Some(lock(&MUTEX)));
        drop(lock(&MUTEX));
        assert!(HELD.take().is_none(), "its holder has let go");
        // Where no other can go on it blocks like any lock, until it is free.
        std::thread::scope(|scope| {
            let held = lock(&MUTEX);
            let waits = scope.spawn(|| drop(lock(&MUTEX)));
            drop(held);
            waits.join().unwrap();
        });
    }

    #[test]
    fn a_panic_with_the_lock_leaves_it_open() {
        let (mutex, rw) = (Mutex::new(1), RwLock::new(1));
        let panics = std::panic::AssertUnwindSafe(|| {
            let (_one, _two) = (lock(&mutex), write(&rw));
            panic!("with both");
        });
        assert!(std::panic::catch_unwind(panics).is_err() && mutex.is_poisoned());
        assert_eq!((*lock(&mutex), *write(&rw)), (1, 1));
    }
}
