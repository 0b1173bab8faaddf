//! Requests on names: what a directory has, gets, and loses.

use std::time::Duration;

use fuser::{Errno, INodeNo, RenameFlags, Request};
use tembo_fs::{AnyTreeMut, FileKind, Inode, New, Rename};

use crate::place::Place;
use crate::replies::TTL;
use crate::served::{Served, Shown};
use crate::trees::Trees;

/// Bytes of a file that is kept for a moment when another gets its name.
const HELD_MAX: u64 = 1 << 20;

/// Files like one that is kept for which there is room below the limit: more than are kept at a time.
const HELD_ROOM: u64 = 512;

/// What a request makes, with a mode that the mask has not been taken from.
pub(crate) fn new_of(request: &Request, kind: FileKind, (mode, umask): (u32, u32)) -> New {
    let (user, group) = (request.uid(), request.gid());
    let (permissions, umask) = ((mode & 0o7777) as u16, Some((umask & 0o777) as u16));
    New { kind, permissions, user, group, device: 0, umask }
}

impl Served {
    /// What a name stands for, and how long the kernel may keep that. `None`: nothing, and the kernel may keep that as long as
    /// names that are there. It forgets it when the name is given in the directory, or a commit notifies it of that.
    pub(crate) fn lookup(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &[u8],
    ) -> Result<Option<(Shown, Duration)>, Errno> {
        let found = match self.trees.find(parent, name, request.uid()) {
            // What the folders of `.tembo` have, others than their programs change.
            Err(error)
                if error.code() == Errno::ENOENT.code() && !Place::of(parent).is_control() =>
            {
                return Ok(None);
            }
            found => found?,
        };
        // Whether a transaction has ended, the kernel asks each time.
        let ttl = if Place::of(parent) == Place::Transactions { Duration::ZERO } else { TTL };
        Ok(Some((self.shown(&found)?, ttl)))
    }

    /// An inode that was made, or got a name, in a directory.
    fn made(&self, parent: INodeNo, made: &Inode) -> Result<Shown, Errno> {
        self.shown(&(Place::of(parent).beside(made.number), made.clone()))
    }

    /// Makes what is no symbolic link.
    pub(crate) fn create_entry(
        &self,
        parent: INodeNo,
        name: &[u8],
        new: &New,
    ) -> Result<Inode, Errno> {
        Trees::check_entry(parent, name)?;
        self.trees.write([parent], |tree, [parent]| tree.create(parent, name, new))
    }

    pub(crate) fn mknod(
        &self,
        request: &Request,
        (parent, name): (INodeNo, &[u8]),
        mode: (u32, u32),
        device: u32,
    ) -> Result<Shown, Errno> {
        let kind = FileKind::of_mode(mode.0).ok_or(Errno::EINVAL)?;
        let new = New { device: device.into(), ..new_of(request, kind, mode) };
        self.made(parent, &self.create_entry(parent, name, &new)?)
    }

    pub(crate) fn mkdir(
        &self,
        request: &Request,
        (parent, name): (INodeNo, &[u8]),
        mode: (u32, u32),
    ) -> Result<Shown, Errno> {
        if Place::of(parent) == Place::Snapshots {
            return self.shown(&self.trees.name_snapshot(parent, name, request.uid())?);
        }
        let new = new_of(request, FileKind::Directory, mode);
        self.made(parent, &self.create_entry(parent, name, &new)?)
    }

    pub(crate) fn symlink(
        &self,
        request: &Request,
        (parent, name): (INodeNo, &[u8]),
        target: &[u8],
    ) -> Result<Shown, Errno> {
        let new = new_of(request, FileKind::Symlink, (0o777, 0));
        Trees::check_entry(parent, name)?;
        let made = self
            .trees
            .write([parent], |tree, [parent]| tree.symlink(parent, name, target, &new))?;
        self.made(parent, &made)
    }

    pub(crate) fn readlink(&self, number: INodeNo) -> Result<Vec<u8>, Errno> {
        self.trees.read(number, |tree, number| tree.target(number))
    }

