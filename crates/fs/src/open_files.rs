//! Which inodes are open: one that has lost its last name stays until it is closed.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How often each inode is open.
pub(crate) type Counts = BTreeMap<u64, u64>;

/// The inodes that are open.
#[derive(Default)]
pub(crate) struct OpenFiles(Mutex<Counts>);

impl OpenFiles {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Counts> {
        // A panic leaves every count whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What becomes of an inode that loses its last name.
pub(crate) enum Unlinking<'t> {
    /// It becomes an orphan, and is removed after the commit.
    Keep,
    /// It is removed, unless it is open. The table stays locked up to the commit, from the first look at it on: no other
    /// thread opens an inode that is being removed.
    UnlessOpen(&'t OpenFiles, Option<MutexGuard<'t, Counts>>),
}

impl<'t> Unlinking<'t> {
    pub(crate) fn unless_open(open: &'t OpenFiles) -> Unlinking<'t> {
        Unlinking::UnlessOpen(open, None)
    }

    /// Whether what is not needed any more goes with the change: in a transaction others may still need it.
    pub(crate) fn removes(&self) -> bool {
        matches!(self, Unlinking::UnlessOpen(..))
    }

    /// Whether the inode has to stay.
    pub(crate) fn keeps(&mut self, inode: u64) -> bool {
        match self {
            Unlinking::Keep => true,
            Unlinking::UnlessOpen(open, held) => {
                let open: &'t OpenFiles = open;
                held.get_or_insert_with(|| open.lock()).contains_key(&inode)
            }
        }
    }
}
