//! Files of a pool, copied to the machine.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::Context;
use tembo_fs::{Error, FileKind, Inode, Tree};
use tembo_kv::Snapshot;

use super::attributes::{self, is_kept};
use crate::files::COPIED;

/// Copies a file, or a directory with all below it. Names cannot lead out of the target, whatever the pool holds: none that a
/// listing has is `..` or has a slash, and what is there already is an error.
pub(super) fn export(tree: &mut Tree<Snapshot>, path: &[u8], target: &Path) -> anyhow::Result<()> {
    let mut next = vec![(tree.resolve(path)?.number, target.to_owned())];
    let mut folders: Vec<(PathBuf, Inode)> = Vec::new();
    let mut known = BTreeSet::new();
    while let Some((number, target)) = next.pop() {
        let inode = tree.inode(number)?;
        if inode.is_directory() && !known.insert(number) {
            return Err(Error::Damaged { inode: number, what: "it lies in two places" }.into());
        }
        let done = export_one(tree, &inode, &target);
        done.with_context(|| format!("exporting to {}", target.display()))?;
        if inode.is_directory() {
            tree.list(number, 0, &mut |entry| {
                next.push((entry.inode, target.join(OsStr::from_bytes(&entry.name))));
                true
            })?;
            folders.push((target, inode));
        }
    }
    // Last, so that a directory that nothing can be made in is filled first, and without lists that it would hand on.
    for (path, inode) in folders.into_iter().rev() {
        give(tree, &inode, &path)?;
        fs::set_permissions(path, Permissions::from_mode(inode.permissions.into()))?;
    }
    Ok(())
}

fn export_one(tree: &mut Tree<Snapshot>, inode: &Inode, target: &Path) -> anyhow::Result<()> {
    match inode.kind {
        FileKind::Directory => {
            DirBuilder::new().mode(0o700).create(target)?;
            attributes::take_lists(target)?;
        }
        FileKind::Symlink => symlink(OsStr::from_bytes(&tree.target(inode.number)?), target)?,
        FileKind::Regular => {
            let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(target)?;
            export_bytes(tree, inode, &file)?;
            give(tree, inode, target)?;
            // By the handle: the name may have come to lead elsewhere.
            file.set_permissions(Permissions::from_mode((inode.permissions & 0o777).into()))?;
        }
        kind => anyhow::bail!("{kind:?}: only files, directories and symbolic links are exported"),
    }
    Ok(())
}

/// Gives a file the attributes that are copied with it. What cannot be kept is an error: the permissions of a file without
/// its access list would let in others.
fn give(tree: &mut Tree<Snapshot>, inode: &Inode, target: &Path) -> anyhow::Result<()> {
    let mut kept = Vec::new();
    for name in tree.attributes(inode.number)?.into_iter().filter(|name| is_kept(name)) {
        let value = tree.attribute(inode.number, &name)?;
        kept.push((name, value));
    }
    attributes::give(target, &kept)
        .with_context(|| format!("its attributes, {} in number", kept.len()))
}

fn export_bytes(tree: &mut Tree<Snapshot>, inode: &Inode, mut file: &File) -> anyhow::Result<()> {
    let (mut offset, mut buffer) = (0, vec![0; COPIED]);
    loop {
        let len = tree.read(inode.number, offset, &mut buffer)?;
        if len == 0 {
            return Ok(());
        }
        file.write_all(&buffer[..len])?;
        offset += len as u64;
    }
}
