//! What each call does, and what it refuses.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use tembo_fs::{
    Allocate, AnyTreeMut, Condition, Difference, DifferenceKind, Error, FileKind, Format, Fs,
    Inode, New, ROOT, Rename, Set, Time,
};
use tembo_kv::{DomainRequest, Durability, Error as StoreError, IndexKind, Options, Store};

#[path = "driver/content.rs"]
mod content;

use content::bytes;

const NOW: Time = Time { seconds: 1_700_000_000, nanoseconds: 5 };
const LATER: Time = Time { seconds: 1_700_000_001, nanoseconds: 6 };
const PIECE: u64 = 512;

fn new(kind: FileKind) -> New {
    New { kind, permissions: 0o644, user: 7, group: 8, device: 0, umask: None }
}

fn made() -> Fs {
    made_over(IndexKind::default())
}

fn made_over(index: IndexKind) -> Fs {
    made_with(&Options::new().index(index))
}

fn made_with(options: &Options) -> Fs {
    let store = Store::volatile(options).unwrap();
    Fs::format(&store, &Format { piece_size: PIECE as usize, ..Format::default() }, NOW).unwrap()
}

fn change<T>(
    fs: &Fs,
    work: impl FnOnce(&mut AnyTreeMut<'_, '_>) -> Result<T, Error>,
) -> Result<T, Error> {
    fs.write(LATER, Durability::Buffered, work)
}

fn file(fs: &Fs, parent: u64, name: &str) -> Inode {
    change(fs, |t| t.create(parent, name.as_bytes(), &new(FileKind::Regular))).unwrap()
}

fn folder(fs: &Fs, parent: u64, name: &str) -> Inode {
    change(fs, |t| t.create(parent, name.as_bytes(), &new(FileKind::Directory))).unwrap()
}

fn listed(fs: &Fs, directory: u64) -> Vec<String> {
    let mut names = Vec::new();
    let visit = &mut |entry: tembo_fs::Entry| {
        names.push(String::from_utf8(entry.name).unwrap());
        true
    };
    fs.snapshot().unwrap().list(directory, 0, visit).unwrap();
    names
}

fn is_sound(fs: &Fs) {
    let check = fs.snapshot().unwrap().check().unwrap();
    assert_eq!(check.findings, []);
}

#[test]
fn a_file_has_what_was_written_to_it_and_zeroes_between() {
    for index in IndexKind::ORDERED {
        let fs = made_over(index);
        let inode = file(&fs, ROOT, "a");
        assert_eq!((inode.mode(), inode.user, inode.group), (0o100_644, 7, 8));
        change(&fs, |t| t.write(inode.number, 3 * PIECE + 100, b"end")).unwrap();
        change(&fs, |t| t.write(inode.number, 10, b"begin")).unwrap();
        let mut expected = vec![0; 3 * PIECE as usize + 103];
        expected[10..15].copy_from_slice(b"begin");
        expected[3 * PIECE as usize + 100..].copy_from_slice(b"end");
        assert_eq!(bytes(&fs, inode.number), expected);
        let mut tree = fs.snapshot().unwrap();
        assert_eq!(tree.inode(inode.number).unwrap().pieces, 2);
        assert_eq!(tree.seek_data(inode.number, 20).unwrap(), 20);
        assert_eq!(tree.seek_hole(inode.number, 20).unwrap(), PIECE);
        assert_eq!(tree.seek_data(inode.number, PIECE).unwrap(), 3 * PIECE);
        let size = 3 * PIECE + 103;
        assert_eq!(tree.seek_hole(inode.number, 3 * PIECE + 1).unwrap(), size);
        let behind = tree.seek_data(inode.number, size);
        assert!(matches!(behind, Err(Error::NothingThere { .. })), "{behind:?}");
        is_sound(&fs);
    }
}

#[test]
fn what_is_cut_off_is_zero_when_the_file_grows_again() {
    let fs = made();
    let number = file(&fs, ROOT, "a").number;
    change(&fs, |t| t.write(number, 0, &[7; 2000])).unwrap();
    let resize = |size| change(&fs, |t| t.set(number, &Set { size: Some(size), ..Set::default() }));
    assert_eq!(resize(700).unwrap().pieces, 2);
    resize(1500).unwrap();
    let mut expected = vec![0; 1500];
    expected[..700].fill(7);
    assert_eq!(bytes(&fs, number), expected);
    let too_big = resize(u64::MAX);
    assert!(matches!(too_big, Err(Error::FileTooBig { .. })), "{too_big:?}");
    resize(tembo_fs::FILE_SIZE_MAX).unwrap();
    is_sound(&fs);
    resize(0).unwrap();
    is_sound(&fs);
}

#[test]
fn a_large_file_is_cut_and_removed_as_a_range() {
    let fs = made();
    let number = file(&fs, ROOT, "a").number;
    change(&fs, |t| t.write(number, 0, &vec![7; 3000 * PIECE as usize])).unwrap();
    let cut = Set { size: Some(PIECE + 1), ..Set::default() };
    assert_eq!(change(&fs, |t| t.set(number, &cut)).unwrap().pieces, 2);
    assert_eq!(bytes(&fs, number), vec![7; PIECE as usize + 1]);
    change(&fs, |t| t.write(number, 0, &vec![8; 3000 * PIECE as usize])).unwrap();
    is_sound(&fs);
    change(&fs, |t| t.unlink(ROOT, b"a")).unwrap();
    is_sound(&fs);
    assert_eq!(fs.snapshot().unwrap().check().unwrap().pieces, 0);
}

