//! Which files have changes that may not be durable: what a close has to wait for.
//!
//! Other programs change other files all the time. A close that waited for those too would be a sync each, of all programs, though an
//! fsync before it has made its file durable.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Files that are remembered one by one.
const FILES_MAX: usize = 16_384;

/// The versions of the last changes of files.
#[derive(Default)]
pub(crate) struct Unsynced(Mutex<Changes>);

#[derive(Default)]
struct Changes {
    of: BTreeMap<u64, u64>,
    /// Any file may have been changed by a version up to this one.
    of_any: u64,
}

impl Unsynced {
    fn lock(&self) -> MutexGuard<'_, Changes> {
        // A panic leaves each version as it was before or after.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Files were changed by a version, or by one before it; `durable`: all up to that one need not be remembered.
    pub(crate) fn note(&self, inodes: &[u64], version: u64, durable: u64) {
        if version <= durable {
            return;
        }
        let mut changes = self.lock();
        for &inode in inodes {
            // Threads may come here in another order than that of their commits.
            let last = changes.of.entry(inode).or_default();
            *last = version.max(*last);
        }
        if changes.of.len() > FILES_MAX {
            changes.of.retain(|_, version| *version > durable);
            if changes.of.len() > FILES_MAX / 2 {
                changes.of.clear();
                changes.of_any = version.max(changes.of_any);
            }
        }
    }

    /// Whether a file has a change that is later than the `durable` version.
    pub(crate) fn has(&self, inode: u64, durable: u64) -> bool {
        let mut changes = self.lock();
        let version = changes.of.get(&inode).copied().unwrap_or_default();
        if version <= durable {
            changes.of.remove(&inode);
        }
        version.max(changes.of_any) > durable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_what_was_changed_since_the_last_sync() {
        let unsynced = Unsynced::default();
        unsynced.note(&[1, 2], 10, 9);
        unsynced.note(&[3], 11, 9);
        unsynced.note(&[4], 9, 9);
        // Of an earlier commit, whose thread comes later.
        unsynced.note(&[3], 10, 9);
        let has = |durable| [1, 2, 3, 4].map(|inode| unsynced.has(inode, durable));
        assert_eq!(has(9), [true, true, true, false]);
        assert_eq!(has(10), [false, false, true, false]);
        assert_eq!(has(11), [false; 4]);
    }

    #[test]
    fn more_files_than_are_remembered_are_all_taken_for_changed() {
        let unsynced = Unsynced::default();
        for inode in 0..3 * FILES_MAX as u64 {
            unsynced.note(&[inode], inode + 1, 0);
            assert!(unsynced.lock().of.len() <= FILES_MAX);
        }
        for inode in 0..3 * FILES_MAX as u64 {
            assert!(unsynced.has(inode, inode));
        }
        assert!(!unsynced.has(1, u64::MAX));
    }
}
