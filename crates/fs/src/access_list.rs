//! POSIX access control lists (`1003.1e draft 17`): two attributes of an inode, which are kept in step with its permissions.
//!
//! ```text
//!  permissions   owner     group class            others
//!  access list   owner     the mask, else the     others       named users and groups get what the mask leaves them
//!                          owning group
//!  default list  of a directory: what is made in it gets it as its access list, and a directory also as its default list
//! ```
//!
//! A list that says no more than permissions do is not kept. Whether a list lets a user in, the caller checks, as permissions.

use zerocopy::{FromBytes, IntoBytes};

use crate::Error;
use crate::access::{Reads, Writes};
use crate::format::{ACCESS_LIST_VERSION, AccessListEntry, AccessListHead};
use crate::inode::{FileKind, Inode};
use crate::records::Records;

/// The attribute that is an access list.
pub const ACCESS_LIST: &[u8] = b"system.posix_acl_access";

/// The attribute of a directory that is the list of what is made in it.
pub const DEFAULT_LIST: &[u8] = b"system.posix_acl_default";

/// Longest access list, in bytes: what the kernel takes of one.
const LIST_SIZE_MAX: usize = 4096;

/// What an entry is about, by its tag.
const OWNER: u16 = 0x01;
const USER: u16 = 0x02;
const OWNING_GROUP: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHERS: u16 = 0x20;

/// The number of entries that have none.
const NO_ID: u32 = u32::MAX;

/// Read, write, execute.
const ALL: u16 = 0o7;

/// The permissions that a list says too.
const CLASSES: u16 = 0o777;

/// The two lists that an inode may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListKind {
    Access,
    Default,
}

impl ListKind {
    /// That of an attribute; `None`: it is no list.
    pub(crate) fn of(name: &[u8]) -> Option<ListKind> {
        match name {
            ACCESS_LIST => Some(ListKind::Access),
            DEFAULT_LIST => Some(ListKind::Default),
            _ => None,
        }
    }
}

/// What the owner, named users, groups and all others may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AccessList {
    owner: u16,
    users: Vec<(u32, u16)>,
    owning_group: u16,
    groups: Vec<(u32, u16)>,
    mask: Option<u16>,
    others: u16,
}

/// Takes the entries of a tag with a number: each number once.
fn take_named(entries: &mut &[AccessListEntry], tag: u16) -> Option<Vec<(u32, u16)>> {
    let mut named: Vec<(u32, u16)> = Vec::new();
    while let Some((entry, rest)) = entries.split_first().filter(|(entry, _)| entry.tag == tag) {
        let id = entry.id.get();
        if id == NO_ID || named.iter().any(|&(other, _)| other == id) {
            return None;
        }
        named.push((id, entry.permissions.get()));
        *entries = rest;
    }
    Some(named)
}

/// Takes the entry of a tag, if it is the next one.
fn take_one(entries: &mut &[AccessListEntry], tag: u16) -> Option<u16> {
    let (entry, rest) = entries.split_first().filter(|(entry, _)| entry.tag == tag)?;
    *entries = rest;
    Some(entry.permissions.get())
}

