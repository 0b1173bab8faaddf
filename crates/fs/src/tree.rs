//! The calls of a file system, through any handle of the store.

use crate::access::{Reads, Writes};
use crate::access_list;
use crate::allocate::{Allocate, allocate, copy_range};
use crate::attributes::{self, Condition};
use crate::bounds::{ROOT, TARGET_LEN_MAX};
use crate::data;
use crate::inode::{FileKind, Inode};
use crate::names::{self, New, Rename};
use crate::records::{Changing, Entry, Layout, Records};
use crate::share::{can_share, hides_all, is_worth_it, release, share};
use crate::time::Time;
use crate::{Error, check};

/// A file system at one version, to be read.
///
/// Inodes are named by their numbers, [`ROOT`] is the first. Permissions are kept, and left to the caller to check.
pub struct Tree<A> {
    records: Records<A>,
}

/// A file system that is being changed: what is read contains the changes.
///
/// A call that fails changes nothing, but for [`Error::Store`] and [`Error::Damaged`] in the middle of it: then the whole
/// change can only be dropped ([`Error::Broken`]).
pub struct TreeMut<'t, A> {
    tree: Tree<A>,
    changing: Changing<'t>,
}

/// A file system to be read, through whatever handle of the store.
pub type AnyTree<'a> = Tree<&'a mut (dyn Reads + 'a)>;

/// A file system that is being changed, through whatever handle of the store.
pub type AnyTreeMut<'t, 'a> = TreeMut<'t, &'a mut (dyn Writes + 'a)>;

/// What of an inode is set; `None` stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Set {
    /// The lower twelve bits of `st_mode`.
    pub permissions: Option<u16>,
    /// Number of the owner.
    pub user: Option<u32>,
    /// Number of the owner's group.
    pub group: Option<u32>,
    /// Bytes; what is behind it is cut off, what comes to be is zero.
    pub size: Option<u64>,
    /// Last time of reading.
    pub accessed: Option<Time>,
    /// Last change of its bytes.
    pub modified: Option<Time>,
}

impl<A: Reads> Tree<A> {
    pub(crate) fn new(access: A, layout: Layout) -> Tree<A> {
        Tree { records: Records::new(access, layout) }
    }

    /// The same, of a type that does not show which handle it has.
    pub fn any(&mut self) -> AnyTree<'_> {
        let layout = self.records.layout;
        Tree::new(self.records.handle(), layout)
    }

    /// The size of a piece, in bytes: what holes and copies fit to.
    pub fn piece_size(&self) -> usize {
        self.records.layout.piece_size
    }

    /// An inode.
    ///
    /// # Errors
    /// [`Error::NoSuchInode`].
    pub fn inode(&mut self, number: u64) -> Result<Inode, Error> {
        self.records.inode(number)
    }

    /// What a directory has under a name; `.` and `..` too, and `.` of any inode.
    ///
    /// # Errors
    /// [`Error::NoSuchName`], [`Error::NotADirectory`], [`Error::NoSuchInode`], [`Error::NameTooLong`].
    pub fn lookup(&mut self, directory: u64, name: &[u8]) -> Result<Inode, Error> {
        let inode = self.records.inode(directory)?;
        if name == b"." {
            return Ok(inode);
        }
        let parent = inode.directory()?;
        match name {
            b".." => return self.records.inode(parent.parent),
            _ => names::check_name(name)?,
        }
        let named = names::named(&mut self.records, directory, name)?;
        self.records.inode(named.inode)
    }

    /// What a path leads to, from the root on. Symbolic links are not followed.
    ///
    /// # Errors
    /// As of [`lookup`](Tree::lookup).
    pub fn resolve(&mut self, path: &[u8]) -> Result<Inode, Error> {
        let mut at = self.records.inode(ROOT)?;
        for name in path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
            at = self.lookup(at.number, name)?;
        }
        Ok(at)
    }

    /// The entries of a directory behind the one with that cookie (0: from the first on), until `visit` returns false. `.`
    /// and `..` are not among them, and no entry has a cookie below 3. An entry keeps its cookie.
    ///
    /// # Errors
    /// [`Error::NotADirectory`], [`Error::NoSuchInode`].
    pub fn list(
        &mut self,
        directory: u64,
        after: u64,
        visit: &mut dyn FnMut(Entry) -> bool,
    ) -> Result<(), Error> {
        self.records.inode(directory)?.directory()?;
        self.records.entries(directory, after, visit)
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// [`Error::Invalid`], [`Error::NoSuchInode`].
    pub fn target(&mut self, number: u64) -> Result<Vec<u8>, Error> {
        let inode = self.records.inode(number)?;
        if inode.kind != FileKind::Symlink {
            return Err(Error::Invalid { inode: number, what: "it is no symbolic link" });
        }
        let mut target = vec![0; (inode.size as usize).min(TARGET_LEN_MAX)];
        data::read(&mut self.records, &inode, 0, &mut target)?;
        Ok(target)
    }

    /// Reads bytes of a file from an offset on; how many: fewer than asked for at its end.
    ///
    /// # Errors
    /// [`Error::NoSuchInode`], [`Error::IsADirectory`], [`Error::Invalid`].
    pub fn read(&mut self, number: u64, offset: u64, to: &mut [u8]) -> Result<usize, Error> {
        let inode = self.records.inode(number)?.regular()?;
        data::read(&mut self.records, &inode, offset, to)
    }

    /// The first byte at or behind an offset that was written (`SEEK_DATA`), by whole pieces.
    ///
    /// # Errors
    /// [`Error::NothingThere`]; as of [`read`](Tree::read).
    pub fn seek_data(&mut self, number: u64, offset: u64) -> Result<u64, Error> {
        let inode = self.records.inode(number)?.regular()?;
        let found = data::seek_data(&mut self.records, &inode, offset)?;
        found.ok_or(Error::NothingThere { inode: number, offset })
    }

    /// The first byte at or behind an offset that takes no space (`SEEK_HOLE`); at the latest the size.
    ///
    /// # Errors
    /// [`Error::NothingThere`]; as of [`read`](Tree::read).
    pub fn seek_hole(&mut self, number: u64, offset: u64) -> Result<u64, Error> {
        let inode = self.records.inode(number)?.regular()?;
        let found = data::seek_hole(&mut self.records, &inode, offset)?;
        found.ok_or(Error::NothingThere { inode: number, offset })
    }

    /// The value of an extended attribute.
    ///
    /// # Errors
    /// [`Error::NoSuchAttribute`], [`Error::NoSuchInode`], [`Error::Invalid`].
    pub fn attribute(&mut self, number: u64, name: &[u8]) -> Result<Vec<u8>, Error> {
        attributes::get(&mut self.records, number, name)
    }

    /// The names of the extended attributes, in order.
    ///
    /// # Errors
    /// [`Error::NoSuchInode`].
    pub fn attributes(&mut self, number: u64) -> Result<Vec<Vec<u8>>, Error> {
        let inode = self.records.inode(number)?;
        if inode.attributes == 0 { Ok(Vec::new()) } else { self.records.attributes(number) }
    }

    /// Inodes that have no name any more, and are, or were, open.
    ///
    /// # Errors
    /// Damage.
    pub fn orphans(&mut self) -> Result<Vec<u64>, Error> {
        self.records.orphans()
    }

    /// Compares all that there is: names with inodes, links, sizes, pieces, layers, attributes, orphans.
    ///
    /// # Errors
    /// Damage of the store. What contradicts itself in the file system is in the [`Check`](check::Check).
    pub fn check(&mut self) -> Result<check::Check, Error> {
        check::check(&mut self.records)
    }

    pub(crate) fn last_number(&mut self) -> Result<u64, Error> {
        self.records.last_number()
    }

    pub(crate) fn records(&mut self) -> &mut Records<A> {
        &mut self.records
    }
}

