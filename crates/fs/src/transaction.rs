//! A transaction over any number of files.

use std::collections::BTreeSet;

use tembo_kv::{Durability, Isolation, Snapshot, Transaction};

use crate::Error;
use crate::fs::{Fs, InProgress};
use crate::time::Time;
use crate::tree::{AnyTreeMut, Tree};
use crate::watched::{Touched, Watched};

/// A view of a file system as it was when the transaction began, with its own changes, which no other sees before it commits.
///
/// Of two that change the same file or the same directory the first to commit wins, and the other gets
/// [`Error::Store`] with a conflict: nothing of it was done. It gets it at the first change of that file or directory after
/// the other has committed, at the latest when it commits itself. A file is its bytes, its owner and permissions, its names; a
/// directory is the set of its entries. Nothing is locked. What exceeds the store's memory for a transaction lies in the pool.
///
/// Dropping it leaves nothing.
pub struct FsTransaction {
    fs: Fs,
    transaction: Transaction,
    /// The file system as it was when it began.
    before: Snapshot,
    touched: Touched,
    orphans: BTreeSet<u64>,
    /// Bytes of pieces that it may add in all; `None`: any number.
    allowed: Option<u64>,
    /// Bytes of pieces that it has added.
    added: u64,
    is_broken: bool,
    /// The time of its last change.
    changed: Option<Time>,
    /// Lets others know that it is there.
    _in_progress: InProgress,
}

impl Fs {
    /// Begins a transaction: it sees the file system as it is now and its own changes, which no other sees before it
    /// commits.
    ///
    /// # Errors
    /// Those of the store.
    pub fn transaction(&self) -> Result<FsTransaction, Error> {
        let in_progress = self.begin_transaction();
        let mut transaction = self.store().transaction(Isolation::Snapshot)?;
        let mut before = self.store().snapshot()?;
        while before.version() != transaction.version() {
            transaction = self.store().transaction(Isolation::Snapshot)?;
            before = self.store().snapshot()?;
        }
        Ok(FsTransaction {
            fs: self.clone(),
            transaction,
            before,
            touched: Touched::default(),
            orphans: BTreeSet::new(),
            allowed: self.begin_change(Time::default()).0.left,
            added: 0,
            is_broken: false,
            changed: None,
            _in_progress: in_progress,
        })
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
    /// Those of `work`; a conflict ([`Error::Store`]), after which it can only be dropped; [`Error::Broken`].
    pub fn change<T>(
        &mut self,
        now: Time,
        work: impl FnOnce(&mut AnyTreeMut<'_, '_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.changed = Some(now);
        let (mut changing, layout) = self.fs.begin_change(now);
        changing.orphans = std::mem::take(&mut self.orphans);
        changing.is_broken = self.is_broken;
        // What is not in the pool yet is not counted by it.
        let own = self.allowed.map(|allowed| allowed.saturating_sub(self.added));
        changing.left = changing.left.map(|left| left.min(own.unwrap_or(left)));
        let left = changing.left;
        let mut watched = Watched {
            transaction: &mut self.transaction,
            before: &self.before,
            store: self.fs.store(),
            tree: layout.tree,
            touched: &mut self.touched,
        };
        let mut tree = AnyTreeMut::new(&mut watched, layout, changing);
        let done = work(&mut tree);
        let changing = tree.into_changing();
        (self.orphans, self.is_broken) = (changing.orphans, changing.is_broken);
        self.added += left.unwrap_or(0).saturating_sub(changing.left.unwrap_or(0));
        done
    }

    /// Those of the inodes that it has changed that were there before, and are open: a cache may have changes of them that are not
    /// made yet. Made before the commit, they are a conflict.
    pub fn touched_open(&self) -> Vec<u64> {
        self.fs.open_of(&self.touched.inodes)
    }

    /// Commits all or nothing; returns the version. It counts as done at the time of its last change.
    ///
    /// Durability point: with [`Durability::Strict`] when it returns, else at the next sync.
    ///
    /// # Errors
    /// A conflict, and others of a commit ([`Error::Store`]); [`Error::Broken`]: nothing was done.
    pub fn commit(self, durability: Durability) -> Result<u64, Error> {
        let now = self.changed.unwrap_or_default();
        self.commit_seen(now, durability, |_| ())
    }

    /// As [`commit`](FsTransaction::commit), at the time `now`, and returns also what it has changed of what was there when it began, for
    /// caches: also with an error, since a commit that is [not durable](tembo_kv::Error::NotDurable) is visible.
    ///
    /// # Errors
    /// As of [`commit`](FsTransaction::commit).
    pub fn commit_touched(
        self,
        now: Time,
        durability: Durability,
    ) -> (Result<u64, Error>, Touched) {
        let mut touched = Touched::default();
        let committed = self.commit_seen(now, durability, |seen| touched.clone_from(seen));
        (committed, touched)
    }

    /// As [`commit_touched`](FsTransaction::commit_touched), but calls `seen` with what it has changed as soon as that is visible, before
    /// it is durable, so that caches need not show for longer what was there before.
    ///
    /// # Errors
    /// As of [`commit`](FsTransaction::commit): `seen` was called then too.
    pub fn commit_seen(
        self,
        now: Time,
        durability: Durability,
        seen: impl FnOnce(&Touched),
    ) -> Result<u64, Error> {
        if self.is_broken {
            seen(&self.touched);
            return Err(Error::Broken);
        }
        // An earlier version that is read keeps what the commit removes.
        drop(self.before);
        let committed = self.transaction.commit(Durability::Buffered);
        let version = match &committed {
            Ok(version) => Some(*version),
            Err(tembo_kv::Error::NotDurable { .. }) => Some(self.fs.store().visible()),
            Err(_) => None,
        };
        if let (Some(version), Some(_)) = (version, self.changed) {
            self.fs.changed(now, version);
        }
        seen(&self.touched);
        if version.is_none() {
            return Ok(committed?);
        }
        let made_durable = self.fs.make_durable(durability);
        let orphans: Vec<u64> = self.orphans.into_iter().collect();
        // If this fails they stay orphans, which the next open of the file system removes.
        let _ = self.fs.remove_unopened(&orphans);
        let version = committed?;
        made_durable?;
        Ok(version)
    }
}
