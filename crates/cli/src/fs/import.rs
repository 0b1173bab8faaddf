//! Files of the machine, copied into a pool.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, ensure};
use rustix::fs::{Mode, OFlags};
use tembo_fs::{AnyTreeMut, Condition, FileKind, Fs, FsTransaction, Inode, New, Set, Time};
use tembo_kv::Durability;

use super::attributes;
use crate::files::{COPIED, now};

/// Device and number of an inode.
type Place = (u64, u64);

/// Inodes by the places that they had, of files that have several names.
type Linked = BTreeMap<Place, u64>;

/// Where the files of a pool lie.
fn places_of(pool: &Path) -> Vec<Place> {
    let mut log = pool.as_os_str().to_owned();
    log.push(".log");
    let metadata = [pool, Path::new(&log)].into_iter().filter_map(|file| fs::metadata(file).ok());
    metadata.map(|metadata| (metadata.dev(), metadata.ino())).collect()
}

/// Copies a file, or a directory with all below it, into a pool that is open, as one transaction.
pub(super) fn import(
    (fs, pool): (&Fs, &Path),
    source: &Path,
    (folder, name): (&[u8], &[u8]),
) -> anyhow::Result<()> {
    let own = places_of(pool);
    let mut tx = fs.transaction()?;
    let folder = tx.read(|tree| tree.resolve(folder))?.number;
    let mut linked = Linked::new();
    let (path, name) = (source.to_owned(), name.to_vec());
    let mut next = vec![Source { path: path.clone(), _within: None, shown: path, folder, name }];
    while let Some(source) = next.pop() {
        let mut import = || {
            let (inode, place) = import_one(&mut tx, &source, (&mut linked, &own))?;
            if inode.is_directory() {
                next.extend(below(&source, place, inode.number)?);
            }
            anyhow::Ok(())
        };
        import().with_context(|| format!("importing {}", source.shown.display()))?;
    }
    tx.commit(Durability::Strict)?;
    Ok(())
}

/// What is to be imported.
struct Source {
    /// Where it is read: below a folder that is open, so that a link in the place of that leads nowhere.
    path: PathBuf,
    /// That folder.
    _within: Option<Rc<File>>,
    /// Its path for people.
    shown: PathBuf,
    /// The directory of the pool that gets it, and its name there.
    folder: u64,
    name: Vec<u8>,
}

/// What is in a folder that was found at a place, and became this one of the pool.
fn below(source: &Source, place: Place, folder: u64) -> anyhow::Result<Vec<Source>> {
    let open = Rc::new(opened(&source.path, place)?);
    let path = PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd()));
    let mut all = Vec::new();
    for entry in fs::read_dir(&path)? {
        let name = entry?.file_name();
        all.push(Source {
            path: path.join(&name),
            _within: Some(open.clone()),
            shown: source.shown.join(&name),
            folder,
            name: name.as_bytes().to_vec(),
        });
    }
    Ok(all)
}

fn import_one(
    tx: &mut FsTransaction,
    source: &Source,
    (linked, own): (&mut Linked, &[Place]),
) -> anyhow::Result<(Inode, Place)> {
    let Source { path, folder, name, .. } = source;
    let folder = *folder;
    let metadata = fs::symlink_metadata(path)?;
    let kind = FileKind::of_mode(metadata.mode()).context("it is of no known kind")?;
    let place = (metadata.dev(), metadata.ino());
    // What is written to it would be read again, without an end.
    ensure!(
        !own.contains(&place),
        "it is a file of the pool itself: import from a folder without it"
    );
    let has_names = kind != FileKind::Directory && metadata.nlink() > 1;
    if let Some(&number) = linked.get(&place).filter(|_| has_names) {
        return Ok((tx.change(now(), |tree| tree.link(number, folder, name))?, place));
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
        import_bytes(tx, opened(path, place)?, inode.number)?;
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
    Ok((tx.change(now(), |tree| tree.set(inode.number, &times))?, place))
}

fn times(metadata: &Metadata) -> Set {
    let time = |seconds, nanoseconds: i64| Time { seconds, nanoseconds: nanoseconds as u32 };
    Set {
        accessed: Some(time(metadata.atime(), metadata.atime_nsec())),
        modified: Some(time(metadata.mtime(), metadata.mtime_nsec())),
        ..Set::default()
    }
}

/// Opens the file, or the folder, that was found at a path: no other one, that a link or a pipe in its place leads to.
fn opened(path: &Path, place: Place) -> anyhow::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let metadata = file.metadata()?;
    let is_same = (metadata.dev(), metadata.ino()) == place;
    ensure!(is_same, "another file has taken its place: import it when nothing changes the folder");
    Ok(file)
}

fn import_bytes(tx: &mut FsTransaction, mut file: File, number: u64) -> anyhow::Result<()> {
    let (mut offset, mut buffer) = (0, vec![0; COPIED]);
    loop {
        let len = file.read(&mut buffer)?;
        if len == 0 {
            return Ok(());
        }
        tx.change(now(), |tree| tree.write(number, offset, &buffer[..len]))?;
        offset += len as u64;
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_whose_place_another_has_taken_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("a"), folder.path().join("other"));
        fs::write(&path, "a").unwrap();
        fs::write(&other, "secret").unwrap();
        let metadata = fs::symlink_metadata(&path).unwrap();
        let place = (metadata.dev(), metadata.ino());
        let mut read = String::new();
        opened(&path, place).unwrap().read_to_string(&mut read).unwrap();
        assert_eq!(read, "a");
        // The first one is kept, so that its number is not another's.
        let kept = File::open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        symlink(&other, &path).unwrap();
        assert!(opened(&path, place).is_err());
        fs::rename(&other, &path).unwrap();
        assert!(opened(&path, place).is_err());
        fs::remove_file(&path).unwrap();
        // A pipe that nothing writes to is not waited for.
        let pipe =
            rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, Mode::RUSR, 0);
        pipe.unwrap();
        assert!(opened(&path, place).is_err());
        drop(kept);
    }

    #[test]
    fn a_link_in_the_place_of_a_folder_leads_nowhere() {
        let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(elsewhere.path().join("secret"), "secret").unwrap();
        let path = folder.path().join("found");
        fs::create_dir_all(path.join("below")).unwrap();
        fs::write(path.join("below/file"), "file").unwrap();
        let source = |path: &Path| Source {
            path: path.to_owned(),
            _within: None,
            shown: path.to_owned(),
            folder: 1,
            name: Vec::new(),
        };
        let place = |path: &Path| {
            let metadata = fs::symlink_metadata(path).unwrap();
            (metadata.dev(), metadata.ino())
        };
        let names =
            |sources: &[Source]| sources.iter().map(|one| one.name.clone()).collect::<Vec<_>>();
        let found = below(&source(&path), place(&path), 1).unwrap();
        assert_eq!(names(&found), [b"below"]);
        assert_eq!(found[0].shown, path.join("below"));
        // Another takes its place before what is below it is looked at, or before it is opened.
        let before = place(&path);
        fs::rename(&path, folder.path().join("moved")).unwrap();
        symlink(elsewhere.path(), &path).unwrap();
        let deeper = below(&found[0], place(&found[0].path), 1).unwrap();
        assert_eq!(names(&deeper), [b"file"]);
        assert_eq!(fs::read(&deeper[0].path).unwrap(), b"file");
        assert!(below(&source(&path), before, 1).is_err());
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(below(&source(&path), before, 1).is_err());
    }
}
