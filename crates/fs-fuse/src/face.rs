//! What the kernel asks, handed on to what answers it, and the answers as FUSE has them.
//!
//! ```text
//!  names        what a directory has, gets and loses
//!  attributes   what an inode says of itself
//!  bytes        of a file
//!  handles      opens, closes, syncs, ends of transactions
//!  served       what all of them answer from
//!  answers      results as replies
//! ```

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, FileHandle, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs,
    ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use tembo_fs::Set;

use crate::answers::{
    attributes_reply, data_reply, done, entry_reply, extended_reply, made, written,
};
use crate::committer::{Committer, Kernel};
use crate::durable::Durable;
use crate::place::Place;
use crate::replies::{TTL, attributes, file_type, now, time_or_now, unknown};
use crate::served::Served;
use crate::trees::Trees;

/// The file system as FUSE sees it.
pub(crate) struct Face(Served);

impl Face {
    pub(crate) fn new(
        trees: Trees,
        durable: Durable,
        committer: Committer,
        kernel: Kernel,
    ) -> Face {
        Face(Served::new(trees, durable, committer, kernel))
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
            // A default access list is in the place of the mask.
            InitFlags::FUSE_DONT_MASK,
            // The bits and capabilities that a change of a file costs it are taken here: the kernel does not ask for them before each write.
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
            // A file is found by its number, also when the kernel has forgotten it: a server of NFS holds it by that alone.
            InitFlags::FUSE_EXPORT_SUPPORT,
        ];
        for capability in wanted {
            // A kernel without it does without.
            let _ = config.add_capabilities(capability);
        }
        self.0.has_lists = config.add_capabilities(InitFlags::FUSE_POSIX_ACL).is_ok();
        // The library has the bounds, and keeps what it had if these are beyond them.
        let _ = config.set_max_write(1 << 20);
        let _ = config.set_time_granularity(Duration::from_nanos(1));
        Ok(())
    }

    fn destroy(&mut self) {
        self.0.committer.end();
        // What is not noted is known less exactly.
        let _ = self.0.trees.fs.note_time(now());
        // The log holds what could not be synced as far as it came; the next open says so.
        let _ = self.0.trees.fs.sync();
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        entry_reply(self.0.lookup(request, parent, name.as_bytes()), reply);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        attributes_reply(self.0.attributes(number), reply);
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
        attributes_reply(self.0.set(request, number, handle, &set), reply);
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        data_reply(self.0.readlink(number), reply);
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        made(self.0.mknod(request, (parent, name.as_bytes()), (mode, umask), device), reply);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        made(self.0.mkdir(request, (parent, name.as_bytes()), (mode, umask)), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(self.0.unlink(parent, name.as_bytes()), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(self.0.rmdir(parent, name.as_bytes()), reply);
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let target = target.as_os_str().as_bytes();
        made(self.0.symlink(request, (parent, name.as_bytes()), target), reply);
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
        let (from, to) = ((parent, name.as_bytes()), (new_parent, new_name.as_bytes()));
        done(self.0.rename(from, to, flags), reply);
    }

    fn link(&self, _: &Request, number: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        made(self.0.link(number, (parent, name.as_bytes())), reply);
    }

    fn open(&self, request: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.0.open(request, number, flags) {
            Ok((handle, flags)) => reply.opened(handle, flags),
            Err(error) => reply.error(error),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let (place, flags) = ((parent, name.as_bytes()), OpenFlags(flags));
        match self.0.create(request, place, (mode, umask), flags) {
            Ok(((attributes, generation), handle, flags)) => {
                reply.created(&TTL, &attributes, generation, handle, flags);
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
        data_reply(self.0.read((number, handle, offset), size, owner), reply);
    }

    fn write(
        &self,
        request: &Request,
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
            return self.0.end(handle.0, data, reply);
        }
        written(self.0.write(request, (number, handle, offset), data, (how, flags, owner)), reply);
    }

    fn flush(
        &self,
        request: &Request,
        number: INodeNo,
        handle: FileHandle,
        owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        self.0.flush(number, handle, (owner, request.pid()), reply);
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
        done(self.0.release(number, handle), reply);
    }

    fn fsync(&self, _: &Request, number: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        self.0.fsync(number, handle, reply);
    }

    fn fsyncdir(&self, _: &Request, number: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.0.sync(number, reply);
    }

    fn opendir(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // A directory that is removed while it is open says what it was until it is closed.
        match self.0.trees.open(number, false) {
            Ok(_) => reply.opened(FileHandle(0), FopenFlags::empty()),
            Err(error) => reply.error(error),
        }
    }

    fn releasedir(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        done(self.0.trees.close(number), reply);
    }

    fn readdir(
        &self,
        request: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let listed = match self.0.trees.listed(number, offset, false, request.uid()) {
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
        let listed = match self.0.trees.listed(number, offset, true, request.uid()) {
            Ok(listed) => listed,
            Err(error) => return reply.error(error),
        };
        for (entry, inode) in listed {
            let (name, number) = (OsStr::from_bytes(&entry.name), INodeNo(entry.inode));
            let (ttl, attributes, generation) = match &inode {
                Some(inode) => {
                    let attributes = attributes(inode, number, self.0.trees.fs.piece_size());
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
        let usage = self.0.trees.fs.usage();
        let block = self.0.trees.fs.piece_size() as u64;
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
        done(self.0.set_extended(request, number, (name.as_bytes(), value), flags), reply);
    }

    fn getxattr(&self, _: &Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        extended_reply(self.0.extended(number, name.as_bytes()), size, reply);
    }

    fn listxattr(&self, _: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        extended_reply(self.0.list_extended(number), size, reply);
    }

    fn removexattr(&self, request: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(self.0.remove_extended(request, number, name.as_bytes()), reply);
    }

    fn fallocate(
        &self,
        request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        len: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        done(self.0.allocate(request, (number, handle, offset), len, mode), reply);
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
        match self.0.seek((number, handle), offset, whence) {
            Ok(found) => reply.offset(found as i64),
            Err(error) => reply.error(error),
        }
    }

    fn copy_file_range(
        &self,
        request: &Request,
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
        let from = (from, from_handle, from_offset);
        written(self.0.copy(request, from, (to, handle, to_offset), len), reply);
    }
}