#[test]
fn names_are_made_found_listed_and_removed() {
    let fs = made();
    let sub = folder(&fs, ROOT, "sub");
    let a = file(&fs, sub.number, "a");
    assert_eq!(listed(&fs, ROOT), ["sub"]);
    let mut tree = fs.snapshot().unwrap();
    assert_eq!(tree.resolve(b"/sub/a").unwrap().number, a.number);
    assert_eq!(tree.lookup(sub.number, b"..").unwrap().number, ROOT);
    assert_eq!(tree.inode(ROOT).unwrap().links, 3);
    let again = change(&fs, |t| t.create(sub.number, b"a", &new(FileKind::Regular)));
    assert!(matches!(again, Err(Error::NameExists { .. })), "{again:?}");
    for bad in [&b""[..], b".", b"..", b"a/b", b"a\0"] {
        let made = change(&fs, |t| t.create(ROOT, bad, &new(FileKind::Regular)));
        assert!(matches!(made, Err(Error::InvalidName { .. })), "{made:?}");
    }
    let long = change(&fs, |t| t.create(ROOT, &[b'x'; 256], &new(FileKind::Regular)));
    assert!(matches!(long, Err(Error::NameTooLong { len: 256, max: 255 })), "{long:?}");
    let full = change(&fs, |t| t.remove_directory(ROOT, b"sub"));
    assert!(matches!(full, Err(Error::NotEmpty { .. })), "{full:?}");
    let wrong = change(&fs, |t| t.unlink(ROOT, b"sub"));
    assert!(matches!(wrong, Err(Error::IsADirectory { .. })), "{wrong:?}");
    let wrong = change(&fs, |t| t.remove_directory(sub.number, b"a"));
    assert!(matches!(wrong, Err(Error::NotADirectory { .. })), "{wrong:?}");
    change(&fs, |t| t.unlink(sub.number, b"a")).unwrap();
    change(&fs, |t| t.remove_directory(ROOT, b"sub")).unwrap();
    assert_eq!(listed(&fs, ROOT), [""; 0]);
    is_sound(&fs);
}

#[test]
fn a_listing_goes_on_behind_a_cookie_whatever_is_removed() {
    let fs = made();
    for i in 0..50 {
        file(&fs, ROOT, &format!("{i:02}"));
    }
    let (mut seen, mut after) = (Vec::new(), 0);
    loop {
        let mut batch = Vec::new();
        let visit = &mut |entry: tembo_fs::Entry| {
            batch.push(entry);
            batch.len() < 7
        };
        fs.snapshot().unwrap().list(ROOT, after, visit).unwrap();
        let Some(last) = batch.last() else { break };
        after = last.cookie;
        for entry in batch {
            change(&fs, |t| t.unlink(ROOT, &entry.name)).unwrap();
            seen.push(String::from_utf8(entry.name).unwrap());
        }
    }
    assert_eq!(seen, (0..50).map(|i| format!("{i:02}")).collect::<Vec<_>>());
    is_sound(&fs);
}