impl<'t, A: Writes> TreeMut<'t, A> {
    pub(crate) fn new(access: A, layout: Layout, changing: Changing<'t>) -> TreeMut<'t, A> {
        TreeMut { tree: Tree::new(access, layout), changing }
    }

    /// What it was made of, but for the handle.
    pub(crate) fn into_changing(self) -> Changing<'t> {
        self.changing
    }

    /// To read what it has.
    pub fn tree(&mut self) -> &mut Tree<A> {
        &mut self.tree
    }

    /// The time that all that it changes gets.
    pub fn now(&self) -> Time {
        self.changing.now
    }

    /// Makes a file, a directory, or anything else but a symbolic link.
    ///
    /// # Errors
    /// [`Error::NameExists`], [`Error::InvalidName`], [`Error::NameTooLong`], [`Error::NotADirectory`],
    /// [`Error::NoSuchInode`], [`Error::Invalid`], [`Error::TooManyLinks`].
    pub fn create(&mut self, parent: u64, name: &[u8], new: &New) -> Result<Inode, Error> {
        self.check_whole()?;
        if new.kind == FileKind::Symlink {
            return Err(Error::Invalid { inode: parent, what: "a symbolic link has a target" });
        }
        names::create(
            &mut self.tree.records,
            &mut self.changing,
            (parent, name),
            new,
            |_, _| Ok(()),
        )
    }

