//! The writer's lock: one thread, or one handle, at a time changes more than a single key.
//!
//! A handle that has the lock between its calls ([`Exclusive`](crate::Exclusive)) owns its guard. The lock notes which
//! thread used it last: if that thread asks for the lock, it would wait for itself, and gets an error. Threads wait in a
//! [`Line`].

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

use parking_lot::{ArcMutexGuard, Mutex, MutexGuard, RawMutex};
use tembo_pmem::thread::{Line, wait_for};

use crate::Error;
use crate::ledger::Ledger;

/// The guard of one call: gives access to the ledger until it is dropped.
pub(super) type Guard<'l> = MutexGuard<'l, Ledger>;

/// The guard of a handle: gives access to the ledger until it is dropped.
pub(super) type OwnedGuard = ArcMutexGuard<RawMutex, Ledger>;

/// The ledger under the writer's lock.
pub(super) struct WriterLock {
    ledger: Arc<Mutex<Ledger>>,
    line: Line,
    /// The thread that has last used the handle that has the lock. 0: no handle has it.
    holder: AtomicUsize,
}

thread_local! {
    static THREAD: Cell<usize> = const { Cell::new(0) };
}

/// The number of the calling thread. No other thread ever has it, not even one that begins later.
#[inline]
fn this_thread() -> usize {
    match THREAD.get() {
        0 => draw(),
        thread => thread,
    }
}

#[cold]
fn draw() -> usize {
    static DRAWN: AtomicUsize = AtomicUsize::new(0);
    let thread = DRAWN.fetch_add(1, Ordering::Relaxed) + 1;
    THREAD.set(thread);
    thread
}

impl WriterLock {
    pub(super) fn new(ledger: Ledger) -> WriterLock {
        let (ledger, line) = (Arc::new(Mutex::new(ledger)), Line::default());
        WriterLock { ledger, line, holder: AtomicUsize::new(0) }
    }

    /// # Errors
    /// [`Error::WouldDeadlock`].
    #[inline]
    pub(super) fn lock(&self) -> Result<Guard<'_>, Error> {
        match self.ledger.try_lock() {
            Some(guard) => Ok(guard),
            None => self.wait(|| self.ledger.try_lock(), || self.ledger.lock()),
        }
    }

    /// # Errors
    /// [`Error::WouldDeadlock`].
    pub(super) fn lock_owned(&self) -> Result<OwnedGuard, Error> {
        let guard = match self.ledger.try_lock_arc() {
            Some(guard) => guard,
            None => self.wait(|| self.ledger.try_lock_arc(), || self.ledger.lock_arc())?,
        };
        self.note_holder();
        Ok(guard)
    }

    /// Takes the lock, if it is free.
    pub(super) fn try_lock(&self) -> Option<Guard<'_>> {
        self.ledger.try_lock()
    }

    #[cold]
    fn wait<G>(
        &self,
        tries: impl Fn() -> Option<G>,
        blocks: impl FnOnce() -> G,
    ) -> Result<G, Error> {
        wait_for(
            || tries().map(Ok),
            || {
                self.check()?;
                Ok(self.line.wait(&tries, blocks))
            },
        )
    }

    /// The thread is about to release the lock. Each that has got it calls this.
    #[inline]
    pub(super) fn release(&self) {
        self.line.release();
    }

    /// Waits until the lock is free.
    ///
    /// # Errors
    /// [`Error::WouldDeadlock`].
    pub(super) fn pass(&self) -> Result<(), Error> {
        let guard = self.lock()?;
        self.release();
        drop(guard);
        Ok(())
    }

    /// # Errors
    /// [`Error::WouldDeadlock`] if the calling thread has last used a handle that has the lock.
    pub(super) fn check(&self) -> Result<(), Error> {
        fence(Ordering::SeqCst);
        let is_own = self.holder.load(Ordering::Acquire) == this_thread();
        if !is_own {
            return Ok(());
        }
        // Threads that a test schedules are one thread of the system: this code does not distinguish them.
        wait_for(|| Some(Ok(())), || Err(Error::WouldDeadlock))
    }

    /// Whether a handle has the lock.
    pub(super) fn has_holder(&self) -> bool {
        self.holder.load(Ordering::Acquire) != 0
    }

    /// Notes that the calling thread uses the handle that has the lock.
    #[inline]
    pub(super) fn note_holder(&self) {
        self.holder.store(this_thread(), Ordering::Relaxed);
    }

    /// Notes that the handle releases the lock.
    pub(super) fn forget_holder(&self) {
        self.holder.store(0, Ordering::Release);
    }
}