/// Of many sizes, at the begin, in the middle and behind the end of pieces, over pieces that are there and over holes; the
/// same in memory and on a disk, where whole pieces are written together.
#[test]
fn a_write_of_many_pieces_is_that_of_its_bytes_whatever_was_there() {
    const SIZE: usize = 4096;
    let folder = std::env::temp_dir().join(format!("tembo-fs-pieces-{}", std::process::id()));
    // An earlier run with the same process number may have left the folder.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let options = Options::new().domain(DomainRequest::Logged).background(false);
    let on_disk = Store::create(&folder.join("files.pool"), &options).unwrap();
    for store in [Store::volatile(&Options::new()).unwrap(), on_disk] {
        let fs = Fs::format(&store, &Format::default(), NOW).unwrap();
        let number = file(&fs, ROOT, "a").number;
        let mut expected = Vec::new();
        for (nth, (offset, len)) in [
            (3 * SIZE, 40 * SIZE),
            (3 * SIZE, 64 * SIZE),
            (100 * SIZE + 5, 33 * SIZE),
            (60 * SIZE, 50 * SIZE + 1),
            (SIZE - 1, SIZE + 2),
            (0, 300 * SIZE),
            (280 * SIZE + 7, 600 * SIZE),
            (2000 * SIZE, 2 * SIZE),
            (1990 * SIZE, 11 * SIZE),
        ]
        .into_iter()
        .enumerate()
        {
            let part: Vec<u8> = (0..len).map(|at| (at / 7 + nth * 31 + 1) as u8).collect();
            change(&fs, |t| t.write(number, offset as u64, &part)).unwrap();
            expected.resize(expected.len().max(offset + len), 0);
            expected[offset..offset + len].copy_from_slice(&part);
            assert!(bytes(&fs, number) == expected, "{nth}");
            // Also that the inode counts its pieces.
            is_sound(&fs);
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// The names of two parts of a listing of the root, of which the first has three entries; `between` runs between them.
fn listed_in_parts(fs: &Fs, between: impl FnOnce()) -> Vec<String> {
    let mut names = Vec::new();
    let mut part = |after: u64, most: usize| {
        let mut last = after;
        let visit = &mut |entry: tembo_fs::Entry| {
            last = entry.cookie;
            names.push(String::from_utf8(entry.name).unwrap());
            names.len() < most
        };
        fs.snapshot().unwrap().list(ROOT, after, visit).unwrap();
        last
    };
    let after = part(0, 3);
    between();
    part(after, usize::MAX);
    names
}

#[test]
fn what_is_renamed_within_a_directory_while_that_is_listed_is_listed_once() {
    for (from, to, expected) in [
        ("a", "x", ["a", "b", "c", "d", "e"]),
        ("e", "x", ["a", "b", "c", "d", "x"]),
        // A name that is there before and after is listed once, too.
        ("a", "e", ["a", "b", "c", "d", "e"]),
        ("d", "e", ["a", "b", "c", "e", ""]),
        ("d", "b", ["a", "b", "c", "e", ""]),
    ] {
        let fs = made();
        let numbers = ["a", "b", "c", "d", "e"].map(|name| file(&fs, ROOT, name).number);
        let source = numbers[usize::from(from.as_bytes()[0] - b'a')];
        let before = fs.snapshot().unwrap().inode(ROOT).unwrap();
        let rename = |t: &mut AnyTreeMut<'_, '_>| {
            t.rename((ROOT, from.as_bytes()), (ROOT, to.as_bytes()), Rename::Replace)
        };
        let names = listed_in_parts(&fs, || change(&fs, rename).unwrap());
        let expected: Vec<&str> = expected.into_iter().filter(|name| !name.is_empty()).collect();
        assert_eq!(names, expected, "{from} {to}");
        let mut tree = fs.snapshot().unwrap();
        assert_eq!(tree.lookup(ROOT, to.as_bytes()).unwrap().number, source);
        assert!(matches!(tree.lookup(ROOT, from.as_bytes()), Err(Error::NoSuchName { .. })));
        let root = tree.inode(ROOT).unwrap();
        let replaced = u64::from(numbers.len() > listed(&fs, ROOT).len());
        assert_eq!((root.size + replaced, root.modified), (before.size, LATER));
        is_sound(&fs);
    }
}

#[test]
fn directories_that_are_renamed_are_counted() {
    let fs = made();
    let [x, y] = ["x", "y"].map(|name| folder(&fs, ROOT, name).number);
    let links = |number| fs.snapshot().unwrap().inode(number).unwrap().links;
    let rename = |from: (u64, &[u8]), to: (u64, &[u8])| {
        change(&fs, |t| t.rename(from, to, Rename::Replace)).unwrap();
        is_sound(&fs);
    };
    folder(&fs, x, "below");
    rename((x, b"below"), (x, b"other"));
    assert_eq!((links(ROOT), links(x), links(y)), (4, 3, 2));
    folder(&fs, y, "taken");
    rename((x, b"other"), (y, b"taken"));
    assert_eq!((links(ROOT), links(x), links(y)), (4, 2, 3));
    rename((y, b"taken"), (ROOT, b"x"));
    assert_eq!((links(ROOT), links(y)), (4, 2));
    rename((ROOT, b"y"), (ROOT, b"x"));
    assert_eq!((links(ROOT), links(y)), (3, 2));
    assert_eq!(listed(&fs, ROOT), ["x"]);
}

#[test]
fn an_unlinked_file_lives_while_it_is_open() {
    let fs = made();
    let number = file(&fs, ROOT, "a").number;
    change(&fs, |t| t.write(number, 0, b"bytes")).unwrap();
    fs.open_inode(number).unwrap();
    fs.open_inode(number).unwrap();
    change(&fs, |t| t.unlink(ROOT, b"a")).unwrap();
    assert_eq!(bytes(&fs, number), b"bytes");
    is_sound(&fs);
    fs.close_inode(number).unwrap();
    assert_eq!(bytes(&fs, number), b"bytes");
    fs.close_inode(number).unwrap();
    let closed = fs.open_inode(number);
    assert!(matches!(closed, Err(Error::NoSuchInode { .. })), "{closed:?}");
    is_sound(&fs);
}

#[test]
fn however_a_file_lost_its_last_name_it_goes_with_its_last_close() {
    type Lose<'f> = &'f dyn Fn(&Fs);
    let replaced: Lose<'_> = &|fs| {
        file(fs, ROOT, "b");
        change(fs, |t| t.rename((ROOT, b"b"), (ROOT, b"a"), Rename::Replace)).unwrap();
    };
    let in_transaction: Lose<'_> = &|fs| {
        let mut transaction = fs.transaction().unwrap();
        transaction.change(LATER, |t| t.unlink(ROOT, b"a")).unwrap();
        transaction.commit(Durability::Buffered).unwrap();
    };
    let unlinked: Lose<'_> = &|fs| change(fs, |t| t.unlink(ROOT, b"a")).unwrap();
    let rolled_back: Lose<'_> = &|fs| {
        unlinked(fs);
        fs.store().save_snapshot("without").unwrap();
        let number = fs.snapshot().unwrap().orphans().unwrap()[0];
        change(fs, |t| t.link(number, ROOT, b"again")).unwrap();
        fs.rollback_to("without").unwrap();
    };
    let refused_first: Lose<'_> = &|fs| {
        let refused = change(fs, |t| {
            t.unlink(ROOT, b"a")?;
            t.unlink(ROOT, b"none")
        });
        assert!(matches!(refused, Err(Error::NoSuchName { .. })), "{refused:?}");
        unlinked(fs);
    };
    for (nth, lose) in
        [replaced, in_transaction, unlinked, rolled_back, refused_first].iter().enumerate()
    {
        let fs = made();
        let number = file(&fs, ROOT, "a").number;
        fs.open_inode(number).unwrap();
        lose(&fs);
        assert_eq!(fs.snapshot().unwrap().orphans().unwrap(), [number], "{nth}");
        // Opened once more without a name, and closed first.
        fs.open_inode(number).unwrap();
        fs.close_inode(number).unwrap();
        assert!(fs.snapshot().unwrap().inode(number).is_ok(), "{nth}");
        fs.close_inode(number).unwrap();
        let gone = fs.snapshot().unwrap().inode(number);
        assert!(matches!(gone, Err(Error::NoSuchInode { .. })), "{nth}: {gone:?}");
        is_sound(&fs);
    }
}