    /// Makes a symbolic link. `new` says all but the kind.
    ///
    /// # Errors
    /// As of [`create`](TreeMut::create).
    pub fn symlink(
        &mut self,
        parent: u64,
        name: &[u8],
        target: &[u8],
        new: &New,
    ) -> Result<Inode, Error> {
        self.check_whole()?;
        if target.len() > TARGET_LEN_MAX {
            return Err(Error::NameTooLong { len: target.len(), max: TARGET_LEN_MAX });
        }
        if target.is_empty() || target.contains(&0) {
            return Err(Error::InvalidName { name: target.to_vec() });
        }
        let new = New { kind: FileKind::Symlink, ..*new };
        names::create(
            &mut self.tree.records,
            &mut self.changing,
            (parent, name),
            &new,
            |records, inode| data::write(records, inode, 0, target),
        )
    }

    /// Makes a file without a name (`O_TMPFILE`): [`link`](TreeMut::link) gives it one. Else it is removed when it is closed,
    /// or at the next open of the file system.
    ///
    /// # Errors
    /// [`Error::NotADirectory`], [`Error::NoSuchInode`].
    pub fn create_unnamed(&mut self, parent: u64, new: &New) -> Result<Inode, Error> {
        self.check_whole()?;
        names::create_unnamed(&mut self.tree.records, &mut self.changing, parent, new)
    }

    /// Gives a file another name.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] of a directory; as of [`create`](TreeMut::create).
    pub fn link(&mut self, number: u64, parent: u64, name: &[u8]) -> Result<Inode, Error> {
        self.check_whole()?;
        names::link(&mut self.tree.records, &mut self.changing, number, (parent, name))
    }

