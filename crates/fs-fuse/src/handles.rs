//! Requests on what is open: opens, closes, syncs, and the ends of transactions.

use fuser::{
    Errno, FileHandle, FopenFlags, INodeNo, LockOwner, OpenAccMode, OpenFlags, ReplyEmpty,
    ReplyWrite, Request,
};
use rustix::fs::OFlags;
use tembo_fs::{AnyTreeMut, FileKind, Set};
use tembo_kv::Durability;

use crate::attributes::set;
use crate::committer::{Answer, Commit};
use crate::durable::Durable;
use crate::errors::errno;
use crate::names::new_of;
use crate::opened::{Closing, Ended, lose};
use crate::place::Place;
use crate::served::{Served, Shown};

/// A handle of a file that may be written.
const WRITES: u64 = 1;

fn handle(writes: bool) -> FileHandle {
    FileHandle(if writes { WRITES } else { 0 })
}

/// Flags for the kernel of an open that is no transaction of its own. If its close waits for nothing, the kernel need not ask.
/// It has the locks of files itself, and so releases them without.
fn open_flags(asks: bool, is_direct: bool) -> FopenFlags {
    let cache = if is_direct { FopenFlags::FOPEN_DIRECT_IO } else { FopenFlags::FOPEN_KEEP_CACHE };
    if asks { cache } else { cache | FopenFlags::FOPEN_NOFLUSH }
}

pub(crate) fn has_flag(flags: OpenFlags, flag: OFlags) -> bool {
    OFlags::from_bits_retain(flags.0 as u32).contains(flag)
}

impl Served {
    pub(crate) fn open(
        &self,
        request: &Request,
        number: INodeNo,
        flags: OpenFlags,
    ) -> Result<(FileHandle, FopenFlags), Errno> {
        if Place::of(number) == Place::Begin {
            let view = self.trees.begin(request.uid())?;
            return Ok((FileHandle(view), FopenFlags::FOPEN_DIRECT_IO));
        }
        let cuts = has_flag(flags, OFlags::TRUNC);
        let writes = cuts || flags.acc_mode() != OpenAccMode::O_RDONLY;
        let is_marked = self.trees.open(number, writes)?;
        let opened = self.open_file(request, number, (writes, cuts), is_marked);
        if opened.is_err() {
            // What was not opened is not closed. The next open of the file system removes what this one could not.
            let _ = self.trees.close(number);
        }
        opened
    }

    /// What an open gives to the kernel, when it knows whether the file is marked.
    fn open_file(
        &self,
        request: &Request,
        number: INodeNo,
        (writes, cuts): (bool, bool),
        is_marked: bool,
    ) -> Result<(FileHandle, FopenFlags), Errno> {
        let empty = Set { size: Some(0), ..Set::default() };
        let cut = |tree: &mut AnyTreeMut<'_, '_>, number| set(tree, number, &empty, request);
        if is_marked && writes {
            let counted = self.trees.quota.add(request.uid())?;
            let opener = (number.0, request.pid(), counted);
            let handle = self.opened.begin(&self.trees.fs, opener, cuts.then_some(cut))?;
            return Ok((FileHandle(handle), FopenFlags::FOPEN_DIRECT_IO));
        }
        if cuts {
            self.trees.remove([number], |tree, [number]| cut(tree, number))?;
        }
        // What is shown has no size that the kernel could know; of a marked file, other opens may make it believe another one.
        let is_direct = is_marked || Place::of(number) == Place::Version;
        Ok((handle(writes), open_flags(self.close_asks(number, writes), is_direct)))
    }

    /// Makes a file and opens it.
    pub(crate) fn create(
        &self,
        request: &Request,
        (parent, name): (INodeNo, &[u8]),
        mode: (u32, u32),
        flags: OpenFlags,
    ) -> Result<(Shown, FileHandle, FopenFlags), Errno> {
        let new = new_of(request, FileKind::Regular, mode);
        let writes = flags.acc_mode() != OpenAccMode::O_RDONLY;
        // The kernel holds the directory: it changes in between by the commit of a transaction only. If that has given the name, the
        // kernel, which believes that there is none, is to look again: it checks then whether the file may be opened.
        let looks_again =
            |error: &Errno| error.code() == Errno::EEXIST.code() && !has_flag(flags, OFlags::EXCL);
        let made = self.create_entry(parent, name, &new);
        let inode =
            made.map_err(|error| if looks_again(&error) { Errno::ESTALE } else { error })?;
        let found = (Place::of(parent).beside(inode.number), inode);
        if let Place::Now(inode) = found.0 {
            self.trees.note_changed(&[inode]);
        }
        let shown = self.shown(&found)?;
        self.trees.open(shown.0.ino, writes)?;
        let asks = self.close_asks(shown.0.ino, writes);
        Ok((shown, handle(writes), open_flags(asks, false)))
    }

