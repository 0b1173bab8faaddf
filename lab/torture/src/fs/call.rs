//! What is done to a file system, by paths.

use tembo_fs::{
    Allocate, Condition, DEFAULT_LIST, Error, FileKind, New, Reads, Rename, Set, Time, Tree,
    TreeMut, Writes,
};
use tembo_sim::Random;

/// The size of a piece, in bytes.
pub(super) const PIECE: usize = 512;

/// What files and folders are made with, and the mask, which a default list is in the place of.
pub(super) const MODE: u16 = 0o666;
pub(super) const UMASK: u16 = 0o022;

/// The permissions that the default list of a folder gives to owner, group class and others.
pub(super) const DEFAULT_CLASSES: u16 = 0o751;

/// An access list of which permissions say all but what user 7 and the owning group get of the mask.
pub(super) fn list(classes: u16) -> Vec<u8> {
    let of = |shift: u16| classes >> shift & 7;
    let entries: [(u16, u16, u32); 5] = [
        (0x01, of(6), u32::MAX),
        (0x02, 6, 7),
        (0x04, 4, u32::MAX),
        (0x10, of(3), u32::MAX),
        (0x20, of(0), u32::MAX),
    ];
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

/// The attribute that is set.
pub(super) const ATTRIBUTE: &[u8] = b"user.x";

pub(super) type Path = &'static str;

/// A call of the file system.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    Create(Path),
    Folder(Path),
    Symlink(Path, Path),
    Link(Path, Path),
    Unlink(Path),
    RemoveFolder(Path),
    Rename(Path, Path, Rename),
    /// Offset and length.
    Write(Path, u64, usize),
    Resize(Path, u64),
    Allocate(Path, u64, u64, Allocate),
    /// The whole first file to an offset of the second.
    Copy(Path, Path, u64),
    /// The second file, which is empty, comes to show the bytes of the first.
    Clone(Path, Path),
    Permissions(Path, u16),
    SetAttribute(Path, usize, Condition),
    RemoveAttribute(Path),
    /// A folder gets its default list, or loses it.
    DefaultList(Path, bool),
}

/// The bytes that a call writes.
pub(super) fn bytes(serial: u64, len: usize) -> Vec<u8> {
    (0..len).map(|at| b'a' + ((serial as usize + at / 3) % 26) as u8).collect()
}

fn new(kind: FileKind) -> New {
    New { kind, permissions: MODE, user: 1, group: 2, device: 0, umask: Some(UMASK) }
}

pub(super) fn time(serial: u64) -> Time {
    Time { seconds: serial as i64, nanoseconds: 0 }
}

/// The name of an error, as programs know it.
pub(super) fn code(error: &Error) -> Option<&'static str> {
    match error {
        Error::NoSuchInode { .. } | Error::NoSuchName { .. } => Some("ENOENT"),
        Error::NameExists { .. } | Error::AttributeExists { .. } => Some("EEXIST"),
        Error::NotADirectory { .. } => Some("ENOTDIR"),
        Error::IsADirectory { .. } => Some("EISDIR"),
        Error::NotEmpty { .. } => Some("ENOTEMPTY"),
        Error::Invalid { .. } => Some("EINVAL"),
        Error::NotPermitted { .. } => Some("EPERM"),
        Error::NoSuchAttribute { .. } => Some("ENODATA"),
        _ => None,
    }
}

/// The folder of a path, and the name in it.
fn place<A: Reads>(tree: &mut Tree<A>, path: Path) -> Result<(u64, &'static [u8]), Error> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    Ok((tree.resolve(folder.as_bytes())?.number, name.as_bytes()))
}

