//! Compaction: what a store holds is written anew, close together, and the rest of its pool becomes free.
//!
//! Each keyspace gets another tree with the same keys, in one commit: a crash leaves either the old tree or the new one. The first
//! pass goes to chunks that nothing uses, so that the old trees leave whole chunks behind; the second one to the
//! lowest of these. So the end of the pool becomes free, and is given back to the file system when the pool is closed. Free
//! space in the middle becomes holes: it arises where something else keeps its place.

use crate::ledger::reclaim;
use crate::{Durability, Error, Keyspace, Progress, Store};

/// The first pass empties chunks, the second one fills the lowest of them.
const PASSES: usize = 2;

/// Steps of the background between two looks at whether it is done.
const STEPS: usize = 256;

impl Store {
    /// Writes what the store holds anew, close together, so that the rest of its pool becomes free: each keyspace in a commit of its
    /// own. The blocks of what is free are given back to the file system; when the store is closed, the file is cut where its
    /// content ends.
    ///
    /// It needs as much free space as what is visible takes, and the pool grows for that. What named snapshots, the
    /// window and other tenants of the pool keep stays where it is.
    ///
    /// Durability point: when it returns. After an error everything is as it was, but for where it lies.
    ///
    /// # Errors
    /// [`Error::Full`]; [`Error::ReadOnly`], [`Error::IsReplica`]; [`Error::Conflict`]: a prepared transaction holds a
    /// key; [`Error::WouldDeadlock`].
    pub fn compact(&self) -> Result<(), Error> {
        self.handle().shared.check_writable()?;
        let pool = self.handle().shared.pool();
        let passes = || -> Result<(), Error> {
            settle(self)?;
            for _ in 0..PASSES {
                pool.begin_compaction();
                for (_, keyspace) in self.keyspaces() {
                    rewrite(self, keyspace)?;
                }
                settle(self)?;
            }
            Ok(())
        };
        let done = passes();
        pool.end_compaction();
        done?;
        pool.shrink_when_closed();
        Ok(pool.give_all_blocks_back()?)
    }
}

/// Gives a keyspace another tree with the same keys.
fn rewrite(store: &Store, keyspace: Keyspace) -> Result<(), Error> {
    // The writer comes first, so that the snapshot has all changes that others make before it has the lock.
    let mut writer = store.exclusive()?;
    let before = store.snapshot()?;
    writer.clear(keyspace)?;
    for entry in before.range::<[u8]>(keyspace, ..)? {
        let (key, value) = entry?;
        writer.put(keyspace, &key, &value)?;
    }
    writer.commit(Durability::Strict).map(drop)
}

/// Waits until the unlinked objects are given back, and does the background's work meanwhile.
fn settle(store: &Store) -> Result<(), Error> {
    loop {
        let mut writing = store.handle().lock()?;
        let (shared, ledger) = writing.parts();
        reclaim(shared, ledger);
        drop(writing);
        let is_idle = store.maintain(STEPS)? == Progress::Idle;
        if is_idle && !store.report().recovering {
            return Ok(());
        }
        // The store's own thread, or another tenant of the pool, does the work.
        std::thread::yield_now();
    }
}
