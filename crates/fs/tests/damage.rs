//! A file system of which a part is damaged: the rest is served, and the damage is named.
#![allow(clippy::unwrap_used, clippy::panic)]

use tembo_fs::{AnyTreeMut, Entry, Error, FileKind, Format, Fs, New, ROOT, Time};
use tembo_kv::{Durability, Options, Store};

const NOW: Time = Time { seconds: 1_700_000_000, nanoseconds: 5 };

fn made() -> Fs {
    let store = Store::volatile(&Options::new()).unwrap();
    Fs::format(&store, &Format::default(), NOW).unwrap()
}

fn new(kind: FileKind) -> New {
    New { kind, permissions: 0o644, user: 7, group: 8, device: 0, umask: None }
}

fn change<T>(
    fs: &Fs,
    work: impl FnOnce(&mut AnyTreeMut<'_, '_>) -> Result<T, Error>,
) -> Result<T, Error> {
    fs.write(NOW, Durability::Buffered, work)
}

fn make(fs: &Fs, parent: u64, name: &[u8], kind: FileKind) -> u64 {
    change(fs, |tree| tree.create(parent, name, &new(kind))).unwrap().number
}

/// Files that have lost their names while they were open, when the process that had them ends.
fn orphans<const N: usize>(fs: &Fs) -> [u64; N] {
    [(); N].map(|()| {
        let number = make(fs, ROOT, b"file", FileKind::Regular);
        change(fs, |tree| tree.write(number, 0, &[7; 10_000])).unwrap();
        fs.open_inode(number).unwrap();
        change(fs, |tree| tree.unlink(ROOT, b"file")).unwrap();
        number
    })
}

/// The record of an inode says nothing any more.
fn damage(fs: &Fs, number: u64) {
    let tree = fs.store().keyspace("fs.tree").unwrap();
    let key = [&b"i"[..], &number.to_be_bytes()].concat();
    fs.store().put(tree, &key, b"no inode", Durability::Buffered).unwrap();
}

#[test]
fn a_file_without_a_name_that_is_damaged_keeps_no_other_from_being_opened() {
    let fs = made();
    let [first, damaged, last] = orphans(&fs);
    let kept = make(&fs, ROOT, b"kept", FileKind::Regular);
    damage(&fs, damaged);
    let fs = Fs::open(fs.store()).unwrap();
    let inode = |number| fs.snapshot().unwrap().inode(number);
    for removed in [first, last] {
        let found = inode(removed);
        assert!(matches!(found, Err(Error::NoSuchInode { .. })), "{found:?}");
    }
    assert!(matches!(inode(damaged), Err(Error::Damaged { inode, .. }) if inode == damaged));
    assert_eq!(inode(kept).unwrap().links, 1);
    // It is written as any other, and the check names what is damaged, and nothing else.
    change(&fs, |tree| tree.write(kept, 0, b"written")).unwrap();
    let check = fs.snapshot().unwrap().check().unwrap();
    assert!(!check.findings.is_empty());
    assert!(check.findings.iter().all(|finding| finding.inode == damaged), "{check:?}");
    Fs::open(fs.store()).unwrap();
}

#[test]
fn a_rollback_to_what_has_a_damaged_file_without_a_name_is_done() {
    let fs = made();
    let [damaged] = orphans(&fs);
    damage(&fs, damaged);
    let fs = Fs::open(fs.store()).unwrap();
    fs.store().save_snapshot("before").unwrap();
    make(&fs, ROOT, b"later", FileKind::Regular);
    fs.rollback_to("before").unwrap();
    let found = fs.snapshot().unwrap().lookup(ROOT, b"later");
    assert!(matches!(found, Err(Error::NoSuchName { .. })), "{found:?}");
}

#[test]
fn what_is_different_below_a_directory_that_is_not_listed_is_damage() {
    for depth in [1, 2, 3] {
        let fs = made();
        let (mut folder, mut first) = (ROOT, ROOT);
        for level in 0..depth {
            folder = make(&fs, folder, b"d", FileKind::Directory);
            if level == 0 {
                first = folder;
            }
        }
        let mut cookie = None;
        let mut visit = |entry: Entry| {
            cookie = Some(entry.cookie);
            true
        };
        fs.snapshot().unwrap().list(ROOT, 0, &mut visit).unwrap();
        let before = fs.store().snapshot().unwrap();
        make(&fs, folder, b"file", FileKind::Regular);
        let tree = fs.store().keyspace("fs.tree").unwrap();
        let key = [&b"c"[..], &ROOT.to_be_bytes(), &cookie.unwrap().to_be_bytes()].concat();
        fs.store().remove(tree, &key, Durability::Buffered).unwrap();
        let after = fs.store().snapshot().unwrap();
        let found = fs.differences(&before, &after);
        let is_damage = matches!(&found, Err(Error::Damaged { inode, .. }) if *inode == first);
        assert!(is_damage, "{depth}: {found:?}");
    }
}