impl AccessList {
    /// What an attribute says; `None`: it is no list.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Option<AccessList> {
        let (head, entries) = AccessListHead::ref_from_prefix(bytes).ok()?;
        let mut entries = <[AccessListEntry]>::ref_from_bytes(entries).ok()?;
        let is_sound = |entry: &AccessListEntry| entry.permissions.get() <= ALL;
        if head.version.get() != ACCESS_LIST_VERSION || !entries.iter().all(is_sound) {
            return None;
        }
        let owner = take_one(&mut entries, OWNER)?;
        let users = take_named(&mut entries, USER)?;
        let owning_group = take_one(&mut entries, OWNING_GROUP)?;
        let groups = take_named(&mut entries, GROUP)?;
        let mask = take_one(&mut entries, MASK);
        let others = take_one(&mut entries, OTHERS)?;
        let is_whole = entries.is_empty();
        let is_bounded = mask.is_some() || users.is_empty() && groups.is_empty();
        let list = AccessList { owner, users, owning_group, groups, mask, others };
        (is_whole && is_bounded).then_some(list)
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let entry = |tag: u16, id: u32, permissions: u16| AccessListEntry {
            tag: tag.into(),
            permissions: permissions.into(),
            id: id.into(),
        };
        let mut entries = vec![entry(OWNER, NO_ID, self.owner)];
        entries.extend(self.users.iter().map(|&(id, bits)| entry(USER, id, bits)));
        entries.push(entry(OWNING_GROUP, NO_ID, self.owning_group));
        entries.extend(self.groups.iter().map(|&(id, bits)| entry(GROUP, id, bits)));
        entries.extend(self.mask.map(|bits| entry(MASK, NO_ID, bits)));
        entries.push(entry(OTHERS, NO_ID, self.others));
        let head = AccessListHead { version: ACCESS_LIST_VERSION.into() };
        [head.as_bytes(), entries.as_bytes()].concat()
    }

    /// Whether permissions say the same.
    pub(crate) fn is_minimal(&self) -> bool {
        self.mask.is_none()
    }

    /// The permissions of owner, group class and others.
    pub(crate) fn classes(&self) -> u16 {
        self.owner << 6 | self.mask.unwrap_or(self.owning_group) << 3 | self.others
    }

    /// The three entries that are the permissions become what these say.
    fn set_classes(&mut self, permissions: u16) {
        self.owner = permissions >> 6 & ALL;
        *self.mask.as_mut().unwrap_or(&mut self.owning_group) = permissions >> 3 & ALL;
        self.others = permissions & ALL;
    }

    /// The permissions of an inode that gets the list.
    fn permissions(&self, inode: &Inode) -> u16 {
        inode.permissions & !CLASSES | self.classes()
    }
}

/// A list of an inode; an inode without attributes has none.
fn list<A: Reads>(
    records: &mut Records<A>,
    inode: &Inode,
    name: &[u8],
) -> Result<Option<AccessList>, Error> {
    let found = if inode.attributes > 0 { records.attribute(inode.number, name)? } else { None };
    let Some(bytes) = found else { return Ok(None) };
    let damaged = Error::Damaged { inode: inode.number, what: "one of its access lists" };
    AccessList::of_bytes(&bytes).ok_or(damaged).map(Some)
}

/// Sets the permissions of an inode to what a list says that it is to get; what the attribute has to be then. `None`: it is not kept.
///
/// # Errors
/// [`Error::Invalid`], [`Error::AttributeTooLong`]: nothing has changed.
pub(crate) fn apply(
    inode: &mut Inode,
    kind: ListKind,
    bytes: &[u8],
) -> Result<Option<Vec<u8>>, Error> {
    let invalid = |what| Error::Invalid { inode: inode.number, what };
    if bytes.len() > LIST_SIZE_MAX {
        return Err(Error::AttributeTooLong { size: bytes.len(), max: LIST_SIZE_MAX });
    }
    let list = AccessList::of_bytes(bytes).ok_or_else(|| invalid("no access list"))?;
    match (kind, inode.kind) {
        (_, FileKind::Symlink) => Err(invalid("a symbolic link has no access list")),
        (ListKind::Default, FileKind::Directory) => Ok(Some(list.to_bytes())),
        (ListKind::Default, _) => Err(invalid("only a directory has a default access list")),
        (ListKind::Access, _) => {
            inode.permissions = list.permissions(inode);
            Ok((!list.is_minimal()).then(|| list.to_bytes()))
        }
    }
}

/// The permissions of an inode have changed: so does its access list. What it is then, if there is one.
pub(crate) fn follow<A: Writes>(records: &mut Records<A>, inode: &Inode) -> Result<(), Error> {
    if let Some(mut list) = list(records, inode, ACCESS_LIST)? {
        list.set_classes(inode.permissions);
        records.put_attribute(inode.number, ACCESS_LIST, &list.to_bytes())?;
    }
    Ok(())
}

