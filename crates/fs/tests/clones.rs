//! A clone shows what the file had, and both go on by themselves, in constant time and in the space of what is different.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;

use tembo_fs::{
    Allocate, AnyTreeMut, Difference, DifferenceKind, Error, FileKind, Format, Fs, New, ROOT, Set,
    Time,
};
use tembo_kv::{Durability, Options, Progress, Snapshot, Store};

#[path = "driver/content.rs"]
mod content;

use content::bytes;

const NOW: Time = Time { seconds: 1_700_000_000, nanoseconds: 5 };
const PIECE: u64 = 512;
const NEW: New =
    New { kind: FileKind::Regular, permissions: 0o644, user: 7, group: 8, device: 0, umask: None };

fn made_with(piece_size: usize) -> Fs {
    let store = Store::volatile(&Options::new().background(false).size(256 << 20)).unwrap();
    Fs::format(&store, &Format { piece_size, ..Format::default() }, NOW).unwrap()
}

/// A file system that shares whatever is cloned.
fn made() -> Fs {
    let fs = made_with(PIECE as usize);
    fs.set_copied_max(0);
    fs
}

fn change<T>(
    fs: &Fs,
    work: impl FnOnce(&mut AnyTreeMut<'_, '_>) -> Result<T, Error>,
) -> Result<T, Error> {
    fs.write(NOW, Durability::Buffered, work)
}

fn file(fs: &Fs, name: &str, bytes: &[u8]) -> u64 {
    let made = change(fs, |tree| {
        let number = tree.create(ROOT, name.as_bytes(), &NEW)?.number;
        tree.write(number, 0, bytes)?;
        Ok(number)
    });
    made.unwrap()
}

fn clone(fs: &Fs, from: u64, name: &str) -> u64 {
    let to = file(fs, name, b"");
    change(fs, |tree| tree.clone_file(from, to)).unwrap();
    to
}

fn resize(fs: &Fs, number: u64, size: u64) {
    change(fs, |tree| tree.set(number, &Set { size: Some(size), ..Set::default() })).unwrap();
}

fn pieces(fs: &Fs) -> u64 {
    let check = fs.snapshot().unwrap().check().unwrap();
    assert_eq!(check.findings, []);
    check.pieces
}

/// Bytes in use when all is erased that was removed.
fn used(fs: &Fs) -> u64 {
    while fs.store().maintain(1000).unwrap() != Progress::Idle {}
    fs.usage().used
}

/// All that a version has in a keyspace.
fn all(snapshot: &Snapshot, fs: &Fs, space: &str) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let space = fs.store().keyspace(space).unwrap();
    snapshot.range::<[u8]>(space, ..).unwrap().map(Result::unwrap).collect()
}

/// Keys that `work` has changed.
fn changed_keys(fs: &Fs, work: impl FnOnce()) -> usize {
    let before = fs.store().snapshot().unwrap();
    work();
    let after = fs.store().snapshot().unwrap();
    let count = |space| {
        let (before, after) = (all(&before, fs, space), all(&after, fs, space));
        let removed = before.keys().filter(|key| !after.contains_key(*key)).count();
        removed + after.iter().filter(|(key, value)| before.get(*key) != Some(value)).count()
    };
    count("fs.tree") + count("fs.data")
}

#[test]
fn a_clone_of_a_large_file_writes_as_many_keys_as_that_of_a_small_one() {
    let of_size = |size: usize| {
        let fs = made_with(4096);
        let from = file(&fs, "from", &vec![7; size]);
        let counts = ["first", "second"].map(|name| {
            let to = file(&fs, name, b"");
            changed_keys(&fs, || change(&fs, |tree| tree.clone_file(from, to)).unwrap())
        });
        let removed = changed_keys(&fs, || change(&fs, |t| t.unlink(ROOT, b"first")).unwrap());
        assert_eq!(pieces(&fs), size as u64 / 4096);
        (counts, removed)
    };
    // Two inodes, two layers, a user of each, the version; then an inode, and a user.
    assert_eq!(of_size(1 << 20), ([7, 2], 5));
    assert_eq!(of_size(64 << 20), ([7, 2], 5));
}

