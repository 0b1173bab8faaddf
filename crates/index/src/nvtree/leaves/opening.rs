//! How far the inner nodes know the leaves after an opening, and what is left of the hint.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use tembo_pmem::thread::lock;

use crate::key::KeyBytes;
use crate::nvtree::hint::Directory;
use crate::nvtree::inner::{LeafId, Lows};
use crate::{Error, Forest};

/// How far the inner nodes know the leaves.
#[derive(Default)]
pub(super) struct Opening {
    is_whole: AtomicBool,
    /// The hint, as long as the inner nodes do not know all its leaves.
    hint: Mutex<Option<Unread>>,
}

/// A hint of which not all pages were read.
pub(super) struct Unread {
    pub(super) directory: Directory,
    /// Whether each page was read.
    pub(super) read: Vec<bool>,
}

/// Which leaf a search wants: the last one with a low key...
#[derive(Clone, Copy)]
pub(super) enum Reach<'k> {
    /// not above the key.
    At(&'k [u8]),
    /// below the key.
    Below(&'k [u8]),
    /// at all.
    End,
}

impl Reach<'_> {
    pub(super) fn is_passed(self, low: KeyBytes<'_>) -> bool {
        match self {
            Reach::At(key) => low.compare(key).is_le(),
            Reach::Below(key) => low.compare(key).is_lt(),
            Reach::End => true,
        }
    }
}

impl Opening {
    /// Whether the inner nodes know every leaf: to be asked before they are.
    #[inline]
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole.load(Ordering::Acquire)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Option<Unread>> {
        lock(&self.hint)
    }

    pub(super) fn set_whole(&self, hint: &mut Option<Unread>) {
        *hint = None;
        self.is_whole.store(true, Ordering::Release);
    }
}

/// Low keys as a hint has them: for these no leaf need be read.
pub(super) struct FromHint<'h> {
    pub(super) known: HashMap<LeafId, &'h [u8]>,
    pub(super) forest: &'h Forest,
}

impl Lows for FromHint<'_> {
    fn low(&self, leaf: LeafId) -> Result<KeyBytes<'_>, Error> {
        match self.known.get(&leaf) {
            Some(&low) => Ok(low.into()),
            None => self.forest.low(leaf),
        }
    }
}