#[test]
fn a_file_that_was_made_without_a_name_goes_with_its_last_close() {
    let fs = made();
    let made = change(&fs, |t| t.create_unnamed(ROOT, &new(FileKind::Regular))).unwrap();
    fs.open_inode(made.number).unwrap();
    fs.close_inode(made.number).unwrap();
    assert_eq!(fs.snapshot().unwrap().orphans().unwrap(), [0; 0]);
    is_sound(&fs);
}

#[test]
fn what_was_open_without_a_name_is_removed_at_the_next_open() {
    let fs = made();
    let number = file(&fs, ROOT, "a").number;
    fs.open_inode(number).unwrap();
    change(&fs, |t| t.unlink(ROOT, b"a")).unwrap();
    let unnamed = change(&fs, |t| t.create_unnamed(ROOT, &new(FileKind::Regular))).unwrap();
    let kept = change(&fs, |t| t.create_unnamed(ROOT, &new(FileKind::Regular))).unwrap();
    assert_eq!(change(&fs, |t| t.link(kept.number, ROOT, b"kept")).unwrap().links, 1);
    is_sound(&fs);
    let fs = Fs::open(fs.store()).unwrap();
    for number in [number, unnamed.number] {
        let found = fs.snapshot().unwrap().inode(number);
        assert!(matches!(found, Err(Error::NoSuchInode { .. })), "{found:?}");
    }
    assert_eq!(listed(&fs, ROOT), ["kept"]);
    assert!(file(&fs, ROOT, "next").number > kept.number);
    is_sound(&fs);
}

#[test]
fn a_rename_replaces_exchanges_or_refuses() {
    let fs = made();
    let (x, y) = (folder(&fs, ROOT, "x"), folder(&fs, ROOT, "y"));
    let (a, b) = (file(&fs, x.number, "a"), file(&fs, y.number, "b"));
    let rename =
        |from: (u64, &[u8]), to: (u64, &[u8]), how| change(&fs, |t| t.rename(from, to, how));
    let taken = rename((x.number, b"a"), (y.number, b"b"), Rename::NoReplace);
    assert!(matches!(taken, Err(Error::NameExists { .. })), "{taken:?}");
    rename((x.number, b"a"), (y.number, b"b"), Rename::Exchange).unwrap();
    is_sound(&fs);
    assert_eq!(fs.snapshot().unwrap().lookup(x.number, b"a").unwrap().number, b.number);
    rename((x.number, b"a"), (y.number, b"b"), Rename::Replace).unwrap();
    is_sound(&fs);
    let removed = fs.snapshot().unwrap().inode(a.number);
    assert!(matches!(removed, Err(Error::NoSuchInode { .. })), "{removed:?}");
    // Of directories.
    rename((ROOT, b"x"), (y.number, b"x"), Rename::Replace).unwrap();
    is_sound(&fs);
    let below = rename((ROOT, b"y"), (x.number, b"y"), Rename::Replace);
    assert!(matches!(below, Err(Error::Invalid { .. })), "{below:?}");
    let below = rename((ROOT, b"y"), (y.number, b"x"), Rename::Exchange);
    assert!(matches!(below, Err(Error::Invalid { .. })), "{below:?}");
    let over = rename((y.number, b"x"), (y.number, b"b"), Rename::Replace);
    assert!(matches!(over, Err(Error::NotADirectory { .. })), "{over:?}");
    let over = rename((y.number, b"b"), (y.number, b"x"), Rename::Replace);
    assert!(matches!(over, Err(Error::IsADirectory { .. })), "{over:?}");
    rename((y.number, b"x"), (y.number, b"b"), Rename::Exchange).unwrap();
    is_sound(&fs);
    change(&fs, |t| t.link(b.number, ROOT, b"second")).unwrap();
    rename((y.number, b"x"), (ROOT, b"second"), Rename::Replace).unwrap();
    assert_eq!(listed(&fs, y.number).len(), 2, "two names of one file stay");
    is_sound(&fs);
}

