//! What is of one process. A fork copies a process's memory and none of its threads: what the parent has open, a child must not use.

use std::os::fd::RawFd;
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};

/// How many forks lie between the process that loaded the library and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Counts forks from now on.
pub(crate) fn watch_forks() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        // SAFETY: the function stays loaded, and does what may be done in a child: it changes atomics and closes files. If the
        // system refuses for want of memory, forks are not detected.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    });
}

extern "C" fn forked() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    for slot in &INHERITED {
        let fd = slot.swap(FREE, Ordering::Relaxed);
        if fd != FREE {
            // SAFETY: the child's copy; what owns it is of the parent, and is not used or dropped here.
            unsafe { libc::close(fd) };
        }
    }
}

/// No file.
const FREE: RawFd = -1;

/// Open files that a child closes: it would keep connections from ending with the parent.
static INHERITED: [AtomicI32; 2048] = [const { AtomicI32::new(FREE) }; 2048];

/// An open file that is closed in a child. It is dropped before the file is closed.
pub(crate) struct Inherited(Option<&'static AtomicI32>);

impl Inherited {
    /// Without a free place the child keeps the file.
    pub(crate) fn new(fd: RawFd) -> Inherited {
        let is_taken = |slot: &&AtomicI32| {
            slot.compare_exchange(FREE, fd, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        Inherited(INHERITED.iter().find(is_taken))
    }
}

impl Drop for Inherited {
    fn drop(&mut self) {
        if let Some(slot) = self.0 {
            slot.store(FREE, Ordering::Relaxed);
        }
    }
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
