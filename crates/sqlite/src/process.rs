//! What is of one process. A fork copies a process's memory and none of its threads: what the parent has open, a child must not use.

use std::sync::Once;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// How many forks lie between the process that loaded the library and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Counts forks from now on.
pub(crate) fn watch_forks() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        // SAFETY: the function stays loaded, and does what may be done in a child: it adds to an atomic. If the system refuses for
        // want of memory, forks are not detected.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    });
}

extern "C" fn forked() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Differs between a process and its child.
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// A static value that a child of a fork begins anew. What it had from its parent, perhaps locked by a thread that the child
/// does not have, is left alone.
pub(crate) struct PerProcess<T: 'static>(AtomicPtr<Made<T>>);

struct Made<T> {
    generation: u32,
    value: T,
}

impl<T: Default + Send + Sync> PerProcess<T> {
    pub(crate) const fn new() -> PerProcess<T> {
        PerProcess(AtomicPtr::new(std::ptr::null_mut()))
    }

    pub(crate) fn get(&self) -> &'static T {
        let mut found = self.0.load(Ordering::Acquire);
        loop {
            // SAFETY: null, or what was put here below, which is never freed.
            if let Some(made) = unsafe { found.as_ref() }
                && made.generation == generation()
            {
                return &made.value;
            }
            let made = Made { generation: generation(), value: T::default() };
            let fresh = Box::into_raw(Box::new(made));
            match self.0.compare_exchange(found, fresh, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => found = fresh,
                Err(other) => {
                    // SAFETY: no other thread has seen it.
                    drop(unsafe { Box::from_raw(fresh) });
                    found = other;
                }
            }
        }
    }
}