#[test]
fn ranges_are_punched_collapsed_inserted_and_copied() {
    let fs = made();
    let number = file(&fs, ROOT, "a").number;
    let mut expected: Vec<u8> = (0..5 * PIECE).map(|i| (i / 7) as u8 | 1).collect();
    change(&fs, |t| t.write(number, 0, &expected)).unwrap();
    let allocate = |offset, len, how| change(&fs, |t| t.allocate(number, offset, len, how));
    assert_eq!(allocate(100, 2 * PIECE, Allocate::Punch).unwrap().pieces, 4);
    expected[100..100 + 2 * PIECE as usize].fill(0);
    assert_eq!(bytes(&fs, number), expected);
    allocate(PIECE, PIECE, Allocate::Collapse).unwrap();
    expected.drain(PIECE as usize..2 * PIECE as usize);
    assert_eq!(bytes(&fs, number), expected);
    is_sound(&fs);
    allocate(2 * PIECE, 3 * PIECE, Allocate::Insert).unwrap();
    expected.splice(2 * PIECE as usize..2 * PIECE as usize, vec![0; 3 * PIECE as usize]);
    assert_eq!(bytes(&fs, number), expected);
    is_sound(&fs);
    allocate(6 * PIECE, 3 * PIECE, Allocate::Zero).unwrap();
    expected[6 * PIECE as usize..].fill(0);
    expected.resize(9 * PIECE as usize, 0);
    assert_eq!(bytes(&fs, number), expected);
    let odd = allocate(1, PIECE, Allocate::Collapse);
    assert!(matches!(odd, Err(Error::Invalid { .. })), "{odd:?}");
    let copy = file(&fs, ROOT, "copy").number;
    change(&fs, |t| t.write(copy, 0, &[9; 1000])).unwrap();
    let copied = change(&fs, |t| t.copy_range((number, 10), (copy, 33), 1 << 40)).unwrap();
    assert_eq!(copied, expected.len() as u64 - 10);
    let mut whole = vec![9; 33];
    whole.extend_from_slice(&expected[10..]);
    assert_eq!(bytes(&fs, copy), whole);
    is_sound(&fs);
    let over = change(&fs, |t| t.copy_range((number, 10), (number, 20), 100));
    assert!(matches!(over, Err(Error::Invalid { .. })), "{over:?}");
    change(&fs, |t| t.copy_range((number, 0), (number, 9 * PIECE), 9 * PIECE)).unwrap();
    assert_eq!(bytes(&fs, number), [&expected[..], &expected[..]].concat());
    is_sound(&fs);
}

#[test]
fn attributes_and_links_and_special_files() {
    let fs = made();
    let number = file(&fs, ROOT, "a").number;
    let set = |name: &[u8], value: &[u8], condition| {
        change(&fs, |t| t.set_attribute(number, name, value, condition))
    };
    let missing = set(b"user.x", b"1", Condition::Replace);
    assert!(matches!(missing, Err(Error::NoSuchAttribute { .. })), "{missing:?}");
    set(b"user.x", b"1", Condition::Create).unwrap();
    set(b"user.x", b"2", Condition::Any).unwrap();
    set(b"user.y", b"", Condition::Any).unwrap();
    let twice = set(b"user.x", b"3", Condition::Create);
    assert!(matches!(twice, Err(Error::AttributeExists { .. })), "{twice:?}");
    let mut tree = fs.snapshot().unwrap();
    assert_eq!(tree.attribute(number, b"user.x").unwrap(), b"2");
    assert_eq!(tree.attributes(number).unwrap(), [b"user.x".to_vec(), b"user.y".to_vec()]);
    change(&fs, |t| t.remove_attribute(number, b"user.x")).unwrap();
    is_sound(&fs);
    let link =
        change(&fs, |t| t.symlink(ROOT, b"l", b"to/there", &new(FileKind::Symlink))).unwrap();
    assert_eq!(fs.snapshot().unwrap().target(link.number).unwrap(), b"to/there");
    let device = New { device: 0x103, ..new(FileKind::BlockDevice) };
    let made = change(&fs, |t| t.create(ROOT, b"device", &device)).unwrap();
    assert_eq!((made.mode() & 0o170_000, made.device), (0o060_000, 0x103));
    change(&fs, |t| t.link(number, ROOT, b"b")).unwrap();
    let refused = change(&fs, |t| t.link(ROOT, ROOT, b"c"));
    assert!(matches!(refused, Err(Error::NotPermitted { .. })), "{refused:?}");
    is_sound(&fs);
    for name in ["a", "b", "l", "device"] {
        change(&fs, |t| t.unlink(ROOT, name.as_bytes())).unwrap();
    }
    let check = fs.snapshot().unwrap().check().unwrap();
    assert_eq!((check.inodes, check.entries, check.pieces), (1, 0, 0));
    is_sound(&fs);
}

