//! What the kernel asks, answered by the file system.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, OpenAccMode, OpenFlags, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLseek,
    ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::OFlags;
use tembo_fs::{
    Allocate, AnyTree, AnyTreeMut, Condition, Error, FileKind, Inode, New, Rename, Set,
};
use tembo_kv::Durability;

use crate::committer::{Answer, Commit, Committer};
use crate::durable::Durable;
use crate::errors::errno;
use crate::opened::{Closing, Ended, HANDLE_MIN, Opened, lose};
use crate::place::Place;
use crate::replies::{TTL, attributes, file_type, now, time_or_now, unknown};
use crate::syncs::Syncs;
use crate::trees::{Found, Trees};

/// A handle of a file that may be written.
const WRITES: u64 = 1;

/// Names that begin so are refused: they would not be enforced.
const ACCESS_LISTS: &[u8] = b"system.posix_acl_";

/// What whence is in a request: the values of Linux.
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;

/// The file system as FUSE sees it.
pub(crate) struct Face {
    trees: Trees,
    durable: Durable,
    committer: Committer,
    syncs: Syncs<ReplyEmpty>,
    opened: Opened,
}

impl Face {
    pub(crate) fn new(trees: Trees, durable: Durable, committer: Committer) -> Face {
        let (syncs, opened) = (Syncs::default(), Opened::default());
        Face { trees, durable, committer, syncs, opened }
    }

    /// The handle, if a file is open by it in a transaction of its own.
    fn own(number: INodeNo, handle: FileHandle) -> Option<u64> {
        let is_own = matches!(Place::of(number), Place::Now(_)) && handle.0 >= HANDLE_MIN;
        is_own.then_some(handle.0)
    }

    /// As `own`, of a change that may not say a handle.
    fn own_of(&self, number: INodeNo, handle: Option<FileHandle>, thread: u32) -> Option<u64> {
        match (handle, Place::of(number)) {
            (Some(handle), _) => Face::own(number, handle),
            (None, Place::Now(inode)) => self.opened.of_thread(inode, thread),
            _ => None,
        }
    }

