//! A file system that an earlier release has written still opens, with all that it holds: see images/README.md.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use tembo_fs::{
    ACCESS_LIST, Allocate, AnyTreeMut, Condition, Error, FileKind, Format, Fs, New, ROOT, Set, Time,
};
use tembo_kv::{DomainRequest, Durability, Options, Retention, Store};

const SIZE: usize = 1 << 20;
const NOW: Time = Time { seconds: 1_700_000_000, nanoseconds: 5 };
const LATER: Time = Time { seconds: 1_700_000_009, nanoseconds: 6 };
const NEW: New =
    New { kind: FileKind::Regular, permissions: 0o640, user: 7, group: 8, device: 0, umask: None };

fn options() -> Options {
    Options::new().size(SIZE as u64).background(false).domain(DomainRequest::Logged)
}

/// What each image was made by.
fn fill(fs: &Fs) {
    let done = fs.write(NOW, Durability::Strict, |tree| {
        let folder = New { kind: FileKind::Directory, ..NEW };
        let folder = tree.create(ROOT, b"folder", &folder)?.number;
        let file = tree.create(folder, b"file", &NEW)?.number;
        tree.write(file, 5000, b"behind a hole")?;
        tree.set_attribute(file, b"user.x", b"attribute", Condition::Any)?;
        tree.link(file, ROOT, b"second")?;
        tree.symlink(ROOT, b"link", b"folder/file", &NEW)?;
        tree.create_unnamed(ROOT, &NEW)?;
        tree.set(file, &Set { accessed: Some(Time::default()), ..Set::default() })
    });
    done.unwrap();
}

/// An access list by which user 9 reads, of a file of permissions 0640.
const LIST: [u8; 44] = [
    2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 4, 0, 9, 0, 0, 0, 4, 0, 4, 0, 255, 255, 255,
    255, 16, 0, 4, 0, 255, 255, 255, 255, 32, 0, 0, 0, 255, 255, 255, 255,
];

/// And that of version 3, which has layers, an access list and a point in time.
fn fill_layers(fs: &Fs) {
    fill(fs);
    fs.store().retain(Retention::Versions(100)).unwrap();
    fs.set_copied_max(0);
    let done = fs.write(NOW, Durability::Strict, |tree| {
        let listed = tree.create(ROOT, b"listed", &NEW)?.number;
        tree.set_attribute(listed, ACCESS_LIST, &LIST, Condition::Any)?;
        let original = tree.create(ROOT, b"original", &NEW)?.number;
        tree.write(original, 0, &[1; 20_000])?;
        let clone = tree.create(ROOT, b"clone", &NEW)?.number;
        tree.clone_file(original, clone)?;
        tree.set(clone, &Set { size: Some(15_000), ..Set::default() })?;
        tree.write(clone, 5000, b"own")?;
        let second = tree.create(ROOT, b"clone of the clone", &NEW)?.number;
        tree.clone_file(clone, second)?;
        tree.allocate(second, 0, 4096, Allocate::Punch)
    });
    done.unwrap();
    fs.note_time(LATER).unwrap();
    fs.sync().unwrap();
}