#[test]
fn what_a_file_or_its_clone_changes_the_other_does_not_show() {
    let fs = made();
    let mut expected: Vec<u8> = (0..5 * PIECE + 100).map(|at| (at / 7) as u8 | 1).collect();
    let from = file(&fs, "from", &expected);
    let to = clone(&fs, from, "to");
    assert_eq!(bytes(&fs, to), expected);
    let shown = fs.snapshot().unwrap().inode(to).unwrap();
    assert_eq!((shown.pieces, shown.pieces_shown(PIECE as usize)), (0, 6));
    change(&fs, |tree| tree.write(from, 10, b"other")).unwrap();
    assert_eq!(bytes(&fs, to), expected);
    change(&fs, |tree| tree.allocate(to, 100, 3 * PIECE, Allocate::Punch)).unwrap();
    let old = std::mem::replace(&mut expected, bytes(&fs, from));
    assert_eq!(expected[..15], [&old[..10], b"other"].concat());
    assert_eq!(expected[15..], old[15..]);
    let mut punched = old;
    punched[100..100 + 3 * PIECE as usize].fill(0);
    assert_eq!(bytes(&fs, to), punched);
    let mut tree = fs.snapshot().unwrap();
    assert_eq!(tree.seek_hole(to, 0).unwrap(), PIECE);
    assert_eq!(tree.seek_data(to, PIECE).unwrap(), 3 * PIECE);
    assert_eq!(tree.seek_hole(to, 3 * PIECE).unwrap(), 5 * PIECE + 100);
    pieces(&fs);
}

#[test]
fn what_is_cut_off_a_clone_is_zero_when_it_grows_again() {
    let fs = made();
    let from = file(&fs, "from", &[7; 2000]);
    let to = clone(&fs, from, "to");
    resize(&fs, to, 700);
    resize(&fs, to, 1500);
    let mut expected = vec![7; 1500];
    expected[700..].fill(0);
    assert_eq!(bytes(&fs, to), expected);
    // A clone of it shows no more.
    let third = clone(&fs, to, "third");
    change(&fs, |tree| tree.write(third, 750, b"x")).unwrap();
    expected[750] = b'x';
    assert_eq!(bytes(&fs, third), expected);
    assert_eq!(bytes(&fs, from), [7; 2000]);
    pieces(&fs);
}

/// Clones a file, changes a piece of the clone, and removes it.
fn cloned_and_removed(fs: &Fs, from: u64, round: u64) {
    let to = clone(fs, from, "to");
    change(fs, |tree| tree.write(to, round % 100 * PIECE, &[8; PIECE as usize])).unwrap();
    assert_eq!(pieces(fs), 101);
    change(fs, |tree| tree.unlink(ROOT, b"to")).unwrap();
    assert_eq!(pieces(fs), 100);
}

#[test]
fn space_is_given_back_with_the_last_file_that_shows_it() {
    let fs = made();
    let from = file(&fs, "from", &[7; 100 * PIECE as usize]);
    (0..50).for_each(|round| cloned_and_removed(&fs, from, round));
    let alone = used(&fs);
    (0..200).for_each(|round| cloned_and_removed(&fs, from, round));
    assert_eq!(used(&fs), alone);
    let to = clone(&fs, from, "to");
    change(&fs, |tree| tree.unlink(ROOT, b"from")).unwrap();
    assert_eq!(pieces(&fs), 100);
    // All is written anew: nothing of the old is shown.
    change(&fs, |tree| tree.write(to, 0, &[9; 100 * PIECE as usize])).unwrap();
    assert_eq!(pieces(&fs), 100);
    change(&fs, |tree| tree.unlink(ROOT, b"to")).unwrap();
    assert_eq!(pieces(&fs), 0);
    assert!(used(&fs) <= alone - 100 * PIECE);
}

#[test]
fn a_file_that_is_cloned_and_changed_in_turn_has_a_bounded_number_of_layers() {
    let fs = made();
    let mut expected = vec![7; 40 * PIECE as usize];
    let from = file(&fs, "from", &expected);
    let mut clones = Vec::new();
    for round in 0..30_u8 {
        let at = usize::from(round) * PIECE as usize + 3;
        change(&fs, |tree| tree.write(from, at as u64, &[round; 20])).unwrap();
        expected[at..at + 20].fill(round);
        clones.push((clone(&fs, from, &format!("{round}")), expected.clone()));
        pieces(&fs);
    }
    clones.push((from, expected));
    for (number, expected) in clones {
        assert_eq!(bytes(&fs, number), expected);
    }
    for name in (0..30).map(|round| format!("{round}")).chain(["from".to_owned()]) {
        change(&fs, |tree| tree.unlink(ROOT, name.as_bytes())).unwrap();
    }
    assert_eq!(pieces(&fs), 0);
}

