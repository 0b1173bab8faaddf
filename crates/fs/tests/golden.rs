//! A file system that an earlier release has written still opens, with all that it holds: see images/README.md.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use tembo_fs::{Allocate, AnyTreeMut, Error, FileKind, Format, Fs, New, ROOT, Set, Time};
use tembo_kv::{DomainRequest, Durability, Options, Store};

const SIZE: usize = 1 << 20;
const NOW: Time = Time { seconds: 1_700_000_000, nanoseconds: 5 };
const NEW: New =
    New { kind: FileKind::Regular, permissions: 0o640, user: 7, group: 8, device: 0, umask: None };

fn options() -> Options {
    Options::new().size(SIZE as u64).background(false).domain(DomainRequest::Logged)
}

/// What the image was made by.
fn fill(fs: &Fs) {
    let done = fs.write(NOW, Durability::Strict, |tree| {
        let folder = New { kind: FileKind::Directory, ..NEW };
        let folder = tree.create(ROOT, b"folder", &folder)?.number;
        let file = tree.create(folder, b"file", &NEW)?.number;
        tree.write(file, 5000, b"behind a hole")?;
        tree.set_attribute(file, b"user.x", b"attribute", tembo_fs::Condition::Any)?;
        tree.link(file, ROOT, b"second")?;
        tree.symlink(ROOT, b"link", b"folder/file", &NEW)?;
        tree.create_unnamed(ROOT, &NEW)?;
        tree.set(file, &Set { accessed: Some(Time::default()), ..Set::default() })
    });
    done.unwrap();
}

fn holds_all(fs: &Fs) {
    let mut tree = fs.snapshot().unwrap();
    let file = tree.resolve(b"/folder/file").unwrap();
    let mut bytes = vec![1; 6000];
    assert_eq!(tree.read(file.number, 0, &mut bytes).unwrap(), 5013);
    assert_eq!((&bytes[..5000], &bytes[5000..5013]), (&[0; 5000][..], &b"behind a hole"[..]));
    assert_eq!((file.mode(), file.user, file.group, file.links), (0o100_640, 7, 8, 2));
    assert_eq!((file.accessed, file.modified, file.pieces), (Time::default(), NOW, 1));
    assert_eq!(tree.attribute(file.number, b"user.x").unwrap(), b"attribute");
    assert_eq!(tree.resolve(b"/second").unwrap(), file);
    let link = tree.resolve(b"/link").unwrap();
    assert_eq!(tree.target(link.number).unwrap(), b"folder/file");
    let check = tree.check().unwrap();
    assert_eq!(check.findings, []);
    assert_eq!((check.inodes, check.entries, check.orphans), (4, 4, 0));
}

/// Opens the image of a version, in which `work` does something.
fn with_image(version: u32, work: impl FnOnce(&Fs)) {
    let image = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/images");
    let mut bytes = std::fs::read(image.join(format!("fs_{version}.image"))).unwrap();
    bytes.resize(SIZE, 0);
    let name = format!("tembo-fs-golden-{version}-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("pool"), bytes).unwrap();
    let store = Store::open(&folder.join("pool"), &options()).unwrap();
    let fs = Fs::open(&store).unwrap();
    holds_all(&fs);
    work(&fs);
    drop((fs, store));
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Writes, cuts, punches and removes, and looks whether all parts fit to each other.
fn goes_on(fs: &Fs) {
    let bytes = vec![9; 20_000];
    let change = |work: &mut dyn FnMut(&mut AnyTreeMut<'_, '_>) -> Result<(), Error>| {
        fs.write(NOW, Durability::Strict, work).unwrap();
        assert_eq!(fs.snapshot().unwrap().check().unwrap().findings, []);
    };
    let file = fs.snapshot().unwrap().resolve(b"/folder/file").unwrap().number;
    change(&mut |tree| tree.write(file, 1000, &bytes).map(drop));
    let mut read = vec![0; 30_000];
    let mut tree = fs.snapshot().unwrap();
    assert_eq!(tree.read(file, 0, &mut read).unwrap(), 21_000);
    assert_eq!((&read[..1000], &read[1000..21_000]), (&[0; 1000][..], &bytes[..]));
    drop(tree);
    change(&mut |tree| tree.allocate(file, 4096, 8192, Allocate::Punch).map(drop));
    change(&mut |tree| tree.set(file, &Set { size: Some(7), ..Set::default() }).map(drop));
    change(&mut |tree| tree.unlink(ROOT, b"second"));
    let folder = fs.snapshot().unwrap().resolve(b"/folder").unwrap().number;
    change(&mut |tree| tree.unlink(folder, b"file"));
    assert_eq!(fs.snapshot().unwrap().check().unwrap().pieces, 1);
}

#[test]
fn file_systems_of_earlier_versions_open_with_all_that_they_hold_and_go_on() {
    (1..=2).for_each(|version| with_image(version, goes_on));
}

#[test]
fn a_file_system_of_a_later_version_is_refused() {
    let store = Store::volatile(&options()).unwrap();
    drop(Fs::format(&store, &Format::default(), NOW).unwrap());
    let space = store.keyspace("fs.tree").unwrap();
    let mut superblock = store.get(space, b"s").unwrap().unwrap().to_vec();
    assert_eq!(superblock[8..12], 2_u32.to_le_bytes());
    for version in [0, 3] {
        superblock[8] = version;
        store.put(space, b"s", &superblock, Durability::Strict).unwrap();
        let opened = Fs::open(&store).map(drop);
        assert!(matches!(opened, Err(Error::NewerVersion { known: 2, .. })), "{opened:?}");
    }
}

#[test]
fn a_file_system_of_today_holds_the_same() {
    let store = Store::volatile(&options()).unwrap();
    let fs = Fs::format(&store, &Format::default(), NOW).unwrap();
    fill(&fs);
    drop(fs);
    holds_all(&Fs::open(&store).unwrap());
}