fn holds_layers(fs: &Fs) {
    let mut tree = fs.snapshot().unwrap();
    let listed = tree.resolve(b"/listed").unwrap();
    assert_eq!(listed.permissions, 0o640);
    assert_eq!(tree.attribute(listed.number, ACCESS_LIST).unwrap(), LIST);
    let original = vec![1; 20_000];
    let mut clone = vec![1; 15_000];
    clone[5000..5003].copy_from_slice(b"own");
    let mut second = clone.clone();
    second[..4096].fill(0);
    for (path, expected) in
        [("/original", original), ("/clone", clone), ("/clone of the clone", second)]
    {
        let inode = tree.resolve(path.as_bytes()).unwrap();
        let mut bytes = vec![9; 30_000];
        let len = tree.read(inode.number, 0, &mut bytes).unwrap();
        assert!(bytes[..len] == expected[..], "{path}");
    }
    let points: Vec<Time> = fs.points().unwrap().into_iter().map(|point| point.time).collect();
    assert_eq!(points, [NOW]);
    let mut then = fs.tree(fs.snapshot_at(NOW).unwrap());
    assert_eq!(then.resolve(b"/clone").unwrap().size, 15_000);
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
    assert_eq!((check.findings, check.orphans), (vec![], 0));
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
    if version > 2 {
        holds_layers(&fs);
    }
    // A clone raises the version, whatever the piece keys are of.
    fs.set_copied_max(0);
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
    change(&mut |tree| {
        tree.write(file, 0, &bytes)?;
        let clone = tree.create(ROOT, b"new clone", &NEW)?.number;
        tree.clone_file(file, clone)
    });
    let clone = fs.snapshot().unwrap().resolve(b"/new clone").unwrap().number;
    change(&mut |tree| tree.write(clone, 4000, b"own").map(drop));
    let fs = &Fs::open(fs.store()).unwrap();
    let mut tree = fs.snapshot().unwrap();
    assert_eq!(tree.read(clone, 0, &mut read).unwrap(), 20_000);
    assert_eq!((&read[..4000], &read[4000..4003]), (&bytes[..4000], &b"own"[..]));
    assert_eq!(&read[4003..20_000], &bytes[4003..]);
    drop(tree);
    let change = |work: &mut dyn FnMut(&mut AnyTreeMut<'_, '_>) -> Result<(), Error>| {
        fs.write(NOW, Durability::Strict, work).unwrap();
        assert_eq!(fs.snapshot().unwrap().check().unwrap().findings, []);
    };
    change(&mut |tree| tree.unlink(ROOT, b"second"));
    change(&mut |tree| tree.unlink(ROOT, b"new clone"));
    for name in [&b"original"[..], b"clone", b"clone of the clone"] {
        change(&mut |tree| match tree.unlink(ROOT, name) {
            Err(Error::NoSuchName { .. }) => Ok(()),
            done => done,
        });
    }
    let folder = fs.snapshot().unwrap().resolve(b"/folder").unwrap().number;
    change(&mut |tree| tree.unlink(folder, b"file"));
    assert_eq!(fs.snapshot().unwrap().check().unwrap().pieces, 1);
}

#[test]
fn file_systems_of_earlier_versions_open_with_all_that_they_hold_and_go_on() {
    (1..=3).for_each(|version| with_image(version, goes_on));
}

#[test]
fn a_file_system_of_a_later_version_is_refused() {
    let store = Store::volatile(&options()).unwrap();
    drop(Fs::format(&store, &Format::default(), NOW).unwrap());
    let space = store.keyspace("fs.tree").unwrap();
    let mut superblock = store.get(space, b"s").unwrap().unwrap().to_vec();
    assert_eq!(superblock[8..12], 2_u32.to_le_bytes());
    for version in [0, 4] {
        superblock[8] = version;
        store.put(space, b"s", &superblock, Durability::Strict).unwrap();
        let opened = Fs::open(&store).map(drop);
        assert!(matches!(opened, Err(Error::NewerVersion { known: 3, .. })), "{opened:?}");
    }
}

#[test]
fn a_file_system_of_today_holds_the_same() {
    let store = Store::volatile(&options()).unwrap();
    let fs = Fs::format(&store, &Format::default(), NOW).unwrap();
    fill_layers(&fs);
    drop(fs);
    let fs = Fs::open(&store).unwrap();
    holds_all(&fs);
    holds_layers(&fs);
}

/// A file system that has no clone can go back to a release that knows none.
#[test]
fn the_version_is_raised_with_the_first_clone() {
    let store = Store::volatile(&options()).unwrap();
    let fs = Fs::format(&store, &Format::default(), NOW).unwrap();
    fs.set_copied_max(0);
    let space = store.keyspace("fs.tree").unwrap();
    let superblock = || store.get(space, b"s").unwrap().unwrap().to_vec();
    fill(&fs);
    assert_eq!(superblock()[8..12], 2_u32.to_le_bytes());
    let file = fs.snapshot().unwrap().resolve(b"/second").unwrap().number;
    fs.write(NOW, Durability::Strict, |tree| {
        let clone = tree.create(ROOT, b"clone", &NEW)?.number;
        tree.clone_file(file, clone)
    })
    .unwrap();
    assert_eq!(superblock()[8..12], 3_u32.to_le_bytes());
    assert_eq!(superblock()[16..20], 2_u32.to_le_bytes());
}