#[test]
fn layers_are_found_again_by_the_next_process_and_their_numbers_are_not_used_again() {
    let fs = made();
    let from = file(&fs, "from", &[7; 2000]);
    let to = clone(&fs, from, "to");
    change(&fs, |tree| tree.unlink(ROOT, b"from")).unwrap();
    change(&fs, |tree| tree.write(to, 600, b"own")).unwrap();
    for round in 0..3_u8 {
        let fs = Fs::open(fs.store()).unwrap();
        fs.set_copied_max(0);
        let mut expected = vec![7; 2000];
        expected[600..603].copy_from_slice(b"own");
        let again = clone(&fs, to, &format!("{round}"));
        file(&fs, &format!("{round}-other"), &[9; 1000]);
        assert_eq!((bytes(&fs, to), bytes(&fs, again)), (expected.clone(), expected));
        pieces(&fs);
    }
}

#[test]
fn a_clone_is_refused_to_a_file_that_has_bytes_or_is_the_same() {
    let fs = made();
    let from = file(&fs, "from", &[7; 2000]);
    let full = file(&fs, "full", b"x");
    for to in [full, from] {
        let refused = change(&fs, |tree| tree.clone_file(from, to));
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    }
    let refused = change(&fs, |tree| tree.clone_file(from, ROOT));
    assert!(matches!(refused, Err(Error::IsADirectory { .. })), "{refused:?}");
}

#[test]
fn a_copy_of_a_range_shares_piece_by_piece_what_it_copies_whole() {
    let fs = made_with(PIECE as usize);
    let size = 60 * PIECE + 7;
    let expected: Vec<u8> = (0..size).map(|at| (at / 5) as u8).collect();
    let from = file(&fs, "from", &expected);
    let to = file(&fs, "to", b"");
    // As a kernel that asks for a part at a time.
    for at in (0..size).step_by(20 * PIECE as usize + 3) {
        let len = 20 * PIECE + 3;
        let copied = change(&fs, |tree| tree.copy_range((from, at), (to, at), len)).unwrap();
        assert_eq!(copied, len.min(size - at));
    }
    assert_eq!(bytes(&fs, to), expected);
    assert_eq!(pieces(&fs), 61);
    // A few pieces are copied: to share them would cost more.
    let few = file(&fs, "few", b"");
    change(&fs, |tree| tree.copy_range((from, 0), (few, 0), 16 * PIECE)).unwrap();
    assert_eq!(pieces(&fs), 61 + 16);
    assert_eq!(bytes(&fs, few), expected[..16 * PIECE as usize]);
}

/// A source of which a part that was copied is not what the copy shows any more.
fn changed_behind(change_source: impl Fn(&Fs, u64)) {
    let fs = made_with(PIECE as usize);
    let size = 60 * PIECE;
    let content: Vec<u8> = (0..size).map(|at| (at / 3) as u8 | 1).collect();
    let (from, to) = (file(&fs, "from", &content), file(&fs, "to", b""));
    let copy = |at: u64| {
        let places = ((from, at), (to, at));
        change(&fs, |tree| tree.copy_range(places.0, places.1, 20 * PIECE)).unwrap()
    };
    assert_eq!(copy(0), 20 * PIECE);
    change_source(&fs, from);
    let second = bytes(&fs, from)[20 * PIECE as usize..40 * PIECE as usize].to_vec();
    assert_eq!(copy(20 * PIECE), 20 * PIECE);
    assert!(bytes(&fs, to) == [&content[..20 * PIECE as usize], &second].concat());
    assert_eq!(fs.snapshot().unwrap().check().unwrap().findings, []);
}

#[test]
fn a_copy_behind_a_clone_leaves_what_was_cloned() {
    changed_behind(|fs, from| {
        let punch =
            |tree: &mut AnyTreeMut<'_, '_>| tree.allocate(from, PIECE, 59 * PIECE, Allocate::Punch);
        change(fs, punch).unwrap();
    });
    changed_behind(|fs, from| {
        resize(fs, from, PIECE);
        resize(fs, from, 60 * PIECE);
    });
    // What is cut behind the part that was copied is shared.
    changed_behind(|fs, from| resize(fs, from, 40 * PIECE));
}

#[test]
fn a_copy_beside_a_transaction_is_no_change_of_what_is_copied() {
    let fs = made();
    let from = file(&fs, "from", &[7; 2000]);
    let to = file(&fs, "to", b"");
    let mut tx = fs.transaction().unwrap();
    change(&fs, |tree| tree.copy_range((from, 0), (to, 0), 2000)).unwrap();
    tx.change(NOW, |tree| tree.write(from, 0, b"own")).unwrap();
    tx.commit(Durability::Buffered).unwrap();
    assert_eq!(bytes(&fs, to), [7; 2000]);
    assert_eq!(pieces(&fs), 8);
}

