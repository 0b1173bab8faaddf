//! Which process this is: a fork is a process of its own, with copies of all handles of its parent.
//!
//! Two processes that append to one log destroy it, and two that store into one mapping of a file destroy the pool. So
//! a region with a file belongs to the process that opened it. A child finds that out by a word in a page
//! that the system gives back as zeros in a child (`MADV_WIPEONFORK`, Linux 4.14): one load, where a call
//! for the process's number would cost as much as a small operation. Where the system does not know that, the
//! number is asked for.
#![allow(unsafe_code)]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The process that made this value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process {
    token: u64,
    /// Holds the token of the process that looks; `None`: its number is the token.
    mark: Option<&'static AtomicU64>,
}

impl Process {
    /// This process.
    pub(crate) fn current() -> Process {
        static MARK: OnceLock<Option<&'static AtomicU64>> = OnceLock::new();
        // A child goes on counting where its parent was: no token of a process comes again in its descendants.
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let Some(mark) = *MARK.get_or_init(make_mark) else {
            return Process { token: std::process::id().into(), mark: None };
        };
        let fresh = NEXT.fetch_add(1, Ordering::Relaxed);
        let token = match mark.compare_exchange(0, fresh, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => fresh,
            Err(token) => token,
        };
        Process { token, mark: Some(mark) }
    }

    /// Whether the calling process is that one.
    #[inline]
    pub(crate) fn is_current(&self) -> bool {
        match self.mark {
            Some(mark) => mark.load(Ordering::Relaxed) == self.token,
            None => u64::from(std::process::id()) == self.token,
        }
    }
}

/// A word that is zero in a child, and at the beginning.
#[cfg(not(miri))]
fn make_mark() -> Option<&'static AtomicU64> {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

    let len = crate::mapping::PAGE as usize;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address of the system's choice, which is never unmapped; its content is wiped in
    // children only.
    unsafe {
        let at = mmap_anonymous(std::ptr::null_mut(), len, access, MapFlags::PRIVATE).ok()?;
        madvise(at, len, Advice::LinuxWipeOnFork).ok()?;
        Some(&*at.cast::<AtomicU64>())
    }
}

/// There are no children.
#[cfg(miri)]
fn make_mark() -> Option<&'static AtomicU64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_knows_itself() {
        let (one, two) = (Process::current(), Process::current());
        assert!(one.is_current() && two.is_current());
        assert_eq!(one.token, two.token);
        assert!(!Process { token: one.token + 1, ..one }.is_current());
    }
}