#[test]
fn several_calls_are_one_commit_and_an_error_undoes_all() {
    let fs = made();
    let before = fs.store().visible();
    let failed = change(&fs, |t| {
        let inode = t.create(ROOT, b"a", &new(FileKind::Regular))?;
        t.write(inode.number, 0, b"bytes")?;
        t.create(ROOT, b"a", &new(FileKind::Regular))
    });
    assert!(matches!(failed, Err(Error::NameExists { .. })), "{failed:?}");
    assert_eq!(listed(&fs, ROOT), [""; 0]);
    assert_eq!(fs.store().visible(), before);
    is_sound(&fs);
}

#[test]
fn a_transaction_is_seen_when_it_commits_and_the_first_of_two_wins() {
    let fs = made();
    let number = file(&fs, ROOT, "a").number;
    let (mut first, mut second) = (fs.transaction().unwrap(), fs.transaction().unwrap());
    for (tx, text) in [(&mut first, b"first!"), (&mut second, b"second")] {
        tx.change(LATER, |t| t.write(number, 0, text)).unwrap();
        tx.change(LATER, |t| t.create(ROOT, text, &new(FileKind::Regular))).unwrap();
        let mut seen = [0; 6];
        assert_eq!(tx.read(|t| t.read(number, 0, &mut seen)).unwrap(), 6);
        assert_eq!(&seen, text);
    }
    assert_eq!(bytes(&fs, number), b"");
    first.commit(Durability::Strict).unwrap();
    assert_eq!(bytes(&fs, number), b"first!");
    let lost = second.commit(Durability::Strict);
    assert!(matches!(lost, Err(Error::Store(StoreError::Conflict { .. }))), "{lost:?}");
    assert_eq!(listed(&fs, ROOT), ["a", "first!"]);
    is_sound(&fs);
}

#[test]
fn a_file_is_the_old_one_until_what_writes_it_anew_commits() {
    let fs = made();
    let a = file(&fs, ROOT, "a").number;
    change(&fs, |t| t.write(a, 0, &[1; 2 * PIECE as usize])).unwrap();
    let begin = || {
        let mut transaction = fs.transaction().unwrap();
        let cut = Set { size: Some(0), ..Set::default() };
        transaction.change(LATER, |t| t.set(a, &cut)).unwrap();
        transaction.change(LATER, |t| t.write(a, 0, b"new")).unwrap();
        transaction
    };
    drop(begin());
    let mut transaction = begin();
    assert_eq!(bytes(&fs, a), [1; 2 * PIECE as usize]);
    let mut own = [0; 16];
    assert_eq!(transaction.read(|t| t.read(a, 0, &mut own)).unwrap(), 3);
    let (committed, touched) = transaction.commit_touched(LATER, Durability::Strict);
    committed.unwrap();
    assert_eq!((touched.inodes.into_iter().collect::<Vec<_>>(), touched.names.len()), (vec![a], 0));
    assert_eq!(bytes(&fs, a), b"new");
    // What goes on behind the commit is another transaction, and a change beside it one more.
    let mut next = fs.transaction().unwrap();
    next.change(LATER, |t| t.write(a, 3, b"er")).unwrap();
    change(&fs, |t| t.set(a, &Set { permissions: Some(0o600), ..Set::default() })).unwrap();
    let lost = next.change(LATER, |t| t.write(a, 5, b"!")).unwrap_err();
    assert!(matches!(lost, Error::Store(StoreError::Conflict { .. })), "{lost}");
    assert!(matches!(next.commit(Durability::Strict), Err(Error::Broken)));
    assert_eq!(bytes(&fs, a), b"new");
    is_sound(&fs);
}

#[test]
fn a_conflict_with_what_is_committed_appears_at_the_write() {
    let fs = made();
    let (a, b) = (file(&fs, ROOT, "a").number, file(&fs, ROOT, "b").number);
    let mut tx = fs.transaction().unwrap();
    tx.change(NOW, |t| t.write(b, 0, b"mine")).unwrap();
    change(&fs, |t| t.write(a, 0, b"other")).unwrap();
    let mut seen = [0; 5];
    assert_eq!(tx.read(|t| t.read(a, 0, &mut seen)).unwrap(), 0);
    let lost = tx.change(NOW, |t| t.write(a, 0, b"mine"));
    assert!(matches!(lost, Err(Error::Store(StoreError::Conflict { .. }))), "{lost:?}");
    let later = tx.change(NOW, |t| t.write(b, 0, b"mine"));
    assert!(matches!(later, Err(Error::Broken)), "{later:?}");
    assert!(matches!(tx.commit(Durability::Strict), Err(Error::Broken)));
    assert_eq!((bytes(&fs, a), bytes(&fs, b)), (b"other".to_vec(), Vec::new()));
    // A file that another has removed is a conflict too.
    let mut tx = fs.transaction().unwrap();
    change(&fs, |t| t.unlink(ROOT, b"a")).unwrap();
    let lost = tx.change(NOW, |t| t.write(a, 0, b"mine"));
    assert!(matches!(lost, Err(Error::Store(StoreError::Conflict { .. }))), "{lost:?}");
    drop(tx);
    is_sound(&fs);
}

