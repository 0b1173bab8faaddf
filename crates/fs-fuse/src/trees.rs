//! All that a mount shows, by the kernel's numbers: the files as they are now, transactions, snapshots, the folders of `.tembo`.

use std::time::{Duration, Instant};

use fuser::{Errno, FileAttr, INodeNo};
use tembo_fs::{AnyTree, AnyTreeMut, Entry, Error, FileKind, Fs, FsTransaction, Inode, ROOT, Time};
use tembo_kv::{Durability, Error as StoreError, is_own_name};

use crate::errors::errno;
use crate::gone::Gone;
use crate::opened::MARK;
use crate::past::Past;
use crate::place::Place;
use crate::quota::Quota;
use crate::replies::{attributes, now};
use crate::unsynced::Unsynced;
use crate::views::Views;

/// The folder in the root, which no listing shows.
const CONTROL_NAME: &[u8] = b".tembo";

/// What it has.
const CONTROL_ENTRIES: [(&[u8], Place); 6] = [
    (b"snapshots", Place::Snapshots),
    (b"versions", Place::Versions),
    (b"version", Place::Version),
    (b"at", Place::At),
    (b"transactions", Place::Transactions),
    (b"begin", Place::Begin),
];

/// How long what removes something waits for space that is about to be given back.
const PATIENCE: Duration = Duration::from_secs(5);

/// Entries that one answer to a listing holds at most.
const LISTED: usize = 256;

/// An inode, and where it is.
pub(crate) type Found = (Place, Inode);

/// All that a mount shows.
pub(crate) struct Trees {
    pub(crate) fs: Fs,
    past: Past,
    views: Views,
    unsynced: Unsynced,
    pub(crate) gone: Gone,
    pub(crate) quota: Quota,
    /// The user that has mounted it.
    user: u32,
}

/// A number, as it is written without a sign or zeroes before it.
fn number_of(name: &[u8]) -> Option<u64> {
    let number = std::str::from_utf8(name).ok()?.parse().ok()?;
    (format!("{number}").as_bytes() == name).then_some(number)
}

/// A time, as it is written.
fn time_of(name: &[u8]) -> Option<Time> {
    Time::of_text(std::str::from_utf8(name).ok()?)
}

fn code_of(error: Error) -> Errno {
    errno(&error)
}

impl Trees {
    pub(crate) fn new(fs: Fs, user: u32) -> Trees {
        let (past, views, unsynced) = (Past::default(), Views::default(), Unsynced::default());
        let (gone, quota) = (Gone::default(), Quota::new(user));
        Trees { fs, past, views, unsynced, gone, quota, user }
    }

    /// The error of a request of inodes as they are now. One that is not there any more the kernel has found by a name that was
    /// removed or given to another since: it looks for it once more.
    fn code_of(&self, error: Error, inodes: &[u64]) -> Errno {
        match error {
            Error::NoSuchInode { inode } if inodes.contains(&inode) && !self.gone.has(inode) => {
                Errno::ESTALE
            }
            error => code_of(error),
        }
    }

    /// Notes that inodes, as they are now, have changed: a close of them waits for that.
    pub(crate) fn note_changed(&self, inodes: &[u64]) {
        let store = self.fs.store();
        self.unsynced.note(inodes, store.visible(), store.durable());
    }

    /// Whether something of an inode waits for a sync. What a transaction has waits for its commit.
    pub(crate) fn is_unsynced(&self, number: INodeNo) -> bool {
        match Place::of(number) {
            Place::Now(inode) => self.unsynced.has(inode, self.fs.store().durable()),
            _ => false,
        }
    }

    /// Whether anything of the files as they are now waits for a sync.
    pub(crate) fn is_any_unsynced(&self) -> bool {
        let store = self.fs.store();
        // In this order: what is durable grows, and only up to what is visible.
        let visible = store.visible();
        visible > store.durable()
    }

    /// What the kernel gets of an inode.
    ///
    /// # Errors
    /// `EOVERFLOW`.
    pub(crate) fn attributes(&self, (at, inode): &Found) -> Result<FileAttr, Errno> {
        Ok(attributes(inode, at.number()?, self.fs.piece_size()))
    }

