//! Directories: entries that are made, moved and removed, and what becomes of what they name.

use crate::Error;
use crate::access::{Reads, Writes};
use crate::access_list::{Inherited, inherit};
use crate::bounds::{LINKS_MAX, NAME_LEN_MAX, ROOT, is_name};
use crate::inode::{FileKind, Inode};
use crate::records::{Changing, Named, Records};
use crate::share::remove_bytes;

/// The permission bit that a directory hands on its group by.
const SET_GROUP: u16 = 0o2000;

/// What a new inode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct New {
    /// What it is to be.
    pub kind: FileKind,
    /// The lower twelve bits of `st_mode`.
    pub permissions: u16,
    /// Number of the owner.
    pub user: u32,
    /// Number of the owner's group; a directory with the set-group bit gives its own instead.
    pub group: u32,
    /// Of a device: which. Else 0.
    pub device: u64,
    /// Permissions that are taken away where the directory has no default access list to inherit; but of a symbolic link none.
    /// `None`: the permissions are as they are given, and no list is inherited.
    pub umask: Option<u16>,
}

/// What a rename does where the new name is taken, or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rename {
    /// What had the name loses it.
    #[default]
    Replace,
    /// That is an error.
    NoReplace,
    /// The two change names: both have to be there.
    Exchange,
}

/// # Errors
/// [`Error::InvalidName`], [`Error::NameTooLong`].
pub(crate) fn check_name(name: &[u8]) -> Result<(), Error> {
    if name.len() > NAME_LEN_MAX {
        return Err(Error::NameTooLong { len: name.len(), max: NAME_LEN_MAX });
    }
    if !is_name(name) {
        return Err(Error::InvalidName { name: name.to_vec() });
    }
    Ok(())
}

/// A directory that entries can be made in.
fn directory<A: Reads>(records: &mut Records<A>, number: u64) -> Result<Inode, Error> {
    let directory = records.inode(number)?.directory()?;
    if directory.links == 0 { Err(Error::NoSuchInode { inode: number }) } else { Ok(directory) }
}

/// What a name stands for.
///
/// # Errors
/// [`Error::NoSuchName`].
pub(crate) fn named<A: Reads>(
    records: &mut Records<A>,
    directory: u64,
    name: &[u8],
) -> Result<Named, Error> {
    let missing = || Error::NoSuchName { directory, name: name.to_vec() };
    records.named(directory, name)?.ok_or_else(missing)
}

fn is_free<A: Reads>(records: &mut Records<A>, directory: u64, name: &[u8]) -> Result<(), Error> {
    match records.named(directory, name)? {
        None => Ok(()),
        Some(_) => Err(Error::NameExists { directory, name: name.to_vec() }),
    }
}

/// Makes an inode without a name, which is not put.
pub(crate) fn new_inode(changing: &Changing<'_>, parent: Option<&Inode>, new: &New) -> Inode {
    let of_group = parent.filter(|parent| parent.permissions & SET_GROUP != 0);
    let (is_directory, now) = (new.kind == FileKind::Directory, changing.now);
    let handed_on = if is_directory && of_group.is_some() { SET_GROUP } else { 0 };
    let number = changing.draw_number();
    Inode {
        number,
        kind: new.kind,
        permissions: new.permissions & 0o7777 | handed_on,
        user: new.user,
        group: of_group.map_or(new.group, |parent| parent.group),
        links: if is_directory { 2 } else { 1 },
        size: 0,
        pieces: 0,
        parent: if is_directory { parent.map_or(0, |parent| parent.number) } else { 0 },
        device: if new.kind.is_device() { new.device } else { 0 },
        generation: changing.generation,
        accessed: now,
        modified: now,
        changed: now,
        born: now,
        attributes: 0,
        edits: 0,
        next_cookie: if is_directory { FIRST_COOKIE } else { 0 },
        layer: number,
        below: None,
    }
}

/// Lower ones are those of `.` and `..`.
const FIRST_COOKIE: u64 = 3;

