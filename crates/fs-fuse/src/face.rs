//! What the kernel asks, answered by the file system.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileAttr, FileHandle, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, KernelConfig, LockOwner, OpenAccMode, OpenFlags, RenameFlags,
    ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry,
    ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use tembo_fs::{
    Allocate, Condition, Entry, Error, FileKind, Fs, Inode, New, ROOT, Rename, Set, Tree, TreeMut,
};
use tembo_kv::{Durability, Error as StoreError, Exclusive, Snapshot};

use crate::durable::Durable;
use crate::errors::errno;
use crate::past::{CONTROL_NAME, Past, Place, SNAPSHOTS, place};
use crate::replies::{TTL, attributes, file_type, now, time_or_now};

/// A handle of a file that may be written.
const WRITES: u64 = 1;

/// How long what removes something waits for space that is about to be given back.
const PATIENCE: Duration = Duration::from_secs(5);

/// Entries that one answer to a listing holds at most.
const LISTED: usize = 256;

/// Names that begin so are refused: they would not be enforced.
const ACCESS_LISTS: &[u8] = b"system.posix_acl_";

/// What whence is in a request: the values of Linux.
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;

/// The file system as FUSE sees it.
pub(crate) struct Face {
    fs: Fs,
    durable: Durable,
    past: Past,
}

impl Face {
    pub(crate) fn new(fs: Fs, durable: Durable) -> Face {
        Face { fs, durable, past: Past::default() }
    }

    fn attributes(&self, at: Place, inode: &Inode) -> FileAttr {
        attributes(inode, Past::number(at, inode.number), self.fs.piece_size())
    }

    /// Reads a place that a tree has.
    fn read_at<T>(
        &self,
        number: INodeNo,
        work: impl FnOnce(&mut Tree<Snapshot>, u64) -> Result<T, Error>,
    ) -> Result<T, Errno> {
        let found = self.past.tree(&self.fs, place(number.0)).map_err(|error| errno(&error))?;
        let (mut tree, inode) = found.ok_or(Errno::EISDIR)?;
        work(&mut tree, inode).map_err(|error| errno(&error))
    }