    /// Removes a name of a file; with the last one the file, unless it is open.
    ///
    /// # Errors
    /// [`Error::NoSuchName`], [`Error::IsADirectory`], [`Error::NotADirectory`], [`Error::NoSuchInode`].
    pub fn unlink(&mut self, parent: u64, name: &[u8]) -> Result<(), Error> {
        self.check_whole()?;
        names::unlink(&mut self.tree.records, &mut self.changing, (parent, name), false)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// [`Error::NotEmpty`]; as of [`unlink`](TreeMut::unlink).
    pub fn remove_directory(&mut self, parent: u64, name: &[u8]) -> Result<(), Error> {
        self.check_whole()?;
        names::unlink(&mut self.tree.records, &mut self.changing, (parent, name), true)
    }

    /// Renames, moves, or exchanges two names.
    ///
    /// # Errors
    /// [`Error::Invalid`] of a directory that would lie below itself; [`Error::NameExists`], [`Error::NotEmpty`],
    /// [`Error::IsADirectory`], [`Error::NotADirectory`], [`Error::NoSuchName`], [`Error::NoSuchInode`].
    pub fn rename(
        &mut self,
        from: (u64, &[u8]),
        to: (u64, &[u8]),
        how: Rename,
    ) -> Result<(), Error> {
        self.check_whole()?;
        names::rename(&mut self.tree.records, &mut self.changing, from, to, how)
    }

    /// Sets owner, permissions, size and times. An access list follows the permissions.
    ///
    /// # Errors
    /// [`Error::NoSuchInode`]; of a size [`Error::IsADirectory`], [`Error::Invalid`], [`Error::FileTooBig`].
    pub fn set(&mut self, number: u64, set: &Set) -> Result<Inode, Error> {
        let now = self.changing.now;
        self.change(number, (0, 0), |records, inode| {
            if let Some(size) = set.size {
                *inode = inode.clone().regular()?;
                data::resize(records, inode, size)?;
                inode.modified = now;
            }
            if let Some(permissions) = set.permissions {
                inode.permissions = permissions & 0o7777;
                access_list::follow(records, inode)?;
            }
            inode.user = set.user.unwrap_or(inode.user);
            inode.group = set.group.unwrap_or(inode.group);
            inode.accessed = set.accessed.unwrap_or(inode.accessed);
            inode.modified = set.modified.unwrap_or(inode.modified);
            inode.changed = now;
            Ok(())
        })
    }

    /// Writes bytes of a file at an offset.
    ///
    /// # Errors
    /// [`Error::FileTooBig`], [`Error::OverLimit`], [`Error::NoSuchInode`], [`Error::IsADirectory`], [`Error::Invalid`].
    pub fn write(&mut self, number: u64, offset: u64, bytes: &[u8]) -> Result<Inode, Error> {
        let now = self.changing.now;
        let end = data::checked_end(offset, bytes.len() as u64)?;
        self.change(number, (offset, end), |records, inode| {
            *inode = inode.clone().regular()?;
            data::write(records, inode, offset, bytes)?;
            (inode.modified, inode.changed) = (now, now);
            Ok(())
        })
    }

    /// Allocates a range of a file, or gives it back.
    ///
    /// # Errors
    /// [`Error::Invalid`] of a range that does not fit; [`Error::OverLimit`] of one to extend to that exceeds what is left; as of
    /// [`write`](TreeMut::write).
    pub fn allocate(
        &mut self,
        number: u64,
        offset: u64,
        len: u64,
        how: Allocate,
    ) -> Result<Inode, Error> {
        let now = self.changing.now;
        let written =
            if how.extends() { (offset, data::checked_end(offset, len)?) } else { (0, 0) };
        self.change(number, written, |records, inode| {
            *inode = inode.clone().regular()?;
            allocate(records, inode, (offset, len), how)?;
            (inode.modified, inode.changed) = (now, now);
            Ok(())
        })
    }

    /// Copies a range of a file to another, or within it; how many bytes: fewer than asked for at its end. All or nothing.
    ///
    /// From the begin on to an empty file, and behind what was copied so, it is done as by [`clone_file`](TreeMut::clone_file),
    /// in constant time; but not while a transaction is in progress, for which that would be a change of the other file.
    ///
    /// # Errors
    /// [`Error::Invalid`] of ranges of one file that overlap; as of [`write`](TreeMut::write).
    pub fn copy_range(
        &mut self,
        (from, from_offset): (u64, u64),
        (to, to_offset): (u64, u64),
        len: u64,
    ) -> Result<u64, Error> {
        let from = self.tree.records.inode(from)?.regular()?;
        let len = len.min(from.size.saturating_sub(from_offset));
        if self.changing.may_share && from_offset == to_offset && len > 0 {
            let target = self.tree.records.inode(to)?.regular()?;
            if can_share(&self.tree.records, &from, &target, (to_offset, len)) {
                self.share(from, to, to_offset + len)?;
                return Ok(len);
            }
        }
        self.copy_bytes((from, from_offset), (to, to_offset), len)
    }

    fn copy_bytes(
        &mut self,
        (from, from_offset): (Inode, u64),
        (to, to_offset): (u64, u64),
        len: u64,
    ) -> Result<u64, Error> {
        let (now, mut copied) = (self.changing.now, 0);
        let end = data::checked_end(to_offset, len)?;
        self.change(to, (to_offset, end), |records, inode| {
            *inode = inode.clone().regular()?;
            copied = copy_range(records, (&from, from_offset), (inode, to_offset), len)?;
            (inode.modified, inode.changed) = (now, now);
            Ok(())
        })?;
        Ok(copied)
    }

    /// Makes an empty file show the bytes of another, in constant time: what either changes later it has of its own. Small files
    /// are copied. Nothing but the bytes is the same afterwards.
    ///
    /// In a transaction it is a change of both files.
    ///
    /// # Errors
    /// [`Error::Invalid`]: the second file is not empty, or is the first; as of [`copy_range`](TreeMut::copy_range).
    pub fn clone_file(&mut self, from: u64, to: u64) -> Result<(), Error> {
        let source = self.tree.records.inode(from)?.regular()?;
        let target = self.tree.records.inode(to)?.regular()?;
        if from == to || target.size > 0 {
            return Err(Error::Invalid { inode: to, what: "a clone is made of an empty file" });
        }
        let size = source.size;
        if target.below.is_none() && is_worth_it(&self.tree.records, size) {
            self.share(source, to, size)
        } else {
            self.copy_bytes((source, 0), (to, 0), size).map(drop)
        }
    }

    /// Makes a file show the bytes of another up to an end.
    fn share(&mut self, mut from: Inode, to: u64, end: u64) -> Result<(), Error> {
        let (now, number) = (self.changing.now, self.changing.draw_number());
        // A transaction that finds the file removed, or cloned once more, is refused.
        let puts_source = from.pieces > 0 || !self.changing.unlinking.removes();
        self.change(to, (0, 0), |records, inode| {
            share(records, &mut from, inode, end, number)?;
            if puts_source {
                records.put_inode(&from)?;
            }
            (inode.modified, inode.changed) = (now, now);
            Ok(())
        })?;
        Ok(())
    }

    /// Sets an extended attribute. An access list ([`ACCESS_LIST`](crate::ACCESS_LIST)) sets the permissions too, and is not kept
    /// if these say all of it.
    ///
    /// # Errors
    /// [`Error::AttributeExists`], [`Error::NoSuchAttribute`], [`Error::AttributeTooLong`], [`Error::NameTooLong`],
    /// [`Error::Invalid`], [`Error::NoSuchInode`].
    pub fn set_attribute(
        &mut self,
        number: u64,
        name: &[u8],
        value: &[u8],
        condition: Condition,
    ) -> Result<(), Error> {
        self.check_whole()?;
        let (records, changing) = (&mut self.tree.records, &mut self.changing);
        attributes::set(records, changing, number, (name, value), condition)
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// [`Error::NoSuchAttribute`], [`Error::NoSuchInode`].
    pub fn remove_attribute(&mut self, number: u64, name: &[u8]) -> Result<(), Error> {
        self.check_whole()?;
        attributes::remove(&mut self.tree.records, &mut self.changing, number, name)
    }

    /// Removes an inode that has no name any more.
    pub(crate) fn remove_orphan(&mut self, number: u64) -> Result<(), Error> {
        self.check_whole()?;
        if let Some(inode) = self.tree.records.find(number)? {
            if inode.links > 0 {
                return Ok(());
            }
            self.changing.is_broken = true;
            names::remove(&mut self.tree.records, inode)?;
        }
        self.changing.is_broken = true;
        self.tree.records.remove_orphan(number)?;
        self.changing.is_broken = false;
        Ok(())
    }

    /// Changes an inode, and puts it; bytes from one offset up to another are written at most.
    fn change(
        &mut self,
        number: u64,
        written: (u64, u64),
        change: impl FnOnce(&mut Records<A>, &mut Inode) -> Result<(), Error>,
    ) -> Result<Inode, Error> {
        self.check_whole()?;
        let records = &mut self.tree.records;
        let mut inode = records.inode(number)?;
        let before = inode.pieces;
        self.changing.check_left(&inode, written, records.layout.piece_size)?;
        self.changing.is_broken = true;
        let changed = change(records, &mut inode);
        // These are found before anything is changed.
        let is_refused = |error: &Error| !matches!(error, Error::Store(_) | Error::Damaged { .. });
        if let Err(error) = changed {
            self.changing.is_broken = !is_refused(&error);
            return Err(error);
        }
        if inode.below.is_some() && hides_all(&inode, records.layout.piece_size) {
            if self.changing.unlinking.removes() {
                release(records, &mut inode)?;
            } else if let Some(below) = &mut inode.below {
                below.end = 0;
            }
        }
        let added = inode.pieces.saturating_sub(before) * records.layout.piece_size as u64;
        self.changing.left = self.changing.left.map(|left| left.saturating_sub(added));
        inode.edits += 1;
        records.put_inode(&inode)?;
        self.changing.is_broken = false;
        Ok(inode)
    }

    /// # Errors
    /// [`Error::Broken`].
    pub(crate) fn check_whole(&self) -> Result<(), Error> {
        if self.changing.is_broken { Err(Error::Broken) } else { Ok(()) }
    }
}
