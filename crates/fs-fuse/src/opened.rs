//! Files that are open in transactions of their own: those with the attribute [`MARK`].
//!
//! ```text
//!  open to be written    a transaction begins
//!  read, write, cut      in it: no other program sees it
//!  a close               by the process that has written commits it; what is written later, by a duplicate, begins another one;
//!                        before the first write it ends nothing
//!  the last close        commits what was not: a file that was only cut by the open
//! ```
//!
//! The kernel has one cache for all that have a file open, so that such a file is read and written past it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fuser::{Errno, LockOwner};
use tembo_fs::{AnyTree, AnyTreeMut, Error, Fs, FsTransaction, Inode, Time};

use crate::caller::{is_killed, process_of};
use crate::errors::errno;
use crate::quota::Counted;
use crate::replies::now;

/// The attribute of a file of which each open that may write is a transaction.
pub(crate) const MARK: &[u8] = b"user.tembo.transaction";

/// Numbers of handles below it are of files without.
pub(crate) const HANDLE_MIN: u64 = 1 << 32;

/// Files that are open in transactions of their own, by their handles.
#[derive(Default)]
pub(crate) struct Opened(Mutex<Table>);

#[derive(Default)]
struct Table {
    /// Handles that were given.
    given: u64,
    open: BTreeMap<u64, Open>,
}

struct Open {
    inode: u64,
    /// The thread that has opened it, and its process.
    thread: u32,
    process: u32,
    own: Arc<Mutex<Own>>,
    counted: Option<Counted>,
}

/// What one open has done.
#[derive(Default)]
pub(crate) struct Own {
    /// `None`: nothing since the last commit.
    transaction: Option<FsTransaction>,
    is_changed: bool,
    /// Changed by more than the open.
    is_written: bool,
    /// What has written last; `None`: since the last commit that which has opened it, if any.
    writer: Option<Writer>,
    /// What has opened it has closed it, and had changed nothing: what it changes without a handle is not meant for it.
    is_closed: bool,
    /// An `fsync` was answered: what it meant is durable when its commit is.
    is_asked: bool,
    /// Something of it was not committed: what comes later would be a part.
    is_lost: bool,
}

/// A process, as requests say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writer {
    /// By the kernel's name for the files that it has open.
    Files(LockOwner),
    /// By its number.
    Process(u32),
}

/// What is to be done at a close.
pub(crate) enum Closing {
    Nothing,
    Commit(Box<Ended>, Arc<Mutex<Own>>),
    Lost,
}

/// A transaction that is to be committed, and whether an `fsync` has asked for it to be durable.
pub(crate) struct Ended {
    pub(crate) transaction: FsTransaction,
    pub(crate) is_asked: bool,
    /// Of one whose file is closed: it counts until it is committed.
    pub(crate) counted: Option<Counted>,
}

/// Something was not committed.
struct Lost;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic in a call leaves a transaction as it was before or after it: a part of it makes it broken.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn code_of(error: Error) -> Errno {
    errno(&error)
}