    /// Changes what is there now.
    fn write<T>(
        &self,
        numbers: &[INodeNo],
        work: impl Fn(&mut TreeMut<'_, &mut Exclusive>) -> Result<T, Error>,
    ) -> Result<T, Errno> {
        if numbers.iter().any(|number| !matches!(place(number.0), Place::Now(_))) {
            return Err(Errno::EROFS);
        }
        self.fs.write(now(), Durability::Buffered, work).map_err(|error| errno(&error))
    }

    /// As `write`, of what gives space back: a pool that is full up to what a write that failed has left is full for a
    /// moment only.
    fn remove<T>(
        &self,
        numbers: &[INodeNo],
        work: impl Fn(&mut TreeMut<'_, &mut Exclusive>) -> Result<T, Error>,
    ) -> Result<T, Errno> {
        let end = Instant::now() + PATIENCE;
        loop {
            match self.write(numbers, &work) {
                Err(error) if error.code() == Errno::ENOSPC.code() && Instant::now() < end => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                done => return done,
            }
        }
    }

    fn sync(&self, reply: ReplyEmpty) {
        match self.fs.sync() {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn entry(&self, found: Result<(Place, Inode), Errno>, reply: ReplyEntry) {
        match found {
            Ok((at, inode)) => {
                let generation = Generation(inode.generation);
                reply.entry(&TTL, &self.attributes(at, &inode), generation);
            }
            Err(error) => reply.error(error),
        }
    }

    fn made(&self, made: Result<Inode, Errno>, reply: ReplyEntry) {
        self.entry(made.map(|inode| (Place::Now(inode.number), inode)), reply);
    }

    fn find(&self, parent: INodeNo, name: &[u8]) -> Result<(Place, Inode), Errno> {
        let at = place(parent.0);
        if at == Place::Now(ROOT) && name == CONTROL_NAME {
            return Ok((Place::Control, self.inode_at(Place::Control)?));
        }
        if matches!(at, Place::Control | Place::Snapshots) {
            let found = self.past.lookup(&self.fs, at, name).map_err(|error| errno(&error))?;
            return Ok((found, self.inode_at(found)?));
        }
        let inode = self.read_at(parent, |tree, number| tree.lookup(number, name))?;
        Ok((at, inode))
    }

    fn inode_at(&self, at: Place) -> Result<Inode, Errno> {
        match self.past.tree(&self.fs, at).map_err(|error| errno(&error))? {
            Some((mut tree, number)) => tree.inode(number).map_err(|error| errno(&error)),
            None => Past::folder(&self.fs, at).map_err(|error| errno(&error)),
        }
    }

    /// A part of a listing behind an offset, each entry with the number and the cookie that the kernel gets, and with the
    /// inode if that is wanted.
    fn listed(
        &self,
        directory: INodeNo,
        offset: u64,
        wants_inodes: bool,
    ) -> Result<Vec<(Entry, Option<Inode>)>, Errno> {
        let at = place(directory.0);
        let dots = [(&b"."[..], 1), (b"..", 2)];
        let dots = dots.into_iter().filter(|&(_, cookie)| cookie > offset);
        let kind = FileKind::Directory;
        // The kernel takes no attributes of these.
        let itself = if wants_inodes { Some(self.inode_at(at)?) } else { None };
        let dot = |(name, cookie): (&[u8], u64)| {
            let name = name.to_vec();
            (Entry { inode: directory.0, kind, cookie, name }, itself.clone())
        };
        let mut listed: Vec<(Entry, Option<Inode>)> = dots.map(dot).collect();
        if matches!(at, Place::Control | Place::Snapshots) {
            for (name, cookie) in Past::names(&self.fs, at).into_iter().zip(3..) {
                if cookie > offset {
                    let (found, inode) = self.find(directory, &name)?;
                    let number = match found {
                        Place::Past(_, number) => Past::number(found, number),
                        _ => SNAPSHOTS,
                    };
                    listed.push((Entry { inode: number, kind, cookie, name }, Some(inode)));
                }
            }
            return Ok(listed);
        }
        let entries = self.read_at(directory, |tree, number| {
            let (mut entries, mut with_inodes) = (Vec::new(), Vec::new());
            tree.list(number, offset.max(2), &mut |entry| {
                entries.push(entry);
                entries.len() < LISTED
            })?;
            for mut entry in entries {
                let inode = wants_inodes.then(|| tree.inode(entry.inode)).transpose()?;
                entry.inode = Past::number(at, entry.inode);
                with_inodes.push((entry, inode));
            }
            Ok(with_inodes)
        })?;
        listed.extend(entries);
        Ok(listed)
    }

    /// Opens an inode; the handle says whether it may be written.
    fn opened(&self, number: INodeNo, writes: bool) -> Result<u64, Errno> {
        match place(number.0) {
            Place::Now(number) => {
                self.fs.open_inode(number).map_err(|error| errno(&error))?;
                Ok(if writes { WRITES } else { 0 })
            }
            _ if writes => Err(Errno::EROFS),
            _ => Ok(0),
        }
    }

    /// A folder of snapshots is made: that names one.
    fn name_snapshot(&self, name: &[u8]) -> Result<(Place, Inode), Errno> {
        let text = std::str::from_utf8(name).map_err(|_| Errno::EINVAL)?;
        if self.fs.store().snapshots().iter().any(|(other, _)| other == text) {
            return Err(Errno::EEXIST);
        }
        let store_error = |error: StoreError| errno(&error.into());
        self.fs.store().save_snapshot(text).map_err(store_error)?;
        self.find(INodeNo(SNAPSHOTS), name)
    }

    fn drop_snapshot(&self, name: &[u8]) -> Result<(), Errno> {
        let text = std::str::from_utf8(name).map_err(|_| Errno::ENOENT)?;
        match self.fs.store().drop_snapshot(text) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Errno::ENOENT),
            Err(error) => Err(errno(&error.into())),
        }
    }
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
        // The log holds what could not be synced as far as it came; the next open says so.
        let _ = self.fs.sync();
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.entry(self.find(parent, name.as_bytes()), reply);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let at = place(number.0);
        match self.inode_at(at) {
            Ok(inode) => reply.attr(&TTL, &self.attributes(at, &inode)),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
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
        match self.remove(&[number], |tree| tree.set(number.0, &set)) {
            Ok(inode) => reply.attr(&TTL, &self.attributes(Place::Now(number.0), &inode)),
            Err(error) => reply.error(error),
        }
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        match self.read_at(number, |tree, number| tree.target(number)) {
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
        self.made(self.write(&[parent], |t| t.create(parent.0, name.as_bytes(), &new)), reply);
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
        if place(parent.0) == Place::Snapshots {
            return self.entry(self.name_snapshot(name.as_bytes()), reply);
        }
        if place(parent.0) == Place::Now(ROOT) && name.as_bytes() == CONTROL_NAME {
            return reply.error(Errno::EEXIST);
        }
        let new = new_of(request, FileKind::Directory, mode, 0);
        self.made(self.write(&[parent], |t| t.create(parent.0, name.as_bytes(), &new)), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(self.remove(&[parent], |t| t.unlink(parent.0, name.as_bytes())), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        if place(parent.0) == Place::Snapshots {
            return done(self.drop_snapshot(name.as_bytes()), reply);
        }
        done(self.remove(&[parent], |t| t.remove_directory(parent.0, name.as_bytes())), reply);
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
        let target = target.as_os_str().as_bytes();
        let made = self.write(&[parent], |t| t.symlink(parent.0, name.as_bytes(), target, &new));
        self.made(made, reply);
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
        let (from, to) = ((parent.0, name.as_bytes()), (new_parent.0, new_name.as_bytes()));
        done(self.remove(&[parent, new_parent], |t| t.rename(from, to, how)), reply);
    }

    fn link(&self, _: &Request, number: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let linked = self.write(&[number, parent], |t| t.link(number.0, parent.0, name.as_bytes()));
        self.made(linked, reply);
    }

    fn open(&self, _: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.opened(number, flags.acc_mode() != OpenAccMode::O_RDONLY) {
            Ok(handle) => reply.opened(FileHandle(handle), FopenFlags::FOPEN_KEEP_CACHE),
            Err(error) => reply.error(error),
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
        let made = self.write(&[parent], |t| t.create(parent.0, name.as_bytes(), &new));
        // The kernel holds the directory: nothing is removed from it in between.
        let made = made.and_then(|inode| {
            let handle = self.opened(INodeNo(inode.number), writes)?;
            Ok((inode, handle))
        });
        match made {
            Ok((inode, handle)) => {
                let attributes = self.attributes(Place::Now(inode.number), &inode);
                let (generation, handle) = (Generation(inode.generation), FileHandle(handle));
                reply.created(&TTL, &attributes, generation, handle, FopenFlags::FOPEN_KEEP_CACHE);
            }
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut bytes = vec![0; size as usize];
        match self.read_at(number, |tree, number| tree.read(number, offset, &mut bytes)) {
            Ok(len) => reply.data(&bytes[..len]),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match Face::write(self, &[number], |tree| tree.write(number.0, offset, data)) {
            Ok(_) => reply.written(data.len() as u32),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, handle: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        if handle.0 == WRITES && self.durable == Durable::Close {
            self.sync(reply);
        } else {
            reply.ok();
        }
    }

    fn release(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        let closed = match place(number.0) {
            Place::Now(number) => self.fs.close_inode(number),
            _ => Ok(()),
        };
        done(closed.map_err(|error| errno(&error)), reply);
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.sync(reply);
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.sync(reply);
    }

    fn readdir(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let listed = match self.listed(number, offset, false) {
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
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let listed = match self.listed(number, offset, true) {
            Ok(listed) => listed,
            Err(error) => return reply.error(error),
        };
        for (entry, inode) in listed {
            let Some(inode) = inode else { continue };
            let (name, number) = (OsStr::from_bytes(&entry.name), INodeNo(entry.inode));
            let attributes = attributes(&inode, entry.inode, self.fs.piece_size());
            let generation = Generation(inode.generation);
            if reply.add(number, entry.cookie, name, &TTL, &attributes, generation) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let usage = self.fs.usage();
        let block = self.fs.piece_size() as u64;
        let (total, free) = (usage.total / block, (usage.total - usage.used) / block);
        let files = u64::from(u32::MAX);
        reply.statfs(total, free, free, files, files, block as u32, 255, block as u32);
    }

    fn setxattr(
        &self,
        _: &Request,
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
        let set =
            Face::write(self, &[number], |t| t.set_attribute(number.0, name, value, condition));
        done(set, reply);
    }

    fn getxattr(&self, _: &Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        if name.as_bytes().starts_with(ACCESS_LISTS) {
            return reply.error(Errno::EOPNOTSUPP);
        }
        let found = self.read_at(number, |tree, number| tree.attribute(number, name.as_bytes()));
        attribute_reply(found, size, reply);
    }

    fn listxattr(&self, _: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        let names = self.read_at(number, |tree, number| tree.attributes(number));
        let list = names.map(|names| names.iter().flat_map(|n| [&n[..], b"\0"].concat()).collect());
        attribute_reply(list, size, reply);
    }

    fn removexattr(&self, _: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = self.remove(&[number], |t| t.remove_attribute(number.0, name.as_bytes()));
        done(removed, reply);
    }

    fn fallocate(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
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
        let allocated = Face::write(self, &[number], |t| t.allocate(number.0, offset, len, how));
        done(allocated.map(drop), reply);
    }

    fn lseek(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let Ok(offset) = u64::try_from(offset) else { return reply.error(Errno::ENXIO) };
        let found = match whence {
            SEEK_DATA => self.read_at(number, |tree, number| tree.seek_data(number, offset)),
            SEEK_HOLE => self.read_at(number, |tree, number| tree.seek_hole(number, offset)),
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
        _: FileHandle,
        from_offset: u64,
        to: INodeNo,
        _: FileHandle,
        to_offset: u64,
        len: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        // The answer has 32 bits.
        let len = len.min(1 << 30);
        let copied = Face::write(self, &[from, to], |tree| {
            tree.copy_range((from.0, from_offset), (to.0, to_offset), len)
        });
        match copied {
            Ok(copied) => reply.written(copied as u32),
            Err(error) => reply.error(error),
        }
    }
}