    /// Reads a file, in the transaction of an open if there is one.
    fn read_one<T>(
        &self,
        number: INodeNo,
        own: Option<u64>,
        work: impl FnOnce(&mut AnyTree<'_>, u64) -> Result<T, Error>,
    ) -> Result<T, Errno> {
        match own {
            Some(handle) => self.opened.read(&self.trees.fs, handle, |tree| work(tree, number.0)),
            None => self.trees.read(number, work),
        }
    }

    /// Changes a file, in the transaction of an open if there is one.
    fn change_one<T>(
        &self,
        number: INodeNo,
        own: Option<u64>,
        work: impl FnOnce(&mut AnyTreeMut<'_, '_>, u64) -> Result<T, Error>,
    ) -> Result<T, Errno> {
        match own {
            Some(handle) => {
                self.opened.change(&self.trees.fs, handle, now(), |tree| work(tree, number.0))
            }
            None => self.trees.write([number], |tree, [number]| work(tree, number)),
        }
    }

    /// What an open that was told whether the file is marked gives to the kernel.
    fn open_file(
        &self,
        (number, thread): (INodeNo, u32),
        (writes, cuts): (bool, bool),
        is_marked: bool,
    ) -> Result<(FileHandle, FopenFlags), Errno> {
        if is_marked && writes {
            let cut = cuts.then(now);
            let handle = self.opened.begin(&self.trees.fs, (number.0, thread), cut)?;
            return Ok((FileHandle(handle), FopenFlags::FOPEN_DIRECT_IO));
        }
        if cuts {
            let set = Set { size: Some(0), ..Set::default() };
            self.trees.remove([number], |tree, [number]| tree.set(number, &set))?;
        }
        // What is shown has no size that the kernel could know; of a marked file, other opens may make it believe another one.
        let is_direct = is_marked || Place::of(number) == Place::Version;
        let flags =
            if is_direct { FopenFlags::FOPEN_DIRECT_IO } else { FopenFlags::FOPEN_KEEP_CACHE };
        Ok((handle(writes), flags))
    }

    /// Commits the transaction of an open.
    fn commit(&self, Ended { transaction, is_asked }: Ended, answer: Answer) {
        let durability = match self.durable {
            Durable::Fsync if !is_asked => Durability::Buffered,
            _ => Durability::Strict,
        };
        self.committer.commit(Commit { transaction, durability, answer });
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

    /// What was written so far becomes durable; in a transaction, with its commit.
    fn sync(&self, number: INodeNo, reply: ReplyEmpty) {
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

    fn entry(&self, found: Result<Found, Errno>, ttl: Duration, reply: ReplyEntry) {
        let found = found.and_then(|found| Ok((self.trees.attributes(&found)?, found.1)));
        match found {
            Ok((attributes, inode)) => reply.entry(&ttl, &attributes, Generation(inode.generation)),
            Err(error) => reply.error(error),
        }
    }

    /// Answers that an inode was made, or got a name, in a directory.
    fn made(&self, parent: INodeNo, made: Result<Inode, Errno>, reply: ReplyEntry) {
        let found = made.map(|inode| (Place::of(parent).beside(inode.number), inode));
        self.entry(found, TTL, reply);
    }

    /// Makes what is no symbolic link.
    fn create_entry(&self, parent: INodeNo, name: &OsStr, new: &New) -> Result<Inode, Errno> {
        let name = name.as_bytes();
        Trees::check_entry(parent, name)?;
        self.trees.write([parent], |tree, [parent]| tree.create(parent, name, new))
    }

    /// A program says what becomes of the transaction that it has begun.
    fn end(&self, view: u64, said: &[u8], reply: ReplyWrite) {
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

fn handle(writes: bool) -> FileHandle {
    FileHandle(if writes { WRITES } else { 0 })
}

fn has_flag(flags: OpenFlags, flag: OFlags) -> bool {
    OFlags::from_bits_retain(flags.0 as u32).contains(flag)
}

fn done(result: Result<(), Errno>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

fn new_of(request: &Request, kind: FileKind, mode: u32, device: u32) -> New {
    let (user, group) = (request.uid(), request.gid());
    New { kind, permissions: (mode & 0o7777) as u16, user, group, device: device.into() }
}

fn attribute_reply(value: Result<Vec<u8>, Errno>, size: u32, reply: ReplyXattr) {
    match value {
        Ok(value) if size == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() > size as usize => reply.error(Errno::ERANGE),
        Ok(value) => reply.data(&value),
        Err(error) => reply.error(error),
    }
}

impl Filesystem for Face {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let wanted = [
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_CACHE_SYMLINKS,
            // To cut a file is a part of the open, and so of its transaction.
            InitFlags::FUSE_ATOMIC_O_TRUNC,
        ];
        for capability in wanted {
            // A kernel without it does without.
            let _ = config.add_capabilities(capability);
        }
        // The library has the bounds, and keeps what it had if these are beyond them.
        let _ = config.set_max_write(1 << 20);
        let _ = config.set_time_granularity(Duration::from_nanos(1));
        Ok(())
    }

    fn destroy(&mut self) {
        self.committer.end();
        // The log holds what could not be synced as far as it came; the next open says so.
        let _ = self.trees.fs.sync();
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.trees.find(parent, name.as_bytes(), request.uid());
        // Whether a transaction has ended, the kernel asks each time.
        let ttl = if Place::of(parent) == Place::Transactions { Duration::ZERO } else { TTL };
        self.entry(found, ttl, reply);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let at = Place::of(number);
        let found = self.trees.inode(at).and_then(|inode| self.trees.attributes(&(at, inode)));
        match found {
            Ok(attributes) => reply.attr(&TTL, &attributes),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        request: &Request,
        number: INodeNo,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let set = Set {
            permissions: mode.map(|mode| (mode & 0o7777) as u16),
            user,
            group,
            size,
            accessed: accessed.map(time_or_now),
            modified: modified.map(time_or_now),
        };
        let done = match self.own_of(number, handle, request.pid()) {
            // The kernel gets what others see.
            own @ Some(_) => self
                .change_one(number, own, |tree, number| tree.set(number, &set))
                .and_then(|_| self.trees.inode(Place::of(number))),
            None => self.trees.remove([number], |tree, [number]| tree.set(number, &set)),
        };
        match done.and_then(|inode| self.trees.attributes(&(Place::of(number), inode))) {
            Ok(attributes) => reply.attr(&TTL, &attributes),
            Err(error) => reply.error(error),
        }
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        match self.trees.read(number, |tree, number| tree.target(number)) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(error),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let Some(kind) = FileKind::of_mode(mode) else { return reply.error(Errno::EINVAL) };
        let new = new_of(request, kind, mode, device);
        self.made(parent, self.create_entry(parent, name, &new), reply);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        if Place::of(parent) == Place::Snapshots {
            let named = self.trees.name_snapshot(parent, name.as_bytes(), request.uid());
            return self.entry(named, TTL, reply);
        }
        let new = new_of(request, FileKind::Directory, mode, 0);
        self.made(parent, self.create_entry(parent, name, &new), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = name.as_bytes();
        let unlinked = Trees::check_entry(parent, name)
            .and_then(|()| self.trees.remove([parent], |tree, [parent]| tree.unlink(parent, name)));
        done(unlinked, reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = name.as_bytes();
        if Place::of(parent) == Place::Snapshots {
            return done(self.trees.drop_snapshot(name), reply);
        }
        let removed = Trees::check_entry(parent, name).and_then(|()| {
            self.trees.remove([parent], |tree, [parent]| tree.remove_directory(parent, name))
        });
        done(removed, reply);
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let new = new_of(request, FileKind::Symlink, 0o777, 0);
        let (name, target) = (name.as_bytes(), target.as_os_str().as_bytes());
        let made = Trees::check_entry(parent, name).and_then(|()| {
            self.trees.write([parent], |tree, [parent]| tree.symlink(parent, name, target, &new))
        });
        self.made(parent, made, reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let how = match flags {
            flags if flags.is_empty() => Rename::Replace,
            RenameFlags::RENAME_NOREPLACE => Rename::NoReplace,
            RenameFlags::RENAME_EXCHANGE => Rename::Exchange,
            _ => return reply.error(Errno::EINVAL),
        };
        let (name, new_name) = (name.as_bytes(), new_name.as_bytes());
        let checked = Trees::check_entry(parent, name)
            .and_then(|()| Trees::check_entry(new_parent, new_name));
        let renamed = checked.and_then(|()| {
            self.trees.remove([parent, new_parent], |tree, [from, to]| {
                tree.rename((from, name), (to, new_name), how)
            })
        });
        done(renamed, reply);
    }

    fn link(&self, _: &Request, number: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let name = name.as_bytes();
        let linked = Trees::check_entry(parent, name).and_then(|()| {
            self.trees
                .write([number, parent], |tree, [number, parent]| tree.link(number, parent, name))
        });
        self.made(parent, linked, reply);
    }

    fn open(&self, request: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        if Place::of(number) == Place::Begin {
            return match self.trees.begin(request.uid()) {
                Ok(view) => reply.opened(FileHandle(view), FopenFlags::FOPEN_DIRECT_IO),
                Err(error) => reply.error(error),
            };
        }
        let cuts = has_flag(flags, OFlags::TRUNC);
        let writes = cuts || flags.acc_mode() != OpenAccMode::O_RDONLY;
        let is_marked = match self.trees.open(number, writes) {
            Ok(is_marked) => is_marked,
            Err(error) => return reply.error(error),
        };
        match self.open_file((number, request.pid()), (writes, cuts), is_marked) {
            Ok((handle, flags)) => reply.opened(handle, flags),
            Err(error) => {
                // What was not opened is not closed. The next open of the file system removes what this one could not.
                let _ = self.trees.close(number);
                reply.error(error);
            }
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let new = new_of(request, FileKind::Regular, mode, 0);
        let writes = OpenFlags(flags).acc_mode() != OpenAccMode::O_RDONLY;
        // The kernel holds the directory: nothing is removed from it in between, but by the commit of a transaction.
        let made = self.create_entry(parent, name, &new).and_then(|inode| {
            let found = (Place::of(parent).beside(inode.number), inode);
            if let Place::Now(inode) = found.0 {
                self.trees.note_changed(&[inode]);
            }
            let attributes = self.trees.attributes(&found)?;
            self.trees.open(attributes.ino, writes)?;
            Ok((found.1, attributes))
        });
        match made {
            Ok((inode, attributes)) => {
                let (generation, flags) =
                    (Generation(inode.generation), FopenFlags::FOPEN_KEEP_CACHE);
                reply.created(&TTL, &attributes, generation, handle(writes), flags);
            }
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let shown = match Place::of(number) {
            Place::Begin => Some(handle.0),
            Place::Version => Some(self.trees.fs.store().visible()),
            _ => None,
        };
        if let Some(shown) = shown {
            let text = format!("{shown}\n");
            let rest = text.as_bytes().get(offset as usize..).unwrap_or_default();
            return reply.data(&rest[..rest.len().min(size as usize)]);
        }
        let mut bytes = vec![0; size as usize];
        // The kernel fills its cache, which is everyone's, without saying for which program: for a private mapping.
        let own = Face::own(number, handle).filter(|_| owner.is_some());
        match self.read_one(number, own, |tree, number| tree.read(number, offset, &mut bytes)) {
            Ok(len) => reply.data(&bytes[..len]),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        how: WriteFlags,
        flags: OpenFlags,
        owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        if Place::of(number) == Place::Begin {
            return self.end(handle.0, data, reply);
        }
        // The kernel writes its cache by any handle: what was stored to a mapping from before the mark.
        let own = Face::own(number, handle).filter(|_| !how.contains(WriteFlags::FUSE_WRITE_CACHE));
        if let Some(handle) = own {
            self.opened.note_writer(handle, owner);
        }
        let appends = own.is_some() && has_flag(flags, OFlags::APPEND);
        let written = self.change_one(number, own, |tree, number| {
            // The kernel knows the end that others see.
            let offset = if appends { tree.tree().inode(number)?.size } else { offset };
            tree.write(number, offset, data)
        });
        match written {
            Ok(_) => reply.written(data.len() as u32),
            Err(error) => reply.error(error),
        }
    }

    fn flush(
        &self,
        request: &Request,
        number: INodeNo,
        handle: FileHandle,
        owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        if let Some(handle) = Face::own(number, handle) {
            return self.close_own(handle, (owner, request.pid()), reply);
        }
        let syncs = handle.0 == WRITES && self.durable == Durable::Close;
        if syncs && self.trees.is_unsynced(number) {
            self.sync(number, reply);
        } else {
            reply.ok();
        }
    }

    fn release(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        if Place::of(number) == Place::Begin {
            // What was not committed has never been.
            drop(self.trees.end(handle.0));
            return reply.ok();
        }
        let own = Face::own(number, handle);
        if let Some(ended) = own.and_then(|handle| self.opened.end(handle)) {
            // Its program has closed it, and is told nothing any more.
            self.commit(ended, Box::new(|_| ()));
        }
        done(self.trees.close(number), reply);
    }

    fn fsync(&self, _: &Request, number: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        let own = Face::own(number, handle);
        match own.map_or(Ok(false), |handle| self.opened.fsync(handle)) {
            // Its close commits what is to be durable.
            Ok(true) => reply.ok(),
            Ok(false) => self.sync(number, reply),
            Err(error) => reply.error(error),
        }
    }

    fn fsyncdir(&self, _: &Request, number: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.sync(number, reply);
    }

    fn readdir(
        &self,
        request: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let listed = match self.trees.listed(number, offset, false, request.uid()) {
            Ok(listed) => listed,
            Err(error) => return reply.error(error),
        };
        for (entry, _) in listed {
            let (name, kind) = (OsStr::from_bytes(&entry.name), file_type(entry.kind));
            if reply.add(INodeNo(entry.inode), entry.cookie, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn readdirplus(
        &self,
        request: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let listed = match self.trees.listed(number, offset, true, request.uid()) {
            Ok(listed) => listed,
            Err(error) => return reply.error(error),
        };
        for (entry, inode) in listed {
            let (name, number) = (OsStr::from_bytes(&entry.name), INodeNo(entry.inode));
            let (ttl, attributes, generation) = match &inode {
                Some(inode) => {
                    let attributes = attributes(inode, number, self.trees.fs.piece_size());
                    (TTL, attributes, Generation(inode.generation))
                }
                // The kernel asks again, and gets the error.
                None => (Duration::ZERO, unknown(&entry), Generation(0)),
            };
            if reply.add(number, entry.cookie, name, &ttl, &attributes, generation) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let usage = self.trees.fs.usage();
        let block = self.trees.fs.piece_size() as u64;
        let (total, free) = (usage.total / block, (usage.total - usage.used) / block);
        let files = u64::from(u32::MAX);
        reply.statfs(total, free, free, files, files, block as u32, 255, block as u32);
    }

    fn setxattr(
        &self,
        request: &Request,
        number: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        let name = name.as_bytes();
        if name.starts_with(ACCESS_LISTS) {
            return reply.error(Errno::EOPNOTSUPP);
        }
        let condition = match flags {
            0 => Condition::Any,
            1 => Condition::Create,
            2 => Condition::Replace,
            _ => return reply.error(Errno::EINVAL),
        };
        let own = self.own_of(number, None, request.pid());
        let set = self.change_one(number, own, |tree, number| {
            tree.set_attribute(number, name, value, condition)
        });
        done(set, reply);
    }

    fn getxattr(&self, _: &Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        if name.as_bytes().starts_with(ACCESS_LISTS) {
            return reply.error(Errno::EOPNOTSUPP);
        }
        let found = self.trees.read(number, |tree, number| tree.attribute(number, name.as_bytes()));
        attribute_reply(found, size, reply);
    }

    fn listxattr(&self, _: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        let names = self.trees.read(number, |tree, number| tree.attributes(number));
        let list = names.map(|names| names.iter().flat_map(|n| [&n[..], b"\0"].concat()).collect());
        attribute_reply(list, size, reply);
    }

    fn removexattr(&self, request: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = name.as_bytes();
        let removed = match self.own_of(number, None, request.pid()) {
            own @ Some(_) => {
                self.change_one(number, own, |tree, number| tree.remove_attribute(number, name))
            }
            None => {
                self.trees.remove([number], |tree, [number]| tree.remove_attribute(number, name))
            }
        };
        done(removed, reply);
    }

    fn fallocate(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        len: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let how = match mode {
            0 => Allocate::Extend,
            // No space is set aside: there is nothing to do.
            1 => return reply.ok(),
            3 => Allocate::Punch,
            8 => Allocate::Collapse,
            0x10 => Allocate::Zero,
            0x11 => Allocate::ZeroWithin,
            0x20 => Allocate::Insert,
            _ => return reply.error(Errno::EOPNOTSUPP),
        };
        let own = Face::own(number, handle);
        let allocated =
            self.change_one(number, own, |tree, number| tree.allocate(number, offset, len, how));
        done(allocated.map(drop), reply);
    }

    fn lseek(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let Ok(offset) = u64::try_from(offset) else { return reply.error(Errno::ENXIO) };
        let own = Face::own(number, handle);
        let found = match whence {
            SEEK_DATA => self.read_one(number, own, |tree, number| tree.seek_data(number, offset)),
            SEEK_HOLE => self.read_one(number, own, |tree, number| tree.seek_hole(number, offset)),
            _ => Err(Errno::EINVAL),
        };
        match found {
            Ok(found) => reply.offset(found as i64),
            Err(error) => reply.error(error),
        }
    }

    fn copy_file_range(
        &self,
        _: &Request,
        from: INodeNo,
        from_handle: FileHandle,
        from_offset: u64,
        to: INodeNo,
        handle: FileHandle,
        to_offset: u64,
        len: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        // The answer has 32 bits.
        let len = len.min(1 << 30);
        let copy = |tree: &mut AnyTreeMut<'_, '_>, [from, to]: [u64; 2]| {
            tree.copy_range((from, from_offset), (to, to_offset), len)
        };
        let source = Face::own(from, from_handle);
        let copied = match (Face::own(to, handle), Place::of(from)) {
            // Only its own transaction has what an open has written.
            (own, _) if source.is_some() && source != own => Err(Errno::EXDEV),
            (None, _) => self.trees.write([from, to], copy),
            (own, Place::Now(from)) => self.change_one(to, own, |tree, to| copy(tree, [from, to])),
            _ => Err(Errno::EXDEV),
        };
        match copied {
            Ok(copied) => reply.written(copied as u32),
            Err(error) => reply.error(error),
        }
    }
}
