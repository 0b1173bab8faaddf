//! Files of the machine, copied into a pool.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use tembo_fs::{AnyTreeMut, Condition, FileKind, Fs, FsTransaction, Inode, New, Set, Time};
use tembo_kv::Durability;

use super::attributes;
use crate::files::{COPIED, now};

/// Inodes by the device and number that they had, of files that have several names.
type Linked = BTreeMap<(u64, u64), u64>;

/// Copies a file, or a directory with all below it, as one transaction.
pub(super) fn import(fs: &Fs, source: &Path, (folder, name): (&[u8], &[u8])) -> anyhow::Result<()> {
    let mut tx = fs.transaction()?;
    let folder = tx.read(|tree| tree.resolve(folder))?.number;
    let mut linked = Linked::new();
    let mut next = vec![(source.to_owned(), folder, name.to_vec())];
    while let Some((path, folder, name)) = next.pop() {
        let one = import_one(&mut tx, &path, (folder, &name), &mut linked);
        let inode = one.with_context(|| format!("importing {}", path.display()))?;
        if inode.is_directory() {
            next.extend(below(&path, inode.number)?);
        }
    }
    tx.commit(Durability::Strict)?;
    Ok(())
}

fn below(path: &Path, folder: u64) -> anyhow::Result<Vec<(PathBuf, u64, Vec<u8>)>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        all.push((entry.path(), folder, entry.file_name().as_bytes().to_vec()));
    }
    Ok(all)
}

fn import_one(
    tx: &mut FsTransaction,
    path: &Path,
    (folder, name): (u64, &[u8]),
    linked: &mut Linked,
) -> anyhow::Result<Inode> {
    let metadata = fs::symlink_metadata(path)?;
    let kind = FileKind::of_mode(metadata.mode()).context("it is of no known kind")?;
    let place = (metadata.dev(), metadata.ino());
    let has_names = kind != FileKind::Directory && metadata.nlink() > 1;
    if let Some(&number) = linked.get(&place).filter(|_| has_names) {
        return Ok(tx.change(now(), |tree| tree.link(number, folder, name))?);
    }
    let new = New {
        kind,
        permissions: (metadata.mode() & 0o7777) as u16,
        user: metadata.uid(),
        group: metadata.gid(),
        device: metadata.rdev(),
        umask: None,
    };
    let inode = match kind {
        FileKind::Symlink => {
            let target = fs::read_link(path)?;
            let target = target.as_os_str().as_bytes();
            tx.change(now(), |tree| tree.symlink(folder, name, target, &new))?
        }
        _ => tx.change(now(), |tree| tree.create(folder, name, &new))?,
    };
    if kind == FileKind::Regular {
        import_bytes(tx, path, inode.number)?;
    }
    if has_names {
        linked.insert(place, inode.number);
    }
    if kind != FileKind::Symlink {
        for (name, value) in attributes::of_file(path)? {
            let set = |tree: &mut AnyTreeMut<'_, '_>| {
                tree.set_attribute(inode.number, &name, &value, Condition::Any)
            };
            let name = name.escape_ascii();
            tx.change(now(), set).with_context(|| format!("its attribute \"{name}\""))?;
        }
    }
    let times = times(&metadata);
    // A directory gets its time again with each entry: that of the import stays.
    Ok(tx.change(now(), |tree| tree.set(inode.number, &times))?)
}

fn times(metadata: &Metadata) -> Set {
    let time = |seconds, nanoseconds: i64| Time { seconds, nanoseconds: nanoseconds as u32 };
    Set {
        accessed: Some(time(metadata.atime(), metadata.atime_nsec())),
        modified: Some(time(metadata.mtime(), metadata.mtime_nsec())),
        ..Set::default()
    }
}

fn import_bytes(tx: &mut FsTransaction, path: &Path, number: u64) -> anyhow::Result<()> {
    let (mut file, mut offset, mut buffer) = (File::open(path)?, 0, vec![0; COPIED]);
    loop {
        let len = file.read(&mut buffer)?;
        if len == 0 {
            return Ok(());
        }
        tx.change(now(), |tree| tree.write(number, offset, &buffer[..len]))?;
        offset += len as u64;
    }
}