#[test]
fn a_commit_says_what_of_the_old_it_has_changed() {
    let fs = made();
    let (a, b) = (file(&fs, ROOT, "a").number, file(&fs, ROOT, "b").number);
    let mut tx = fs.transaction().unwrap();
    tx.change(NOW, |t| {
        let new = t.create(ROOT, b"new", &new(FileKind::Regular))?;
        t.write(new.number, 0, b"x")?;
        // What a directory has that was made is all new.
        let folder = t.create(ROOT, b"folder", &self::new(FileKind::Directory))?.number;
        t.create(folder, b"in it", &self::new(FileKind::Regular))?;
        t.rename((ROOT, b"a"), (ROOT, b"b"), Rename::Replace)
    })
    .unwrap();
    let (committed, touched) = tx.commit_touched(LATER, Durability::Strict);
    committed.unwrap();
    assert_eq!(touched.inodes, [ROOT, a, b].into());
    let names = [b"a".to_vec(), b"b".to_vec(), b"folder".to_vec(), b"new".to_vec()];
    assert_eq!(touched.names, names.map(|name| (ROOT, name)).into());
}

#[test]
fn a_limit_holds_at_each_write_of_a_transaction() {
    // What the background uses of the pool counts too.
    let fs = made_with(&Options::new().background(false));
    let number = file(&fs, ROOT, "a").number;
    fs.set_limit(fs.usage().used + 20 * PIECE);
    let mut tx = fs.transaction().unwrap();
    let write = |tx: &mut tembo_fs::FsTransaction, piece: u64| {
        tx.change(NOW, |t| t.write(number, piece * PIECE, &[1; PIECE as usize]))
    };
    for piece in 0..20 {
        write(&mut tx, piece).unwrap();
    }
    let refused = write(&mut tx, 20);
    assert!(matches!(refused, Err(Error::OverLimit { .. })), "{refused:?}");
    // What replaces pieces is not refused, and nothing is lost.
    write(&mut tx, 0).unwrap();
    tx.commit(Durability::Strict).unwrap();
    assert_eq!(bytes(&fs, number).len() as u64, 20 * PIECE);
}

#[test]
fn each_inode_is_found_by_its_number_and_a_directory_has_one_above_it() {
    let fs = made();
    let d = folder(&fs, ROOT, "d").number;
    let (inner, a) = (folder(&fs, d, "inner").number, file(&fs, d, "a").number);
    let mut tree = fs.snapshot().unwrap();
    let mut found = |number: u64, name: &[u8]| tree.lookup(number, name).map(|found| found.number);
    for number in [ROOT, d, inner, a] {
        assert_eq!(found(number, b".").unwrap(), number);
    }
    assert_eq!((found(inner, b"..").unwrap(), found(ROOT, b"..").unwrap()), (d, ROOT));
    assert!(matches!(found(a, b".."), Err(Error::NotADirectory { .. })));
    assert!(matches!(found(a + 100, b"."), Err(Error::NoSuchInode { .. })));
}

#[test]
fn what_the_limit_does_not_leave_is_not_allocated() {
    let fs = made_with(&Options::new().background(false));
    let number = file(&fs, ROOT, "a").number;
    fs.set_limit(fs.usage().used + 20 * PIECE);
    for how in [Allocate::Extend, Allocate::ExtendWithin] {
        let allocate = |pieces: u64| {
            fs.write(NOW, Durability::Buffered, |t| t.allocate(number, PIECE, pieces * PIECE, how))
        };
        let refused = allocate(30);
        assert!(matches!(refused, Err(Error::OverLimit { .. })), "{refused:?}");
        let size = fs.snapshot().unwrap().inode(number).unwrap().size;
        assert_eq!(size, if how == Allocate::Extend { 0 } else { 11 * PIECE });
        let given = allocate(10).unwrap();
        assert_eq!((given.size, given.pieces), (11 * PIECE, 0));
    }
    is_sound(&fs);
}

#[test]
fn two_transactions_do_not_move_directories_below_each_other() {
    let fs = made();
    let (x, y) = (folder(&fs, ROOT, "x"), folder(&fs, ROOT, "y"));
    let (inner_x, inner_y) = (folder(&fs, x.number, "inner"), folder(&fs, y.number, "inner"));
    let mut first = fs.transaction().unwrap();
    let mut second = fs.transaction().unwrap();
    let to_y = (inner_y.number, &b"x"[..]);
    let to_x = (inner_x.number, &b"y"[..]);
    first.change(NOW, |t| t.rename((ROOT, b"x"), to_y, Rename::Replace)).unwrap();
    second.change(NOW, |t| t.rename((ROOT, b"y"), to_x, Rename::Replace)).unwrap();
    first.commit(Durability::Strict).unwrap();
    assert!(second.commit(Durability::Strict).is_err());
    is_sound(&fs);
}

#[test]
fn a_transaction_that_is_larger_than_memory_commits_as_a_whole() {
    let options = Options::new().transaction_memory(20_000);
    let fs = Fs::format(&Store::volatile(&options).unwrap(), &Format::default(), NOW).unwrap();
    let old = file(&fs, ROOT, "old").number;
    change(&fs, |t| t.write(old, 0, &vec![1; 5 << 20])).unwrap();
    let mut tx = fs.transaction().unwrap();
    for i in 0..100 {
        let name = format!("file {i}");
        tx.change(NOW, |t| {
            let inode = t.create(ROOT, name.as_bytes(), &new(FileKind::Regular))?;
            t.write(inode.number, 0, &vec![i; 3000])
        })
        .unwrap();
    }
    tx.change(NOW, |t| t.unlink(ROOT, b"old")).unwrap();
    assert_eq!(listed(&fs, ROOT), ["old"]);
    tx.commit(Durability::Strict).unwrap();
    assert_eq!(listed(&fs, ROOT).len(), 100);
    is_sound(&fs);
    assert_eq!(fs.snapshot().unwrap().check().unwrap().orphans, 0);
}