    pub(crate) fn link(
        &self,
        number: INodeNo,
        (parent, name): (INodeNo, &[u8]),
    ) -> Result<Shown, Errno> {
        Trees::check_entry(parent, name)?;
        if !Place::of(number).is_beside(Place::of(parent)) {
            return Err(Errno::EXDEV);
        }
        let linked = self
            .trees
            .write([number, parent], |tree, [number, parent]| tree.link(number, parent, name))?;
        self.made(parent, &linked)
    }

    pub(crate) fn unlink(&self, parent: INodeNo, name: &[u8]) -> Result<(), Errno> {
        Trees::check_entry(parent, name)?;
        self.trees.remove([parent], |tree, [parent]| tree.unlink(parent, name))
    }

    pub(crate) fn rmdir(&self, parent: INodeNo, name: &[u8]) -> Result<(), Errno> {
        if Place::of(parent) == Place::Snapshots {
            return self.trees.drop_snapshot(name);
        }
        Trees::check_entry(parent, name)?;
        let removed = self.now_at(parent, name);
        self.trees.remove([parent], |tree, [parent]| tree.remove_directory(parent, name))?;
        self.note_gone(removed);
        Ok(())
    }

    pub(crate) fn rename(
        &self,
        (parent, name): (INodeNo, &[u8]),
        (new_parent, new_name): (INodeNo, &[u8]),
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        let how = match flags {
            flags if flags.is_empty() => Rename::Replace,
            RenameFlags::RENAME_NOREPLACE => Rename::NoReplace,
            RenameFlags::RENAME_EXCHANGE => Rename::Exchange,
            _ => return Err(Errno::EINVAL),
        };
        Trees::check_entry(parent, name)?;
        Trees::check_entry(new_parent, new_name)?;
        let numbers = [parent, new_parent];
        let rename = |tree: &mut AnyTreeMut<'_, '_>, [from, to]: [u64; 2]| {
            tree.rename((from, name), (to, new_name), how)
        };
        let replaced =
            (how == Rename::Replace).then(|| self.now_at(new_parent, new_name)).flatten();
        if let Some(held) = replaced.as_ref().and_then(|inode| self.hold(inode)) {
            let renamed = self.trees.write(numbers, rename);
            let is_full = |error: &Errno| {
                [Errno::ENOSPC, Errno::EDQUOT].map(Errno::code).contains(&error.code())
            };
            if !renamed.as_ref().is_err_and(is_full) {
                self.committer.let_go(&self.trees.fs, held);
                return renamed;
            }
            // There is room for no more than what it replaces. If this fails, the next open of the file system removes that.
            let _ = self.trees.fs.close_inode(held);
        }
        self.trees.remove(numbers, rename)?;
        self.note_gone(replaced);
        Ok(())
    }

    /// What a name stands for, of the files as they are now.
    fn now_at(&self, parent: INodeNo, name: &[u8]) -> Option<Inode> {
        let is_now = matches!(Place::of(parent), Place::Now(_));
        let found = || self.trees.read(parent, |tree, parent| tree.lookup(parent, name)).ok();
        is_now.then(found).flatten()
    }

    /// Notes what was removed, if it was a directory.
    fn note_gone(&self, removed: Option<Inode>) {
        if let Some(directory) = removed.filter(Inode::is_directory) {
            self.trees.gone.note(directory.number);
        }
    }

    /// Keeps a file that another takes the name of, as if it were open: programs may have found it, and open it then. A large one is not
    /// kept, nor a directory, for the kernel looks for what it does not find once more; and none where there is little room.
    fn hold(&self, inode: &Inode) -> Option<u64> {
        if inode.is_directory() || inode.links > 1 || inode.size > HELD_MAX {
            return None;
        }
        let is_scarce = |left| left < HELD_ROOM * inode.size;
        if self.committer.is_busy() || self.trees.fs.left().is_some_and(is_scarce) {
            return None;
        }
        self.trees.fs.open_inode(inode.number).ok().map(|inode| inode.number)
    }
}