/// Makes an inode under a name; `fill` puts what it holds.
pub(crate) fn create<A: Writes>(
    records: &mut Records<A>,
    changing: &mut Changing<'_>,
    (parent, name): (u64, &[u8]),
    new: &New,
    fill: impl FnOnce(&mut Records<A>, &mut Inode) -> Result<(), Error>,
) -> Result<Inode, Error> {
    check_name(name)?;
    let directory = directory(records, parent)?;
    is_free(records, parent, name)?;
    if new.kind == FileKind::Directory && directory.links >= LINKS_MAX {
        return Err(Error::TooManyLinks { inode: parent });
    }
    let mut inode = new_inode(changing, Some(&directory), new);
    let lists = inherit(records, &directory, new.umask, &mut inode)?;
    changing.is_broken = true;
    put_lists(records, &inode, &lists)?;
    fill(records, &mut inode)?;
    records.put_inode(&inode)?;
    add_entry(records, changing, directory, name, &inode)?;
    changing.is_broken = false;
    Ok(inode)
}

/// Makes an inode that has no name.
pub(crate) fn create_unnamed<A: Writes>(
    records: &mut Records<A>,
    changing: &mut Changing<'_>,
    parent: u64,
    new: &New,
) -> Result<Inode, Error> {
    let directory = records.inode(parent)?.directory()?;
    if new.kind == FileKind::Directory {
        return Err(Error::Invalid { inode: parent, what: "a directory has a name" });
    }
    let mut inode = new_inode(changing, Some(&directory), new);
    let lists = inherit(records, &directory, new.umask, &mut inode)?;
    changing.is_broken = true;
    inode.links = 0;
    put_lists(records, &inode, &lists)?;
    records.put_orphan(inode.number)?;
    records.put_inode(&inode)?;
    changing.is_broken = false;
    Ok(inode)
}

/// Puts attributes that an inode has inherited.
fn put_lists<A: Writes>(
    records: &mut Records<A>,
    inode: &Inode,
    lists: &[Inherited],
) -> Result<(), Error> {
    lists.iter().try_for_each(|(name, list)| records.put_attribute(inode.number, name, list))
}

/// Puts an entry behind the others.
fn add_entry<A: Writes>(
    records: &mut Records<A>,
    changing: &Changing<'_>,
    mut directory: Inode,
    name: &[u8],
    child: &Inode,
) -> Result<(), Error> {
    let cookie = enters(&mut directory, child.kind);
    (directory.modified, directory.changed) = (changing.now, changing.now);
    let named = Named { inode: child.number, kind: child.kind, cookie };
    records.put_entry(directory.number, name, named)?;
    records.put_inode(&directory)
}

/// A directory gets an entry, of which it counts all; the cookie of that.
fn enters(directory: &mut Inode, kind: FileKind) -> u64 {
    let cookie = directory.next_cookie;
    directory.next_cookie += 1;
    directory.size += 1;
    directory.links += u32::from(kind == FileKind::Directory);
    cookie
}

/// A directory loses an entry, of which it counts all.
fn leaves(directory: &mut Inode, kind: FileKind) -> Result<(), Error> {
    let damaged =
        Error::Damaged { inode: directory.number, what: "it has more entries than it says" };
    let Some(size) = directory.size.checked_sub(1) else { return Err(damaged) };
    directory.size = size;
    directory.links = directory.links.saturating_sub(u32::from(kind == FileKind::Directory));
    Ok(())
}

fn remove_entry<A: Writes>(
    records: &mut Records<A>,
    changing: &Changing<'_>,
    mut directory: Inode,
    name: &[u8],
    named: Named,
) -> Result<(), Error> {
    leaves(&mut directory, named.kind)?;
    (directory.modified, directory.changed) = (changing.now, changing.now);
    // First: the handle looks for a key that it removes before anything is changed.
    records.put_inode(&directory)?;
    records.remove_name(directory.number, name)?;
    records.remove_cookie(directory.number, named.cookie)
}

/// An inode has lost a name. With the last one it goes, or becomes an orphan.
fn lose_name<A: Writes>(
    records: &mut Records<A>,
    changing: &mut Changing<'_>,
    mut inode: Inode,
) -> Result<(), Error> {
    inode.links = if inode.is_directory() { 0 } else { inode.links.saturating_sub(1) };
    inode.changed = changing.now;
    if inode.links > 0 {
        return records.put_inode(&inode);
    }
    if !changing.unlinking.keeps(inode.number) {
        return remove(records, inode);
    }
    changing.orphans.insert(inode.number);
    records.put_orphan(inode.number)?;
    records.put_inode(&inode)
}

