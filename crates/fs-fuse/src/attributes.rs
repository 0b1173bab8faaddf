//! Requests on what an inode says of itself: attributes, and extended ones.

use fuser::{Errno, FileAttr, FileHandle, INodeNo, Request};
use tembo_fs::{Condition, Set};

use crate::place::Place;
use crate::served::Served;

/// Names that begin so are refused: they would not be enforced.
const ACCESS_LISTS: &[u8] = b"system.posix_acl_";

impl Served {
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
        set: &Set,
    ) -> Result<FileAttr, Errno> {
        let inode = match self.own_of(number, handle, request.pid()) {
            // The kernel gets what others see.
            own @ Some(_) => self
                .change_one(number, own, |tree, number| tree.set(number, set))
                .and_then(|_| self.trees.inode(Place::of(number))),
            None => self.trees.remove([number], |tree, [number]| tree.set(number, set)),
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
        if name.starts_with(ACCESS_LISTS) {
            return Err(Errno::EOPNOTSUPP);
        }
        let condition = match flags {
            0 => Condition::Any,
            1 => Condition::Create,
            2 => Condition::Replace,
            _ => return Err(Errno::EINVAL),
        };
        let own = self.own_of(number, None, request.pid());
        self.change_one(number, own, |tree, number| {
            tree.set_attribute(number, name, value, condition)
        })
    }

    pub(crate) fn extended(&self, number: INodeNo, name: &[u8]) -> Result<Vec<u8>, Errno> {
        if name.starts_with(ACCESS_LISTS) {
            return Err(Errno::EOPNOTSUPP);
        }
        self.trees.read(number, |tree, number| tree.attribute(number, name))
    }

    /// The names of extended attributes, a zero behind each.
    pub(crate) fn list_extended(&self, number: INodeNo) -> Result<Vec<u8>, Errno> {
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
