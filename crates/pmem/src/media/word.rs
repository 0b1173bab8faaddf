//! A word of persistent memory.

use std::sync::atomic::{AtomicU64, Ordering};

use zerocopy::{FromBytes, KnownLayout};

/// Eight bytes on media that may change after publication: loaded by anyone, stored only through
/// [`Region`](crate::Region), so that no persistent store escapes the waist.
#[derive(Debug, FromBytes, KnownLayout)]
#[repr(transparent)]
pub struct Word(AtomicU64);

const _: () = assert!(size_of::<Word>() == 8 && align_of::<Word>() == 8);

impl Word {
    /// Loads the word with acquire ordering.
    #[inline]
    pub fn load(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn put(&self, value: u64) {
        self.0.store(value, Ordering::Release);
    }
}