#[test]
fn of_transactions_that_clone_and_write_one_file_the_first_to_commit_wins() {
    for clone_first in [false, true] {
        for (again, is_conflict) in [(false, true), (true, true)] {
            let fs = made();
            let from = file(&fs, "from", &[7; 2000]);
            let to = file(&fs, "to", b"");
            if again {
                clone(&fs, from, "earlier");
            }
            let (mut one, mut other) = (fs.transaction().unwrap(), fs.transaction().unwrap());
            one.change(NOW, |tree| tree.clone_file(from, to)).unwrap();
            other.change(NOW, |tree| tree.write(from, 600, b"x")).unwrap();
            let (first, second) = if clone_first { (one, other) } else { (other, one) };
            first.commit(Durability::Buffered).unwrap();
            let lost = second.commit(Durability::Buffered).unwrap_err();
            assert_eq!(fs.conflicting_inode(&lost) == Some(from), is_conflict, "{lost:?}");
            let mut expected = vec![7; 2000];
            if !clone_first {
                expected[600] = b'x';
            }
            assert_eq!(bytes(&fs, from), expected);
            assert_eq!(bytes(&fs, to), if clone_first { vec![7; 2000] } else { Vec::new() });
            pieces(&fs);
        }
    }
}

#[test]
fn a_transaction_clones_what_another_removes_only_if_it_commits_first() {
    let fs = made();
    let from = file(&fs, "from", &[7; 2000]);
    let only = clone(&fs, from, "only");
    change(&fs, |tree| tree.unlink(ROOT, b"from")).unwrap();
    let to = file(&fs, "to", b"");
    let mut tx = fs.transaction().unwrap();
    tx.change(NOW, |tree| tree.clone_file(only, to)).unwrap();
    change(&fs, |tree| tree.unlink(ROOT, b"only")).unwrap();
    tx.commit(Durability::Buffered).unwrap_err();
    assert_eq!(pieces(&fs), 0);
}

#[test]
fn transactions_of_clones_of_one_file_do_not_conflict() {
    let fs = made();
    let from = file(&fs, "from", &[7; 2000]);
    let [a, b, c] = ["a", "b", "c"].map(|name| clone(&fs, from, name));
    let to = file(&fs, "to", b"");
    let (mut one, mut other) = (fs.transaction().unwrap(), fs.transaction().unwrap());
    one.change(NOW, |tree| tree.clone_file(a, to)).unwrap();
    other.change(NOW, |tree| tree.write(b, 0, b"other")).unwrap();
    other.change(NOW, |t| t.set(c, &Set { size: Some(0), ..Set::default() })).unwrap();
    change(&fs, |tree| tree.unlink(ROOT, b"from")).unwrap();
    one.commit(Durability::Buffered).unwrap();
    other.commit(Durability::Buffered).unwrap();
    assert_eq!(bytes(&fs, to), [7; 2000]);
    assert_eq!(pieces(&fs), 5);
    for name in ["a", "b", "c", "to"] {
        change(&fs, |tree| tree.unlink(ROOT, name.as_bytes())).unwrap();
    }
    assert_eq!(pieces(&fs), 0);
}

#[test]
fn snapshots_show_layers_as_they_were_and_a_clone_is_no_difference_of_its_source() {
    let fs = made();
    let from = file(&fs, "from", &[7; 2000]);
    fs.store().save_snapshot("before").unwrap();
    let to = clone(&fs, from, "to");
    let before = fs.store().snapshot_named("before").unwrap();
    let after = fs.store().snapshot().unwrap();
    let added = Difference { path: b"/to".to_vec(), kind: DifferenceKind::Added };
    assert_eq!(fs.differences(&before, &after).unwrap(), [added]);
    change(&fs, |tree| tree.unlink(ROOT, b"from")).unwrap();
    change(&fs, |tree| tree.unlink(ROOT, b"to")).unwrap();
    let mut read = [0; 2000];
    for (snapshot, numbers) in [(before, vec![from]), (after, vec![from, to])] {
        let mut tree = fs.tree(snapshot);
        for number in numbers {
            assert_eq!(tree.read(number, 0, &mut read).unwrap(), 2000);
            assert_eq!(read, [7; 2000]);
        }
        assert_eq!(tree.check().unwrap().findings, []);
    }
    fs.rollback_to("before").unwrap();
    assert_eq!(bytes(&fs, from), [7; 2000]);
    pieces(&fs);
}