impl Opened {
    /// Opens an inode in a transaction, and does the `cut` if it is to be cut; returns the handle.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) fn begin(
        &self,
        fs: &Fs,
        (inode, thread, counted): (u64, u32, Option<Counted>),
        cut: Option<impl FnOnce(&mut AnyTreeMut<'_, '_>, u64) -> Result<Inode, Error>>,
    ) -> Result<u64, Errno> {
        let mut transaction = fs.transaction().map_err(code_of)?;
        let is_changed = cut.is_some();
        if let Some(cut) = cut {
            transaction.change(now(), |tree| cut(tree, inode)).map_err(code_of)?;
        }
        let transaction = Some(transaction);
        let own = Arc::new(Mutex::new(Own { transaction, is_changed, ..Own::default() }));
        let process = process_of(thread);
        let mut table = locked(&self.0);
        table.given += 1;
        let handle = HANDLE_MIN + table.given;
        table.open.insert(handle, Open { inode, thread, process, own, counted });
        Ok(handle)
    }

    fn own(&self, handle: u64) -> Result<Arc<Mutex<Own>>, Errno> {
        locked(&self.0).open.get(&handle).map(|open| open.own.clone()).ok_or(Errno::EBADF)
    }

    /// Notes that a process is about to write, or to change the file otherwise.
    pub(crate) fn note_writer(&self, handle: u64, writer: Option<Writer>) {
        if let Ok(own) = self.own(handle) {
            locked(&own).writer = writer;
        }
    }

    /// The handle by which a thread has an inode open and has not closed it: a change that says no handle is meant for that.
    pub(crate) fn of_thread(&self, inode: u64, thread: u32) -> Option<u64> {
        let table = locked(&self.0);
        let goes_on = |open: &Open| {
            let own = locked(&open.own);
            own.transaction.is_some() && !own.is_closed
        };
        let found = table
            .open
            .iter()
            .find(|(_, open)| (open.inode, open.thread) == (inode, thread) && goes_on(open));
        found.map(|(handle, _)| *handle)
    }

    /// Reads a file as its transaction has it.
    ///
    /// # Errors
    /// `ECANCELED`: it is lost. Those of `work`.
    pub(crate) fn read<T>(
        &self,
        fs: &Fs,
        handle: u64,
        work: impl FnOnce(&mut AnyTree<'_>) -> Result<T, Error>,
    ) -> Result<T, Errno> {
        let own = self.own(handle)?;
        let mut own = locked(&own);
        let done = own.transaction(fs)?.read(|tree| work(&mut tree.any()));
        done.map_err(code_of)
    }

    /// Changes a file in its transaction.
    ///
    /// # Errors
    /// `ECANCELED`: another has changed the file since, and the transaction is lost. Those of `work`.
    pub(crate) fn change<T>(
        &self,
        fs: &Fs,
        handle: u64,
        now: Time,
        work: impl FnOnce(&mut AnyTreeMut<'_, '_>) -> Result<T, Error>,
    ) -> Result<T, Errno> {
        let own = self.own(handle)?;
        let mut own = locked(&own);
        let done = own.transaction(fs)?.change(now, work);
        (own.is_changed, own.is_written, own.is_closed) = (true, true, false);
        done.map_err(code_of)
    }

    /// An `fsync` of the file: whether what it means is in the transaction, and becomes durable with its commit.
    ///
    /// # Errors
    /// `ECANCELED`: it is lost.
    pub(crate) fn fsync(&self, handle: u64) -> Result<bool, Errno> {
        let own = self.own(handle)?;
        let mut own = locked(&own);
        if own.is_lost {
            return Err(Errno::ECANCELED);
        }
        own.is_asked |= own.is_changed;
        Ok(own.is_changed)
    }

    /// One of those that have a file open closes it: a thread of a process. Of a process that has not written it means
    /// nothing: each program that is started closes what it does not inherit.
    pub(crate) fn close(&self, handle: u64, (files, thread): (LockOwner, u32)) -> Closing {
        let table = locked(&self.0);
        let Some(open) = table.open.get(&handle) else { return Closing::Nothing };
        let (shared, opener) = (open.own.clone(), Writer::Process(open.process));
        drop(table);
        let mut own = locked(&shared);
        let has_written = match own.writer.unwrap_or(opener) {
            Writer::Files(writer) => writer == files,
            Writer::Process(writer) => writer == process_of(thread),
        };
        if !has_written {
            return Closing::Nothing;
        }
        let killed = own.is_changed && is_killed(thread);
        let closed = own.close(killed);
        drop(own);
        match closed {
            Ok(Some(ended)) => Closing::Commit(Box::new(ended), shared),
            Ok(None) => Closing::Nothing,
            Err(Lost) => Closing::Lost,
        }
    }

    /// The last of those that have it open has closed it; what is left to commit.
    pub(crate) fn end(&self, handle: u64) -> Option<Ended> {
        let Open { own, counted, .. } = locked(&self.0).open.remove(&handle)?;
        let ended = locked(&own).take()?;
        Some(Ended { counted, ..ended })
    }
}

impl Own {
    /// # Errors
    /// `ECANCELED`: it is lost. Those of the store.
    fn transaction(&mut self, fs: &Fs) -> Result<&mut FsTransaction, Errno> {
        if self.is_lost {
            return Err(Errno::ECANCELED);
        }
        match &mut self.transaction {
            Some(transaction) => Ok(transaction),
            none => Ok(none.insert(fs.transaction().map_err(code_of)?)),
        }
    }

    /// What a close is to commit. Before the first write nothing: what was read is what the write is of, and an open that has cut
    /// the file commits that with what is written, or when it ends.
    fn close(&mut self, killed: bool) -> Result<Option<Ended>, Lost> {
        if killed && self.is_changed {
            self.lose();
        }
        if self.is_lost {
            return Err(Lost);
        }
        if !self.is_written {
            self.is_closed = !self.is_changed;
            return Ok(None);
        }
        Ok(self.take())
    }

    /// What is to be committed; what comes then begins another transaction.
    fn take(&mut self) -> Option<Ended> {
        let (is_changed, is_asked) = (self.is_changed, self.is_asked);
        (self.is_changed, self.is_written, self.is_asked, self.writer) =
            (false, false, false, None);
        let transaction = self.transaction.take().filter(|_| is_changed)?;
        Some(Ended { transaction, is_asked, counted: None })
    }

    fn lose(&mut self) {
        (self.transaction, self.is_changed, self.is_written, self.is_asked) =
            (None, false, false, false);
        self.is_lost = true;
    }
}

/// Notes that a commit has failed.
pub(crate) fn lose(own: &Mutex<Own>) {
    locked(own).lose();
}