/// Removes an inode with all that it has.
pub(crate) fn remove<A: Writes>(records: &mut Records<A>, mut inode: Inode) -> Result<(), Error> {
    if !inode.is_directory() {
        remove_bytes(records, &mut inode)?;
    }
    if inode.attributes > 0 {
        for name in records.attributes(inode.number)? {
            records.remove_attribute(inode.number, &name)?;
        }
    }
    records.remove_inode(inode.number)
}

pub(crate) fn link<A: Writes>(
    records: &mut Records<A>,
    changing: &mut Changing<'_>,
    number: u64,
    (parent, name): (u64, &[u8]),
) -> Result<Inode, Error> {
    check_name(name)?;
    let mut inode = records.inode(number)?;
    let directory = directory(records, parent)?;
    if inode.is_directory() {
        return Err(Error::NotPermitted { inode: number, what: "a directory has one name" });
    }
    if inode.links >= LINKS_MAX {
        return Err(Error::TooManyLinks { inode: number });
    }
    is_free(records, parent, name)?;
    changing.is_broken = true;
    if inode.links == 0 {
        changing.orphans.remove(&number);
        records.remove_orphan(number)?;
    }
    inode.links += 1;
    inode.changed = changing.now;
    records.put_inode(&inode)?;
    add_entry(records, changing, directory, name, &inode)?;
    changing.is_broken = false;
    Ok(inode)
}

/// Removes a name of a file, or with `wants_directory` an empty directory.
pub(crate) fn unlink<A: Writes>(
    records: &mut Records<A>,
    changing: &mut Changing<'_>,
    (parent, name): (u64, &[u8]),
    wants_directory: bool,
) -> Result<(), Error> {
    check_name(name)?;
    let directory = records.inode(parent)?.directory()?;
    let named = named(records, parent, name)?;
    let inode = records.inode(named.inode)?;
    match (inode.is_directory(), wants_directory) {
        (true, false) => return Err(Error::IsADirectory { inode: inode.number }),
        (false, true) => return Err(Error::NotADirectory { inode: inode.number }),
        _ => {}
    }
    if inode.is_directory() && inode.size > 0 {
        return Err(Error::NotEmpty { inode: inode.number });
    }
    changing.is_broken = true;
    remove_entry(records, changing, directory, name, named)?;
    lose_name(records, changing, inode)?;
    changing.is_broken = false;
    Ok(())
}

/// That a directory is not moved below itself. What lies above its new place is put again, so that of two transactions
/// that move directories below each other one fails.
fn above<A: Reads>(
    records: &mut Records<A>,
    moved: &Inode,
    parent: u64,
) -> Result<Vec<u64>, Error> {
    let (mut above, mut at) = (Vec::new(), parent);
    if !moved.is_directory() {
        return Ok(above);
    }
    loop {
        if at == moved.number {
            return Err(Error::Invalid { inode: moved.number, what: "it cannot lie below itself" });
        }
        above.push(at);
        if at == ROOT {
            return Ok(above);
        }
        if above.len() > DEPTH_MAX {
            return Err(Error::Damaged { inode: at, what: "it lies too deep" });
        }
        at = records.inode(at)?.parent;
    }
}

/// No directory lies deeper.
const DEPTH_MAX: usize = 1 << 20;

pub(crate) fn rename<A: Writes>(
    records: &mut Records<A>,
    changing: &mut Changing<'_>,
    from: (u64, &[u8]),
    to: (u64, &[u8]),
    how: Rename,
) -> Result<(), Error> {
    check_name(from.1)?;
    check_name(to.1)?;
    let is_within = from.0 == to.0;
    let (left, entered) = if is_within {
        (directory(records, to.0)?, None)
    } else {
        (records.inode(from.0)?.directory()?, Some(directory(records, to.0)?))
    };
    let source = named(records, from.0, from.1)?;
    let target = records.named(to.0, to.1)?;
    let moved = records.inode(source.inode)?;
    match (how, target) {
        (Rename::NoReplace, Some(_)) => {
            Err(Error::NameExists { directory: to.0, name: to.1.to_vec() })
        }
        (Rename::Exchange, None) => Err(Error::NoSuchName { directory: to.0, name: to.1.to_vec() }),
        // Two names of one file stay.
        (_, Some(target)) if target.inode == source.inode => Ok(()),
        (Rename::Exchange, Some(target)) => {
            exchange(records, changing, (from, source, moved), (to, target))
        }
        (_, target) => {
            let renaming = Renaming { from, source, to, target, moved };
            replace(records, changing, renaming, (left, entered))
        }
    }
}

