//! Directories that were removed while programs may have been in them.
//!
//! What the kernel asks of an inode that is not there any more, it has mostly found by a name that another file has got meanwhile: it is to
//! look again. Of a directory that was removed there is nothing to look for: a program is in it still.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Directories that are remembered.
const GONE_MAX: usize = 1024;

/// The numbers of the directories that were removed last.
#[derive(Default)]
pub(crate) struct Gone(Mutex<VecDeque<u64>>);

impl Gone {
    fn lock(&self) -> MutexGuard<'_, VecDeque<u64>> {
        // A panic leaves each number whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a directory was removed.
    pub(crate) fn note(&self, directory: u64) {
        let mut gone = self.lock();
        if gone.len() == GONE_MAX {
            gone.pop_front();
        }
        gone.push_back(directory);
    }

    pub(crate) fn has(&self, directory: u64) -> bool {
        self.lock().contains(&directory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directories_that_were_removed_last_are_known() {
        let gone = Gone::default();
        (0..2 * GONE_MAX as u64).for_each(|directory| gone.note(directory));
        assert_eq!(gone.lock().len(), GONE_MAX);
        assert!(!gone.has(GONE_MAX as u64 - 1) && gone.has(GONE_MAX as u64));
    }
}