impl Call {
    /// Does it.
    pub(super) fn run<A: Writes>(
        &self,
        tree: &mut TreeMut<'_, A>,
        serial: u64,
    ) -> Result<(), Error> {
        let find = |tree: &mut TreeMut<'_, A>, path: Path| {
            tree.tree().resolve(path.as_bytes()).map(|inode| inode.number)
        };
        match *self {
            Call::Create(path) | Call::Folder(path) | Call::Symlink(path, _) => {
                let (folder, name) = place(tree.tree(), path)?;
                self.create(tree, folder, name)?;
            }
            Call::Link(from, to) => {
                let number = find(tree, from)?;
                let (folder, name) = place(tree.tree(), to)?;
                tree.link(number, folder, name)?;
            }
            Call::Unlink(path) => {
                let (folder, name) = place(tree.tree(), path)?;
                tree.unlink(folder, name)?;
            }
            Call::RemoveFolder(path) => {
                let (folder, name) = place(tree.tree(), path)?;
                tree.remove_directory(folder, name)?;
            }
            Call::Rename(from, to, how) => {
                let (from, to) = (place(tree.tree(), from)?, place(tree.tree(), to)?);
                tree.rename(from, to, how)?;
            }
            Call::Write(path, offset, len) => {
                let number = find(tree, path)?;
                tree.write(number, offset, &bytes(serial, len))?;
            }
            Call::Resize(path, size) => {
                let (number, size) = (find(tree, path)?, Some(size));
                tree.set(number, &Set { size, ..Set::default() })?;
            }
            Call::Allocate(path, offset, len, how) => {
                let number = find(tree, path)?;
                tree.allocate(number, offset, len, how)?;
            }
            Call::Copy(from, to, _) | Call::Clone(from, to) => {
                let (from, to) = (find(tree, from)?, find(tree, to)?);
                self.copy(tree, from, to)?;
            }
            Call::Permissions(path, bits) => {
                let (number, permissions) = (find(tree, path)?, Some(bits));
                tree.set(number, &Set { permissions, ..Set::default() })?;
            }
            Call::SetAttribute(path, len, condition) => {
                let number = find(tree, path)?;
                tree.set_attribute(number, ATTRIBUTE, &bytes(serial, len), condition)?;
            }
            Call::RemoveAttribute(path) => {
                let number = find(tree, path)?;
                tree.remove_attribute(number, ATTRIBUTE)?;
            }
            Call::DefaultList(path, true) => {
                let (number, list) = (find(tree, path)?, list(DEFAULT_CLASSES));
                tree.set_attribute(number, DEFAULT_LIST, &list, Condition::Any)?;
            }
            Call::DefaultList(path, false) => {
                let number = find(tree, path)?;
                tree.remove_attribute(number, DEFAULT_LIST)?;
            }
        }
        Ok(())
    }

    fn copy<A: Writes>(&self, tree: &mut TreeMut<'_, A>, from: u64, to: u64) -> Result<(), Error> {
        match *self {
            Call::Copy(_, _, offset) => {
                tree.copy_range((from, 0), (to, offset), u64::MAX).map(drop)
            }
            _ => tree.clone_file(from, to),
        }
    }

    fn create<A: Writes>(
        &self,
        tree: &mut TreeMut<'_, A>,
        folder: u64,
        name: &[u8],
    ) -> Result<(), Error> {
        match self {
            Call::Symlink(_, target) => {
                tree.symlink(folder, name, target.as_bytes(), &new(FileKind::Symlink))?
            }
            Call::Folder(_) => tree.create(folder, name, &new(FileKind::Directory))?,
            _ => tree.create(folder, name, &new(FileKind::Regular))?,
        };
        Ok(())
    }
}

/// A path, by chance: in the root, a folder, and one in that.
fn any_path(random: &mut Random) -> Path {
    const ALL: [Path; 12] =
        ["a", "b", "d", "e", "d/a", "d/b", "d/d", "d/e", "d/e/a", "d/e/b", "d/e/d", "d/e/e"];
    ALL[random.below(ALL.len())]
}

/// A call, by chance.
pub(super) fn any_call(random: &mut Random) -> Call {
    let path = any_path(random);
    let size = |random: &mut Random, most: usize| random.below(most) as u64;
    let ways = [Rename::Replace, Rename::Replace, Rename::NoReplace, Rename::Exchange];
    match random.below(23) {
        21 | 22 => Call::Clone(path, any_path(random)),
        20 => Call::DefaultList(path, random.below(3) > 0),
        0 | 1 => Call::Create(path),
        2 | 3 => Call::Folder(path),
        4 => Call::Symlink(path, any_path(random)),
        5 | 6 => Call::Link(path, any_path(random)),
        7 => Call::Unlink(path),
        8 => Call::RemoveFolder(path),
        9..=12 => Call::Rename(path, any_path(random), ways[random.below(4)]),
        13 | 14 => Call::Write(path, size(random, 1500), random.below(1200)),
        15 => Call::Resize(path, size(random, 2500)),
        16 => any_range(path, random),
        17 => Call::Copy(path, any_path(random), size(random, 600)),
        18 => Call::Permissions(path, random.below(0o1000) as u16),
        _ if random.below(2) == 0 => Call::RemoveAttribute(path),
        _ => {
            let conditions = [Condition::Any, Condition::Create, Condition::Replace];
            Call::SetAttribute(path, random.below(100), conditions[random.below(3)])
        }
    }
}

fn any_range(path: Path, random: &mut Random) -> Call {
    let ways = [
        Allocate::Extend,
        Allocate::Punch,
        Allocate::Zero,
        Allocate::ZeroWithin,
        Allocate::Collapse,
        Allocate::Insert,
    ];
    let how = ways[random.below(ways.len())];
    let (mut offset, mut len) = (random.below(1500) as u64, random.below(1200) as u64);
    if random.below(4) > 0 && matches!(how, Allocate::Collapse | Allocate::Insert) {
        offset -= offset % PIECE as u64;
        len += PIECE as u64 - len % PIECE as u64;
    }
    Call::Allocate(path, offset, len, how)
}