#[test]
fn snapshots_are_read_compared_and_gone_back_to() {
    let fs = made();
    let sub = folder(&fs, ROOT, "sub").number;
    let (kept, edited) = (file(&fs, sub, "kept").number, file(&fs, sub, "edited").number);
    file(&fs, sub, "removed");
    file(&fs, ROOT, "moved");
    fs.store().save_snapshot("before").unwrap();
    change(&fs, |t| t.write(edited, 0, b"x")).unwrap();
    change(&fs, |t| t.unlink(sub, b"removed")).unwrap();
    change(&fs, |t| t.rename((ROOT, b"moved"), (sub, b"moved"), Rename::Replace)).unwrap();
    let (before, now) =
        (fs.store().snapshot_named("before").unwrap(), fs.store().snapshot().unwrap());
    let found = fs.differences(&before, &now).unwrap();
    let difference = |path: &str, kind| Difference { path: path.into(), kind };
    assert_eq!(
        found,
        [
            difference("/moved", DifferenceKind::Removed),
            difference("/sub", DifferenceKind::Changed),
            difference("/sub/edited", DifferenceKind::Changed),
            difference("/sub/moved", DifferenceKind::Added),
            difference("/sub/removed", DifferenceKind::Removed),
        ]
    );
    assert_eq!(fs.tree(before).resolve(b"sub/edited").unwrap().size, 0);
    drop(now);
    fs.rollback_to("before").unwrap();
    assert_eq!(listed(&fs, sub), ["kept", "edited", "removed"]);
    assert_eq!(fs.snapshot().unwrap().inode(kept).unwrap().links, 1);
    is_sound(&fs);
}

#[test]
fn a_full_pool_refuses_the_write_and_goes_on_serving() {
    let options = Options::new().size(8 << 20).size_max(8 << 20);
    let fs = Fs::format(&Store::volatile(&options).unwrap(), &Format::default(), NOW).unwrap();
    let number = file(&fs, ROOT, "a").number;
    let (mut written, block) = (0, vec![5; 64 << 10]);
    let error = loop {
        match change(&fs, |t| t.write(number, written, &block)) {
            Ok(_) => written += block.len() as u64,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Store(StoreError::Full(_))), "{error:?}");
    assert_eq!(bytes(&fs, number).len() as u64, written);
    is_sound(&fs);
    // The last write left something, which the background gives back.
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while let Err(error) = change(&fs, |t| t.unlink(ROOT, b"a")) {
        assert!(matches!(error, Error::Store(StoreError::Full(_))), "{error:?}");
        assert!(std::time::Instant::now() < patience, "{error:?}");
        std::thread::yield_now();
    }
    is_sound(&fs);
}

#[test]
fn a_limit_is_kept_at_the_write() {
    let fs = made();
    let number = file(&fs, ROOT, "a").number;
    fs.set_limit(fs.usage().used + (1 << 20));
    let most = change(&fs, |t| t.write(number, 0, &vec![1; 2 << 20]));
    assert!(matches!(most, Err(Error::OverLimit { .. })), "{most:?}");
    assert_eq!(bytes(&fs, number), b"");
    change(&fs, |t| t.write(number, 0, &vec![1; 1 << 19])).unwrap();
    is_sound(&fs);
}

#[test]
fn a_file_system_is_made_once_and_says_what_it_is_not() {
    let store = Store::volatile(&Options::new()).unwrap();
    assert!(matches!(Fs::open(&store), Err(Error::NoFileSystem)));
    let odd = Fs::format(&store, &Format { piece_size: 1000, ..Format::default() }, NOW);
    assert!(matches!(odd, Err(Error::PieceSize { size: 1000 })));
    Fs::format(&store, &Format::default(), NOW).unwrap();
    assert!(matches!(Fs::format(&store, &Format::default(), NOW), Err(Error::NameExists { .. })));
    let space = store.keyspace("fs.tree").unwrap();
    store.put(space, b"s", b"something else", Durability::Strict).unwrap();
    assert!(matches!(Fs::open(&store), Err(Error::Damaged { .. })));
}

/// A store whose keys have no order is refused before anything is made in it.
#[test]
fn a_store_without_an_order_holds_no_file_system() {
    let store = Store::volatile(&Options::new().index(IndexKind::Hash)).unwrap();
    let unordered = |made: Result<Fs, Error>| {
        assert!(matches!(made, Err(Error::Store(StoreError::Unordered))));
    };
    unordered(Fs::format(&store, &Format::default(), NOW));
    unordered(Fs::open(&store));
    unordered(Fs::open_or_format(&store, &Format::default(), NOW));
    assert!(store.keyspaces().is_empty());
}