/// The name of a list, and the list.
pub(crate) type Inherited = (&'static [u8], Vec<u8>);

/// What an inode inherits that is made in a directory: its permissions lose what the directory's default list does not give, or
/// without one what `umask` takes; its lists are returned, and counted. `None` of a mask: it inherits nothing.
pub(crate) fn inherit<A: Reads>(
    records: &mut Records<A>,
    directory: &Inode,
    umask: Option<u16>,
    inode: &mut Inode,
) -> Result<Vec<Inherited>, Error> {
    let (Some(umask), true) = (umask, inode.kind != FileKind::Symlink) else {
        return Ok(Vec::new());
    };
    let Some(default) = list(records, directory, DEFAULT_LIST)? else {
        inode.permissions &= !(umask & CLASSES);
        return Ok(Vec::new());
    };
    let mut access = default.clone();
    access.set_classes(default.classes() & inode.permissions);
    inode.permissions = access.permissions(inode);
    let mut lists = Vec::new();
    if !access.is_minimal() {
        lists.push((ACCESS_LIST, access.to_bytes()));
    }
    if inode.is_directory() {
        lists.push((DEFAULT_LIST, default.to_bytes()));
    }
    inode.attributes += lists.len() as u32;
    Ok(lists)
}

/// Whether an attribute that is a list fits to its inode.
pub(crate) fn fits(inode: &Inode, name: &[u8], bytes: &[u8]) -> bool {
    let Some(kind) = ListKind::of(name) else { return true };
    let mut same = inode.clone();
    let kept = apply(&mut same, kind, bytes);
    kept.is_ok_and(|kept| kept.as_deref() == Some(bytes)) && same == *inode
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let mut bytes = 2_u32.to_le_bytes().to_vec();
        for (tag, permissions, id) in entries {
            bytes.extend(tag.to_le_bytes());
            bytes.extend(permissions.to_le_bytes());
            bytes.extend(id.to_le_bytes());
        }
        bytes
    }

    const NONE: u32 = NO_ID;

    #[test]
    fn a_list_that_was_read_is_written_as_it_was() {
        let minimal = bytes(&[(OWNER, 6, NONE), (OWNING_GROUP, 4, NONE), (OTHERS, 0, NONE)]);
        let list = AccessList::of_bytes(&minimal).unwrap();
        assert!(list.is_minimal() && list.classes() == 0o640 && list.to_bytes() == minimal);
        let named = bytes(&[
            (OWNER, 7, NONE),
            (USER, 6, 9),
            (USER, 1, 3),
            (OWNING_GROUP, 5, NONE),
            (GROUP, 4, 3),
            (MASK, 6, NONE),
            (OTHERS, 1, NONE),
        ]);
        let list = AccessList::of_bytes(&named).unwrap();
        assert!(!list.is_minimal() && list.classes() == 0o761 && list.to_bytes() == named);
    }

    #[test]
    fn what_is_no_list_is_refused() {
        let (owner, group, others) = ((OWNER, 7, NONE), (OWNING_GROUP, 5, NONE), (OTHERS, 1, NONE));
        let (user, mask) = ((USER, 6, 9), (MASK, 7, NONE));
        let bad = [
            bytes(&[]),
            bytes(&[owner, group]),
            bytes(&[group, owner, others]),
            bytes(&[owner, owner, group, others]),
            bytes(&[owner, user, group, others]),
            bytes(&[owner, user, user, group, mask, others]),
            bytes(&[owner, (USER, 6, NONE), group, mask, others]),
            bytes(&[owner, group, user, mask, others]),
            bytes(&[owner, group, mask, mask, others]),
            bytes(&[owner, group, mask, others, others]),
            bytes(&[(OWNER, 8, NONE), group, others]),
            bytes(&[owner, group, (0x40, 1, NONE)]),
            bytes(&[owner, group, others])[1..].to_vec(),
            [bytes(&[owner, group, others]), vec![0]].concat(),
            [&[3][..], &bytes(&[owner, group, others])[1..]].concat(),
        ];
        for (number, bytes) in bad.iter().enumerate() {
            assert_eq!(AccessList::of_bytes(bytes), None, "{number}");
        }
        assert!(AccessList::of_bytes(&bytes(&[owner, user, group, mask, others])).is_some());
    }
}