type Place<'n> = (u64, &'n [u8]);

/// A name that becomes another one, and what had that.
struct Renaming<'n> {
    from: Place<'n>,
    source: Named,
    to: Place<'n>,
    target: Option<Named>,
    moved: Inode,
}

/// Moves an entry out of a directory, into another one if there is that.
fn replace<A: Writes>(
    records: &mut Records<A>,
    changing: &mut Changing<'_>,
    renaming: Renaming<'_>,
    (mut left, mut entered): (Inode, Option<Inode>),
) -> Result<(), Error> {
    let Renaming { from, source, to, target, mut moved } = renaming;
    let above = if entered.is_none() { Vec::new() } else { above(records, &moved, to.0)? };
    let replaced = target.map(|target| records.inode(target.inode)).transpose()?;
    match &replaced {
        Some(other) if other.is_directory() && !moved.is_directory() => {
            return Err(Error::IsADirectory { inode: other.number });
        }
        Some(other) if !other.is_directory() && moved.is_directory() => {
            return Err(Error::NotADirectory { inode: other.number });
        }
        Some(other) if other.is_directory() && other.size > 0 => {
            return Err(Error::NotEmpty { inode: other.number });
        }
        _ => {}
    }
    if let Some(target) = target {
        leaves(entered.as_mut().unwrap_or(&mut left), target.kind)?;
    }
    // A listing that goes on meanwhile shows a name that is there before and after once: so a name that is replaced keeps its
    // cookie, and else the entry does within its directory.
    let kept = target.map(|target| target.cookie);
    let cookie = match &mut entered {
        Some(entered) => {
            leaves(&mut left, source.kind)?;
            let next = enters(entered, source.kind);
            kept.unwrap_or(next)
        }
        None => kept.unwrap_or(source.cookie),
    };
    changing.is_broken = true;
    touch(records, &above)?;
    // Before the removals, as in `remove_entry`.
    records.put_entry(to.0, to.1, Named { cookie, ..source })?;
    if let Some(replaced) = replaced {
        lose_name(records, changing, replaced)?;
    }
    records.remove_name(from.0, from.1)?;
    if entered.is_some() || kept.is_some() {
        records.remove_cookie(from.0, source.cookie)?;
    }
    for directory in [Some(left), entered].iter_mut().flatten() {
        (directory.modified, directory.changed) = (changing.now, changing.now);
        records.put_inode(directory)?;
    }
    if moved.is_directory() {
        moved.parent = to.0;
    }
    moved.changed = changing.now;
    records.put_inode(&moved)?;
    changing.is_broken = false;
    Ok(())
}

/// Puts directories again as they are: another transaction that changes them conflicts.
fn touch<A: Writes>(records: &mut Records<A>, directories: &[u64]) -> Result<(), Error> {
    for &number in directories {
        let inode = records.inode(number)?;
        records.put_inode(&inode)?;
    }
    Ok(())
}

fn exchange<A: Writes>(
    records: &mut Records<A>,
    changing: &mut Changing<'_>,
    (from, source, mut moved): (Place<'_>, Named, Inode),
    (to, target): (Place<'_>, Named),
) -> Result<(), Error> {
    let mut other = records.inode(target.inode)?;
    let mut touched = Vec::new();
    if from.0 != to.0 {
        touched = above(records, &moved, to.0)?;
        touched.extend(above(records, &other, from.0)?);
    }
    changing.is_broken = true;
    touch(records, &touched)?;
    let (first, second) = (source.cookie, target.cookie);
    records.put_entry(from.0, from.1, Named { cookie: first, ..target })?;
    records.put_entry(to.0, to.1, Named { cookie: second, ..source })?;
    for (place, comes, goes) in [(from.0, &other, &moved), (to.0, &moved, &other)] {
        let mut directory = records.inode(place)?;
        directory.links += u32::from(comes.is_directory());
        directory.links = directory.links.saturating_sub(u32::from(goes.is_directory()));
        (directory.modified, directory.changed) = (changing.now, changing.now);
        records.put_inode(&directory)?;
    }
    // Each of them may be the directory of the other, and has changed above.
    for (inode, parent) in [(&mut moved, to.0), (&mut other, from.0)] {
        *inode = records.inode(inode.number)?;
        if inode.is_directory() {
            inode.parent = parent;
        }
        inode.changed = changing.now;
        records.put_inode(inode)?;
    }
    changing.is_broken = false;
    Ok(())
}
