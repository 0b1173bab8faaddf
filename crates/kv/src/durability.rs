//! How durable a commit is, and a store.

use crate::{Error, Store};

/// How durable a commit is when it returns; capped by the region's policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Synced before it returns. Commits that wait for a sync at the same time share one.
    #[default]
    Strict,
    /// Handed to the operating system before it returns: it survives the end of the process, not that of the machine. Durable
    /// at the next sync.
    Written,
    /// Visible when it returns, durable at the next sync: of a later strict commit, or by
    /// [`Store::sync`](crate::Store::sync).
    Buffered,
}

impl Store {
    /// Syncs: everything that is visible becomes as durable as the policy promises.
    ///
    /// # Errors
    /// [`Error::Poisoned`], for good; [`Error::NotDurable`]: call it again when the disk has room.
    pub fn sync(&self) -> Result<(), Error> {
        let shared = &self.handle().shared;
        shared.versions.sync(shared.region())
    }

    /// Hands everything that is visible to the operating system, as [`Durability::Written`] has it.
    ///
    /// # Errors
    /// As of [`sync`](Store::sync).
    pub fn write_out(&self) -> Result<(), Error> {
        self.handle().shared.make_durable(Durability::Written)
    }

    /// Every version up to it is fenced.
    pub fn visible(&self) -> u64 {
        self.handle().shared.versions.pins.visible()
    }

    /// Every version up to it is synced.
    pub fn durable(&self) -> u64 {
        self.handle().shared.versions.durable()
    }
}
