//! What a file loses when it is changed: the bits that run a program as the owner or the group of its file, and capabilities.
//!
//! The kernel leaves that to the process that serves it (`FUSE_HANDLE_KILLPRIV_V2`), and need not ask before each write what there is to
//! lose. A change and the loss are one commit.

use fuser::Request;
use tembo_fs::{AnyTreeMut, Error, FileKind, Inode, Set};

use crate::caller::{is_in_group, may_keep_ids};

/// The permission bits that run a program as the owner, and as the group, of its file.
const SET_USER: u16 = 0o4000;
const SET_GROUP: u16 = 0o2000;

/// The group may execute it. Without this, the bit of the group has meant a mandatory lock.
const GROUP_EXECUTES: u16 = 0o010;

/// The attribute that gives rights to a program that is run from its file.
const CAPABILITY: &[u8] = b"security.capability";

/// How a file was changed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Changed {
    /// Bytes were written, by a program of which the kernel says whether they cost the file its bits.
    Written { takes_bits: bool },
    /// Its bytes were changed otherwise: that costs it its bits unless the program may set those of any file.
    Cut,
    /// It has another owner or group.
    Given,
}

/// Takes from a file that was just changed what it loses by that. Whether its permissions are others now.
///
/// # Errors
/// Those of the store.
pub(crate) fn take_privileges(
    tree: &mut AnyTreeMut<'_, '_>,
    inode: Inode,
    changed: Changed,
    request: &Request,
) -> Result<bool, Error> {
    let number = inode.number;
    if inode.kind == FileKind::Directory {
        return Ok(false);
    }
    let mut inode = inode;
    if inode.attributes > 0 {
        match tree.remove_attribute(number, CAPABILITY) {
            Ok(()) => inode = tree.tree().inode(number)?,
            Err(Error::NoSuchAttribute { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let kept = kept(inode.permissions, || is_in_group(request, inode.group));
    let takes_bits = kept != inode.permissions
        && match changed {
            Changed::Written { takes_bits } => takes_bits,
            Changed::Cut => !may_keep_ids(request),
            Changed::Given => true,
        };
    if takes_bits {
        tree.set(number, &Set { permissions: Some(kept), ..Set::default() })?;
    }
    Ok(takes_bits)
}

/// Permissions without the bits that a change takes.
fn kept(permissions: u16, is_member: impl FnOnce() -> bool) -> u16 {
    let loses_group =
        permissions & SET_GROUP != 0 && (permissions & GROUP_EXECUTES != 0 || !is_member());
    let lost = SET_USER | if loses_group { SET_GROUP } else { 0 };
    permissions & !lost
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bit_of_the_group_stays_where_the_group_may_not_execute() {
        assert_eq!(kept(0o6755, || true), 0o755);
        assert_eq!(kept(0o6745, || true), 0o2745);
        assert_eq!(kept(0o6745, || false), 0o745);
        assert_eq!(kept(0o1777, || false), 0o1777);
    }
}