    /// Reads the tree that a place is in.
    ///
    /// # Errors
    /// `EISDIR` of what is in no tree; `ESTALE` in a transaction that has ended, and of an inode that is not there any more; those of
    /// `work`.
    pub(crate) fn read<T>(
        &self,
        number: INodeNo,
        work: impl FnOnce(&mut AnyTree<'_>, u64) -> Result<T, Error>,
    ) -> Result<T, Errno> {
        match Place::of(number) {
            Place::Now(inode) => {
                let mut tree = self.fs.snapshot().map_err(code_of)?;
                work(&mut tree.any(), inode).map_err(|error| self.code_of(error, &[inode]))
            }
            Place::Past(slot, inode) => {
                let mut tree = self.past.tree(&self.fs, slot).map_err(code_of)?;
                work(&mut tree.any(), inode).map_err(code_of)
            }
            Place::View(view, inode) => {
                self.views.with(view, |view| view.read(|tree| work(&mut tree.any(), inode)))
            }
            _ => Err(Errno::EISDIR),
        }
    }

    /// Changes what is there now, or what a transaction has: all the inodes are of that one tree.
    ///
    /// # Errors
    /// `EXDEV`, `EROFS`, `ESTALE`; those of `work`.
    pub(crate) fn write<const N: usize, T>(
        &self,
        numbers: [INodeNo; N],
        work: impl FnOnce(&mut AnyTreeMut<'_, '_>, [u64; N]) -> Result<T, Error>,
    ) -> Result<T, Errno> {
        let (mut inodes, mut tree) = ([0; N], None);
        for (number, inode) in numbers.into_iter().zip(&mut inodes) {
            let of;
            (of, *inode) = match Place::of(number) {
                Place::Now(inode) => (None, inode),
                Place::View(view, inode) => (Some(view), inode),
                _ => return Err(Errno::EROFS),
            };
            if *tree.get_or_insert(of) != of {
                return Err(Errno::EXDEV);
            }
        }
        match tree.flatten() {
            None => {
                let done = self.fs.write(now(), Durability::Buffered, |tree| work(tree, inodes));
                let done = done.map_err(|error| self.code_of(error, &inodes))?;
                self.note_changed(&inodes);
                Ok(done)
            }
            Some(view) => {
                self.views.with(view, |view| view.change(now(), |tree| work(tree, inodes)))
            }
        }
    }

    /// As `write`, of what gives space back: a pool that is full up to what a write that failed has left is full for a
    /// moment only.
    pub(crate) fn remove<const N: usize, T>(
        &self,
        numbers: [INodeNo; N],
        work: impl Fn(&mut AnyTreeMut<'_, '_>, [u64; N]) -> Result<T, Error>,
    ) -> Result<T, Errno> {
        let end = Instant::now() + PATIENCE;
        // A transaction that has found no space has come to its end.
        let is_now = numbers.iter().all(|&number| matches!(Place::of(number), Place::Now(_)));
        loop {
            match self.write(numbers, &work) {
                Err(error)
                    if is_now && error.code() == Errno::ENOSPC.code() && Instant::now() < end =>
                {
                    std::thread::sleep(Duration::from_millis(5));
                }
                done => return done,
            }
        }
    }

    /// That a name is not the control folder's, which can neither be made nor removed.
    ///
    /// # Errors
    /// `EBUSY`.
    pub(crate) fn check_entry(parent: INodeNo, name: &[u8]) -> Result<(), Errno> {
        match Place::of(parent) {
            Place::Now(ROOT) | Place::View(_, ROOT) if name == CONTROL_NAME => Err(Errno::EBUSY),
            _ => Ok(()),
        }
    }

    /// What a directory has under a name, for a user: others do not see its transactions.
    ///
    /// # Errors
    /// Those of a lookup.
    pub(crate) fn find(&self, parent: INodeNo, name: &[u8], user: u32) -> Result<Found, Errno> {
        let at = Place::of(parent);
        let missing = Err(Errno::ENOENT);
        let found = match at {
            Place::Now(ROOT) if name == CONTROL_NAME => Place::Control,
            Place::Control => match CONTROL_ENTRIES.iter().find(|entry| entry.0 == name) {
                Some(&(_, place)) => place,
                None => return missing,
            },
            Place::Snapshots => self.past.named(&self.fs, name).map_err(code_of)?,
            Place::Versions => match number_of(name) {
                Some(version) => self.past.version(&self.fs, version).map_err(code_of)?,
                None => return missing,
            },
            Place::At => match time_of(name) {
                // What will be there then is not known.
                Some(time) if time <= now() => self.past.at(&self.fs, time).map_err(code_of)?,
                _ => return missing,
            },
            Place::Transactions => match number_of(name) {
                Some(number) if self.views.may_enter(number, user) => Place::View(number, ROOT),
                _ => return missing,
            },
            // The kernel asks for these where a program has a file by its number alone: of trees of the past and transactions the
            // numbers say nothing once they have ended.
            Place::Past(..) | Place::View(..) if matches!(name, b"." | b"..") => {
                return Err(Errno::ESTALE);
            }
            _ => {
                let inode = self.read(parent, |tree, number| tree.lookup(number, name))?;
                return Ok((at.beside(inode.number), inode));
            }
        };
        Ok((found, self.inode(found)?))
    }

    /// The inode at a place.
    ///
    /// # Errors
    /// `ENOENT`, `ESTALE`.
    pub(crate) fn inode(&self, at: Place) -> Result<Inode, Errno> {
        match at {
            Place::Now(_) | Place::Past(..) | Place::View(..) => {
                self.read(at.number()?, |tree, number| tree.inode(number))
            }
            _ => self.control(at),
        }
    }

    /// What the kernel knows a folder of `.tembo`, or a file in it, as: it belongs to the owner of the root, but the versions to the
    /// user that has mounted it.
    fn control(&self, at: Place) -> Result<Inode, Errno> {
        let root = self.fs.snapshot().and_then(|mut tree| tree.inode(ROOT));
        let mut inode = root.map_err(code_of)?;
        (inode.size, inode.pieces, inode.attributes) = (0, 0, 0);
        (inode.links, inode.permissions, inode.kind) = match at {
            Place::Control => (6, 0o755, FileKind::Directory),
            Place::Begin => (1, 0o666, FileKind::Regular),
            Place::Version => (1, 0o444, FileKind::Regular),
            // Which transactions and versions there are is not listed.
            Place::Transactions => (2, 0o711, FileKind::Directory),
            // A version that was looked at is held until the unmount, and with it all that was removed since.
            Place::Versions | Place::At => (2, 0o700, FileKind::Directory),
            _ => (2, 0o755, FileKind::Directory),
        };
        if matches!(at, Place::Versions | Place::At) {
            inode.user = self.user;
        }
        Ok(inode)
    }

    /// A part of a listing behind an offset, as a user sees it, each entry with the number and the cookie that the kernel gets, and with the
    /// inode if that is wanted.
    ///
    /// # Errors
    /// Those of the directory.
    pub(crate) fn listed(
        &self,
        directory: INodeNo,
        offset: u64,
        wants_inodes: bool,
        user: u32,
    ) -> Result<Vec<(Entry, Option<Inode>)>, Errno> {
        let at = Place::of(directory);
        let dots = [(&b"."[..], 1), (b"..", 2)];
        let dots = dots.into_iter().filter(|&(_, cookie)| cookie > offset);
        // The kernel takes no attributes of these.
        let itself = if wants_inodes { Some(self.inode(at)?) } else { None };
        let dot = |(name, cookie): (&[u8], u64)| {
            let (name, kind) = (name.to_vec(), FileKind::Directory);
            (Entry { inode: directory.0, kind, cookie, name }, itself.clone())
        };
        let mut listed: Vec<(Entry, Option<Inode>)> = dots.map(dot).collect();
        if at.is_control() {
            for (name, cookie) in self.names(at).into_iter().zip(3..) {
                if cookie > offset {
                    let (found, inode) = self.find(directory, &name, user)?;
                    let entry = Entry { inode: found.number()?.0, kind: inode.kind, cookie, name };
                    listed.push((entry, Some(inode)));
                }
            }
            return Ok(listed);
        }
        let entries = self.read(directory, |tree, number| {
            let (mut entries, mut with_inodes) = (Vec::new(), Vec::new());
            tree.list(number, offset.max(2), &mut |entry| {
                entries.push(entry);
                entries.len() < LISTED
            })?;
            for entry in entries {
                let inode = match wants_inodes.then(|| tree.inode(entry.inode)) {
                    // It is listed, and a program that looks at it learns that it is damaged.
                    None | Some(Err(Error::Damaged { .. } | Error::NoSuchInode { .. })) => None,
                    Some(found) => Some(found?),
                };
                with_inodes.push((entry, inode));
            }
            Ok(with_inodes)
        })?;
        for (mut entry, inode) in entries {
            entry.inode = at.beside(entry.inode).number()?.0;
            listed.push((entry, inode));
        }
        Ok(listed)
    }

    /// The names that a folder of `.tembo` lists.
    fn names(&self, folder: Place) -> Vec<Vec<u8>> {
        match folder {
            Place::Control => CONTROL_ENTRIES.iter().map(|entry| entry.0.to_vec()).collect(),
            Place::Snapshots => Past::names(&self.fs),
            _ => Vec::new(),
        }
    }

    /// Opens an inode; whether it has the mark of those that are written in transactions of their own.
    ///
    /// # Errors
    /// `EROFS` of a snapshot that is to be written; `ESTALE`, `ENOENT`.
    pub(crate) fn open(&self, number: INodeNo, writes: bool) -> Result<bool, Errno> {
        match Place::of(number) {
            Place::Now(inode) => {
                let found = self.fs.open_inode(inode);
                let found = found.map_err(|error| self.code_of(error, &[inode]))?;
                // If it cannot be read, what follows says so.
                Ok(found.attributes > 0 && self.has_mark(inode).unwrap_or(false))
            }
            // A transaction keeps what has lost its names until it ends.
            at @ Place::View(..) => self.inode(at).map(|_| false),
            _ if writes => Err(Errno::EROFS),
            _ => Ok(false),
        }
    }

    fn has_mark(&self, inode: u64) -> Result<bool, Error> {
        match self.fs.snapshot()?.attribute(inode, MARK) {
            Ok(_) => Ok(true),
            Err(Error::NoSuchAttribute { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Closes an inode that was opened.
    ///
    /// # Errors
    /// Those of a removal.
    pub(crate) fn close(&self, number: INodeNo) -> Result<(), Errno> {
        match Place::of(number) {
            Place::Now(inode) => self.fs.close_inode(inode).map_err(code_of),
            _ => Ok(()),
        }
    }

    /// A folder of snapshots is made: that names one.
    ///
    /// # Errors
    /// `EEXIST`, `EINVAL`, `ENAMETOOLONG`; those of the store.
    pub(crate) fn name_snapshot(
        &self,
        folder: INodeNo,
        name: &[u8],
        user: u32,
    ) -> Result<Found, Errno> {
        let text = std::str::from_utf8(name).map_err(|_| Errno::EINVAL)?;
        if is_own_name(text) {
            return Err(Errno::EINVAL);
        }
        if self.fs.store().snapshots().iter().any(|(other, _)| other == text) {
            return Err(Errno::EEXIST);
        }
        let store_error = |error: StoreError| errno(&error.into());
        self.fs.store().save_snapshot(text).map_err(store_error)?;
        self.find(folder, name, user)
    }

    /// Drops a named snapshot.
    ///
    /// # Errors
    /// `ENOENT`; those of the store.
    pub(crate) fn drop_snapshot(&self, name: &[u8]) -> Result<(), Errno> {
        let text = std::str::from_utf8(name).map_err(|_| Errno::ENOENT)?;
        if is_own_name(text) {
            return Err(Errno::ENOENT);
        }
        match self.fs.store().drop_snapshot(text) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Errno::ENOENT),
            Err(error) => Err(errno(&error.into())),
        }
    }

    /// Begins a transaction of a user; returns its number.
    ///
    /// # Errors
    /// `EROFS`; `EMFILE`; those of the store.
    pub(crate) fn begin(&self, user: u32) -> Result<u64, Errno> {
        if self.fs.store().is_read_only() {
            return Err(Errno::EROFS);
        }
        let counted = self.quota.add(user)?;
        self.views.begin(&self.fs, (user, counted))
    }

    /// Ends a transaction, which is committed or dropped then; `None`: it has ended.
    pub(crate) fn end(&self, view: u64) -> Option<FsTransaction> {
        self.views.take(view)
    }

    /// The file that has begun a transaction is closed: its number may be given again.
    pub(crate) fn forget_begun(&self, view: u64) {
        self.views.forget(view);
    }
}
