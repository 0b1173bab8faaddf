//! A transaction over any number of files.

use std::collections::BTreeSet;

use tembo_kv::{Durability, Isolation, Transaction};

use crate::Error;
use crate::fs::Fs;
use crate::inode::Time;
use crate::tree::{Tree, TreeMut};

/// A view of a file system as it was when the transaction began, with its own changes, which no other sees before it commits.
///
/// Of two that change the same file or the same directory the first to commit wins, and the other gets
/// [`Error::Store`] with a conflict: nothing of it was done. A file is its bytes, its owner and permissions, its names; a
/// directory is the set of its entries. Nothing is locked. What exceeds the store's memory for a transaction lies in the pool.
///
/// Dropping it leaves nothing.
pub struct FsTransaction {
    fs: Fs,
    transaction: Transaction,
    orphans: BTreeSet<u64>,
    is_broken: bool,
}

impl Fs {
    /// Begins a transaction: it sees the file system as it is now and its own changes, which no other sees before it
    /// commits.
    ///
    /// # Errors
    /// Those of the store.
    pub fn transaction(&self) -> Result<FsTransaction, Error> {
        let transaction = self.store().transaction(Isolation::Snapshot)?;
        let (fs, orphans) = (self.clone(), BTreeSet::new());
        Ok(FsTransaction { fs, transaction, orphans, is_broken: false })
    }
}

impl FsTransaction {
    /// The version that it began with.
    pub fn version(&self) -> u64 {
        self.transaction.version()
    }

    /// Reads.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn read<T>(
        &mut self,
        work: impl FnOnce(&mut Tree<&mut Transaction>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let (_, layout) = self.fs.begin_change(Time::default());
        work(&mut Tree::new(&mut self.transaction, layout))
    }

    /// Changes, at the time `now`. What was done before an error of `work` stays a part of the transaction.
    ///
    /// # Errors
    /// Those of `work`; [`Error::Broken`].
    pub fn change<T>(
        &mut self,
        now: Time,
        work: impl FnOnce(&mut TreeMut<'_, &mut Transaction>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let (mut changing, layout) = self.fs.begin_change(now);
        changing.orphans = std::mem::take(&mut self.orphans);
        changing.is_broken = self.is_broken;
        let mut tree = TreeMut::new(&mut self.transaction, layout, changing);
        let done = work(&mut tree);
        let changing = tree.into_changing();
        (self.orphans, self.is_broken) = (changing.orphans, changing.is_broken);
        done
    }

    /// Commits all or nothing; returns the version.
    ///
    /// Durability point: with [`Durability::Strict`] when it returns, else at the next sync.
    ///
    /// # Errors
    /// A conflict, and others of a commit ([`Error::Store`]); [`Error::Broken`]: nothing was done.
    pub fn commit(self, durability: Durability) -> Result<u64, Error> {
        if self.is_broken {
            return Err(Error::Broken);
        }
        let version = self.transaction.commit(durability)?;
        let orphans: Vec<u64> = self.orphans.into_iter().collect();
        // If this fails they stay orphans, which the next open of the file system removes.
        let _ = self.fs.remove_unopened(&orphans);
        Ok(version)
    }
}