    /// Whether the kernel asks at a close of what may have been written. Of what a transaction has, since it waits then until what was
    /// stored to a mapping is there: kernels before 6.16 wait for that nowhere else.
    fn close_asks(&self, number: INodeNo, writes: bool) -> bool {
        writes && matches!(Place::of(number), Place::View(..)) || self.close_waits(number, writes)
    }

    /// Whether a close, of what may have been written, waits until something is durable. What a transaction has waits for its commit.
    fn close_waits(&self, number: INodeNo, writes: bool) -> bool {
        let is_now = matches!(Place::of(number), Place::Now(_));
        is_now && writes && self.durable == Durable::Close && self.is_logged
    }

    /// Commits the transaction of an open.
    fn commit(&self, ended: Ended, answer: Answer) {
        let Ended { transaction, is_asked, counted } = ended;
        let answer = Box::new(|committed| {
            drop(counted);
            answer(committed);
        });
        let durability = match self.durable {
            Durable::Fsync if !is_asked => Durability::Buffered,
            _ => Durability::Strict,
        };
        self.committer.commit(Commit { transaction, durability, answer });
    }

    /// One of those that have a file open closes it.
    pub(crate) fn flush(
        &self,
        number: INodeNo,
        handle: FileHandle,
        by: (LockOwner, u32),
        reply: ReplyEmpty,
    ) {
        if let Some(handle) = Served::own(number, handle) {
            return self.close_own(handle, by, reply);
        }
        if self.close_waits(number, handle.0 == WRITES) && self.trees.is_unsynced(number) {
            self.sync(number, reply);
        } else {
            reply.ok();
        }
    }

    /// One of those that have a file open in a transaction of its own closes it.
    fn close_own(&self, handle: u64, by: (LockOwner, u32), reply: ReplyEmpty) {
        match self.opened.close(handle, by) {
            Closing::Nothing => reply.ok(),
            Closing::Lost => reply.error(Errno::ECANCELED),
            Closing::Commit(ended, own) => {
                let answer = move |committed: Result<(), Errno>| {
                    if let Err(error) = committed {
                        lose(&own);
                        return reply.error(error);
                    }
                    reply.ok();
                };
                self.commit(*ended, Box::new(answer));
            }
        }
    }

    /// The last of those has closed it.
    pub(crate) fn release(&self, number: INodeNo, handle: FileHandle) -> Result<(), Errno> {
        if Place::of(number) == Place::Begin {
            // What was not committed has never been.
            drop(self.trees.end(handle.0));
            self.trees.forget_begun(handle.0);
            return Ok(());
        }
        let own = Served::own(number, handle);
        if let Some(ended) = own.and_then(|handle| self.opened.end(handle)) {
            // Its program has closed it, and is notified of nothing any more.
            self.commit(ended, Box::new(|_| ()));
        }
        self.trees.close(number)
    }

    pub(crate) fn fsync(&self, number: INodeNo, handle: FileHandle, reply: ReplyEmpty) {
        let own = Served::own(number, handle);
        match own.map_or(Ok(false), |handle| self.opened.fsync(handle)) {
            // Its close commits what is to be durable.
            Ok(true) => reply.ok(),
            Ok(false) => self.sync(number, reply),
            Err(error) => reply.error(error),
        }
    }

    /// What was written so far becomes durable; in a transaction, with its commit.
    pub(crate) fn sync(&self, number: INodeNo, reply: ReplyEmpty) {
        if !self.is_logged {
            // It is, or becomes so with its commit. The kernel takes that for a success, and asks no second time, of any file.
            return reply.error(Errno::ENOSYS);
        }
        let is_in_transaction = matches!(Place::of(number), Place::View(..) | Place::Begin);
        if is_in_transaction || !self.trees.is_any_unsynced() {
            return reply.ok();
        }
        self.syncs.add(
            reply,
            || self.trees.fs.sync(),
            |reply, synced| match synced {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(errno(error)),
            },
        );
    }

    /// A program says what becomes of the transaction that it has begun.
    pub(crate) fn end(&self, view: u64, said: &[u8], reply: ReplyWrite) {
        let len = said.len() as u32;
        let commits = match said.trim_ascii() {
            b"commit" => true,
            b"abort" => false,
            _ => return reply.error(Errno::EINVAL),
        };
        match self.trees.end(view) {
            None => reply.error(Errno::ESTALE),
            Some(transaction) if commits => {
                let answer = move |committed: Result<(), Errno>| match committed {
                    Ok(()) => reply.written(len),
                    Err(error) => reply.error(error),
                };
                let (durability, answer) = (Durability::Strict, Box::new(answer));
                self.committer.commit(Commit { transaction, durability, answer });
            }
            Some(transaction) => {
                drop(transaction);
                reply.written(len);
            }
        }
    }
}
