//! A file system that an earlier release has written still opens, with all that it holds: see images/README.md.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use tembo_fs::{FileKind, Format, Fs, New, ROOT, Set, Time};
use tembo_kv::{DomainRequest, Durability, Options, Store};

const SIZE: usize = 1 << 20;
const NOW: Time = Time { seconds: 1_700_000_000, nanoseconds: 5 };
const NEW: New = New { kind: FileKind::Regular, permissions: 0o640, user: 7, group: 8, device: 0 };

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

#[test]
fn a_file_system_of_version_1_opens_with_all_that_it_holds() {
    let image = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/images/fs_1.image");
    let mut bytes = std::fs::read(image).unwrap();
    bytes.resize(SIZE, 0);
    let folder = std::env::temp_dir().join(format!("tembo-fs-golden-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("pool"), bytes).unwrap();
    let store = Store::open(&folder.join("pool"), &options()).unwrap();
    let fs = Fs::open(&store).unwrap();
    holds_all(&fs);
    drop((fs, store));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_file_system_of_today_holds_the_same() {
    let store = Store::volatile(&options()).unwrap();
    let fs = Fs::format(&store, &Format::default(), NOW).unwrap();
    fill(&fs);
    drop(fs);
    holds_all(&Fs::open(&store).unwrap());
}
