//! Requests on what an inode says of itself: attributes, and extended ones.

use fuser::{Errno, FileAttr, FileHandle, INodeNo, Request};
use tembo_fs::{ACCESS_LIST, AnyTreeMut, Condition, DEFAULT_LIST, Error, Inode, Set};

use crate::caller::is_in_group;
use crate::place::Place;
use crate::privileges::{Changed, take_privileges};
use crate::served::Served;

/// The permission bit that runs a program as the group of its file.
const SET_GROUP: u16 = 0o2000;

fn is_list(name: &[u8]) -> bool {
    matches!(name, ACCESS_LIST | DEFAULT_LIST)
}

/// Takes the set-group bit of an inode, as the permissions of a group class that is not the program's are changed.
fn take_set_group(
    tree: &mut AnyTreeMut<'_, '_>,
    number: u64,
    is_member: impl FnOnce(u32) -> bool,
) -> Result<(), Error> {
    let inode = tree.tree().inode(number)?;
    if inode.permissions & SET_GROUP != 0 && !is_member(inode.group) {
        let permissions = Some(inode.permissions & !SET_GROUP);
        tree.set(number, &Set { permissions, ..Set::default() })?;
    }
    Ok(())
}

/// Changes what an inode says of itself; a file loses what that costs it.
pub(crate) fn set(
    tree: &mut AnyTreeMut<'_, '_>,
    number: u64,
    set: &Set,
    request: &Request,
) -> Result<Inode, Error> {
    let inode = tree.set(number, set)?;
    let changed = match set {
        Set { user: Some(_), .. } | Set { group: Some(_), .. } => Changed::Given,
        Set { size: Some(_), .. } => Changed::Cut,
        _ => return Ok(inode),
    };
    take_privileges(tree, inode, changed, request)?;
    tree.tree().inode(number)
}

impl Served {
    /// That a list which is set would be enforced.
    fn check_list(&self, name: &[u8]) -> Result<(), Errno> {
        if is_list(name) && !self.has_lists { Err(Errno::EOPNOTSUPP) } else { Ok(()) }
    }

    pub(crate) fn attributes(&self, number: INodeNo) -> Result<FileAttr, Errno> {
        let at = Place::of(number);
        let inode = self.trees.inode(at)?;
        self.trees.attributes(&(at, inode))
    }

    pub(crate) fn set(
        &self,
        request: &Request,
        number: INodeNo,
        handle: Option<FileHandle>,
        changes: &Set,
    ) -> Result<FileAttr, Errno> {
        let own = self.own_of(number, handle, request.pid());
        if handle.is_some() {
            self.note_process(own, request);
        }
        let inode = match own {
            // The kernel gets what others see.
            own @ Some(_) => self
                .change_one(number, own, |tree, number| set(tree, number, changes, request))
                .and_then(|_| self.trees.inode(Place::of(number))),
            None => {
                self.trees.remove([number], |tree, [number]| set(tree, number, changes, request))
            }
        };
        self.trees.attributes(&(Place::of(number), inode?))
    }

    pub(crate) fn set_extended(
        &self,
        request: &Request,
        number: INodeNo,
        (name, value): (&[u8], &[u8]),
        flags: i32,
    ) -> Result<(), Errno> {
        self.check_list(name)?;
        let condition = match flags {
            0 => Condition::Any,
            1 => Condition::Create,
            2 => Condition::Replace,
            _ => return Err(Errno::EINVAL),
        };
        let own = self.own_of(number, None, request.pid());
        self.change_one(number, own, |tree, number| {
            tree.set_attribute(number, name, value, condition)?;
            match name {
                ACCESS_LIST => take_set_group(tree, number, |group| is_in_group(request, group)),
                _ => Ok(()),
            }
        })
    }

    pub(crate) fn extended(&self, number: INodeNo, name: &[u8]) -> Result<Vec<u8>, Errno> {
        self.check_list(name)?;
        if Place::of(number).is_control() {
            return Err(Errno::ENODATA);
        }
        self.trees.read(number, |tree, number| tree.attribute(number, name))
    }

    /// The names of extended attributes, a zero behind each.
    pub(crate) fn list_extended(&self, number: INodeNo) -> Result<Vec<u8>, Errno> {
        if Place::of(number).is_control() {
            return Ok(Vec::new());
        }
        let names = self.trees.read(number, |tree, number| tree.attributes(number))?;
        Ok(names.iter().flat_map(|name| [&name[..], b"\0"].concat()).collect())
    }

    pub(crate) fn remove_extended(
        &self,
        request: &Request,
        number: INodeNo,
        name: &[u8],
    ) -> Result<(), Errno> {
        match self.own_of(number, None, request.pid()) {
            own @ Some(_) => {
                self.change_one(number, own, |tree, number| tree.remove_attribute(number, name))
            }
            None => {
                self.trees.remove([number], |tree, [number]| tree.remove_attribute(number, name))
            }
        }
    }
}
