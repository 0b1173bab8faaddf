//! Extended attributes of files of the machine: those that programs set, and access control lists.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{XattrFlags, lgetxattr, llistxattr, lremovexattr, lsetxattr};
use rustix::io::Errno;
use tembo_fs::{ACCESS_LIST, DEFAULT_LIST};

/// Most bytes of a value, and of all names: the values of Linux.
const SIZE_MAX: usize = 64 << 10;

/// An attribute and its value.
pub(super) type Attribute = (Vec<u8>, Vec<u8>);

/// Whether an attribute is copied with its file: others belong to the system that the file is in.
pub(super) fn is_kept(name: &[u8]) -> bool {
    name.starts_with(b"user.") || is_list(name)
}

fn is_list(name: &[u8]) -> bool {
    matches!(name, ACCESS_LIST | DEFAULT_LIST)
}

/// The attributes of a file that are copied with it.
pub(super) fn of_file(path: &Path) -> io::Result<Vec<Attribute>> {
    let (mut names, mut value) = (vec![0; SIZE_MAX], vec![0; SIZE_MAX]);
    let len = match llistxattr(path, &mut names[..]) {
        Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
        listed => listed?,
    };
    let mut found = Vec::new();
    for name in names[..len].split(|&byte| byte == 0).filter(|&name| is_kept(name)) {
        let len = lgetxattr(path, OsStr::from_bytes(name), &mut value[..])?;
        found.push((name.to_vec(), value[..len].to_vec()));
    }
    Ok(found)
}

/// Gives a file its attributes. A list that it has inherited from the directory that it was made in goes first: it would let in
/// others than those of the pool.
pub(super) fn give(path: &Path, attributes: &[Attribute]) -> io::Result<()> {
    take_lists(path)?;
    for (name, value) in attributes {
        lsetxattr(path, OsStr::from_bytes(name), value, XattrFlags::empty())?;
    }
    Ok(())
}

/// Takes from a file the lists that it has inherited.
pub(super) fn take_lists(path: &Path) -> io::Result<()> {
    for name in [ACCESS_LIST, DEFAULT_LIST] {
        match lremovexattr(path, OsStr::from_bytes(name)) {
            Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
