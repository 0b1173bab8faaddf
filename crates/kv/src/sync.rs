//! How far a store is durable, what makes it so, and what is written together for it.

use crate::{Durability, Error, Store};

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

    /// Whether values of so many bytes are less work if they are [expected](crate::Exclusive::expect_puts), or put
    /// [together](crate::Exclusive::put_all).
    pub fn writes_together(&self, bytes: u64) -> bool {
        self.handle().shared.region().writes_together(bytes)
    }
}
