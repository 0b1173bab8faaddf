//! A copy of a file or directory within its pool.

use std::collections::BTreeMap;

use tembo_fs::{Condition, Error, FileKind, Fs, FsTransaction, Inode, New, Set, Tree};
use tembo_kv::{Durability, Snapshot};

use crate::files::{COPIED, now};

/// What is copied where: an inode, the folder it comes to be in, and its name there.
type Place = (u64, u64, Vec<u8>);

/// Copies a file, or a directory with all below it, as one transaction: each file in constant time, but for those of an earlier
/// version that have changed since, which take time in proportion to their bytes. Holes stay holes, files with several names in it
/// have several names.
pub(super) fn clone(
    fs: &Fs,
    mut source: Tree<Snapshot>,
    from: &[u8],
    (folder, name): (&[u8], &[u8]),
) -> anyhow::Result<()> {
    let mut tx = fs.transaction()?;
    let folder = tx.read(|tree| tree.resolve(folder))?.number;
    let mut known: BTreeMap<u64, u64> = BTreeMap::new();
    let mut folders = Vec::new();
    let mut next: Vec<Place> = vec![(source.resolve(from)?.number, folder, name.to_vec())];
    while let Some((number, folder, name)) = next.pop() {
        let inode = source.inode(number)?;
        if let Some(&copy) = known.get(&number) {
            if inode.is_directory() {
                return Err(Error::Damaged { inode: number, what: "it lies in two places" }.into());
            }
            tx.change(now(), |tree| tree.link(copy, folder, &name))?;
            continue;
        }
        let copy = clone_one(&mut source, &mut tx, &inode, (folder, &name))?;
        known.insert(number, copy);
        if inode.is_directory() {
            source.list(number, 0, &mut |entry| {
                next.push((entry.inode, copy, entry.name));
                true
            })?;
            folders.push((copy, inode));
        } else {
            set_times(&mut tx, copy, &inode)?;
        }
    }
    // Each entry has given them another time.
    for (copy, inode) in &folders {
        set_times(&mut tx, *copy, inode)?;
    }
    tx.commit(Durability::Strict)?;
    Ok(())
}

fn set_times(tx: &mut FsTransaction, copy: u64, inode: &Inode) -> Result<(), Error> {
    let (accessed, modified) = (Some(inode.accessed), Some(inode.modified));
    let set = Set { accessed, modified, ..Set::default() };
    tx.change(now(), |tree| tree.set(copy, &set)).map(drop)
}

fn clone_one(
    source: &mut Tree<Snapshot>,
    tx: &mut FsTransaction,
    inode: &Inode,
    (folder, name): (u64, &[u8]),
) -> Result<u64, Error> {
    let new = New {
        kind: inode.kind,
        permissions: inode.permissions,
        user: inode.user,
        group: inode.group,
        device: inode.device,
        umask: None,
    };
    let copy = match inode.kind {
        FileKind::Symlink => {
            let target = source.target(inode.number)?;
            tx.change(now(), |tree| tree.symlink(folder, name, &target, &new))?
        }
        _ => tx.change(now(), |tree| tree.create(folder, name, &new))?,
    };
    for attribute in source.attributes(inode.number)? {
        let value = source.attribute(inode.number, &attribute)?;
        tx.change(now(), |tree| {
            tree.set_attribute(copy.number, &attribute, &value, Condition::Any)
        })?;
    }
    if inode.kind == FileKind::Regular {
        if has_same_bytes(tx, inode)? {
            tx.change(now(), |tree| tree.clone_file(inode.number, copy.number))?;
        } else {
            copy_bytes(source, tx, inode, copy.number)?;
        }
    }
    Ok(copy.number)
}

/// Whether a file is still there as it was in its version.
fn has_same_bytes(tx: &mut FsTransaction, inode: &Inode) -> Result<bool, Error> {
    match tx.read(|tree| tree.inode(inode.number)) {
        Ok(current) => Ok((current.generation, current.edits) == (inode.generation, inode.edits)),
        Err(Error::NoSuchInode { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

fn copy_bytes(
    source: &mut Tree<Snapshot>,
    tx: &mut FsTransaction,
    inode: &Inode,
    copy: u64,
) -> Result<(), Error> {
    let (mut offset, mut buffer) = (0, vec![0; COPIED]);
    loop {
        offset = match source.seek_data(inode.number, offset) {
            Ok(data) => data,
            Err(Error::NothingThere { .. }) => break,
            Err(error) => return Err(error),
        };
        let end = source.seek_hole(inode.number, offset)?;
        let len = usize::try_from(end - offset).map_or(COPIED, |len| len.min(COPIED));
        let len = source.read(inode.number, offset, &mut buffer[..len])?;
        tx.change(now(), |tree| tree.write(copy, offset, &buffer[..len]))?;
        offset += len as u64;
    }
    let set = Set { size: Some(inode.size), ..Set::default() };
    tx.change(now(), |tree| tree.set(copy, &set)).map(drop)
}
