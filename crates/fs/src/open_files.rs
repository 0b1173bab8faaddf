//! Which inodes are open: one that has lost its last name stays until it is closed.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The inodes that are open, by their numbers.
pub(crate) type Opened = BTreeMap<u64, Uses>;

/// How an inode is open.
#[derive(Default)]
pub(crate) struct Uses {
    /// How often.
    pub(crate) count: u64,
    /// Whether it may have lost its last name: its last close looks for that.
    pub(crate) may_be_orphan: bool,
}

/// The inodes that are open.
#[derive(Default)]
pub(crate) struct OpenFiles(Mutex<Opened>);

impl OpenFiles {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Opened> {
        // A panic leaves every count whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes an inode once. Whether that was its last close, and it may have lost its last name.
    pub(crate) fn close(&self, number: u64) -> bool {
        let mut open = self.lock();
        match open.get_mut(&number) {
            Some(uses) if uses.count > 1 => {
                uses.count -= 1;
                false
            }
            _ => open.remove(&number).is_none_or(|uses| uses.may_be_orphan),
        }
    }

    /// Those of these inodes that are open may have lost their last names.
    pub(crate) fn note_orphans(&self, numbers: &[u64]) {
        let mut open = self.lock();
        for number in numbers {
            if let Some(uses) = open.get_mut(number) {
                uses.may_be_orphan = true;
            }
        }
    }
}

/// What becomes of an inode that loses its last name.
pub(crate) enum Unlinking<'t> {
    /// It becomes an orphan, and is removed after the commit.
    Keep,
    /// It is removed, unless it is open. The table stays locked up to the commit, from the first look at it on: no other
    /// thread opens an inode that is being removed.
    UnlessOpen(&'t OpenFiles, Option<MutexGuard<'t, Opened>>),
}

impl<'t> Unlinking<'t> {
    pub(crate) fn unless_open(open: &'t OpenFiles) -> Unlinking<'t> {
        Unlinking::UnlessOpen(open, None)
    }

    /// Whether what is not needed any more goes with the change: in a transaction others may still need it.
    pub(crate) fn removes(&self) -> bool {
        matches!(self, Unlinking::UnlessOpen(..))
    }

    /// Whether an inode that loses its last name, or has lost it, has to stay. If it is open, it is looked at when it is closed.
    pub(crate) fn keeps(&mut self, inode: u64) -> bool {
        match self {
            Unlinking::Keep => true,
            Unlinking::UnlessOpen(open, held) => {
                let open: &'t OpenFiles = open;
                let uses = held.get_or_insert_with(|| open.lock()).get_mut(&inode);
                uses.is_some_and(|uses| {
                    uses.may_be_orphan = true;
                    true
                })
            }
        }
    }
}
