//! Files that are cloned, and written, cut and removed by chance, have the bytes that plain copies have.
//!
//! `TEMBO_CLONES_SEED` is where the seeds begin; a failure says its own.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use std::collections::BTreeMap;

use tembo_fs::{
    Allocate, AnyTreeMut, Error, FileKind, Format, Fs, New, ROOT, Reads, Set, Time, Tree,
};
use tembo_kv::{Durability, IndexKind, Options, Progress, Store};
use tembo_sim::Random;

const NOW: Time = Time { seconds: 1_700_000_000, nanoseconds: 5 };
const PIECE: usize = 512;
const NEW: New =
    New { kind: FileKind::Regular, permissions: 0o644, user: 7, group: 8, device: 0, umask: None };

/// Files by name.
type Model = BTreeMap<u8, Vec<u8>>;

fn find(tree: &mut AnyTreeMut<'_, '_>, name: u8) -> Result<u64, Error> {
    Ok(tree.tree().lookup(ROOT, &[name])?.number)
}

fn put(file: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    file.resize(file.len().max(end), 0);
    file[offset..end].copy_from_slice(bytes);
}

/// Does something to a file, and to the model.
fn change_one(
    tree: &mut AnyTreeMut<'_, '_>,
    file: &mut Vec<u8>,
    number: u64,
    random: &mut Random,
) -> Result<(), Error> {
    let (offset, len) = (random.below(12 * PIECE), random.below(5 * PIECE) + 1);
    let whole = |at: usize| at - at % PIECE;
    match random.below(8) {
        0..=2 => {
            let bytes: Vec<u8> =
                (0..len).map(|at| random.number() as u8 | (at % 2) as u8).collect();
            tree.write(number, offset as u64, &bytes)?;
            put(file, offset, &bytes);
        }
        3 => {
            tree.set(number, &Set { size: Some(offset as u64), ..Set::default() })?;
            file.resize(offset, 0);
        }
        4 | 5 => {
            tree.allocate(number, offset as u64, len as u64, Allocate::Punch)?;
            let end = (offset + len).min(file.len());
            file[offset.min(end)..end].fill(0);
        }
        6 if whole(offset) + PIECE < file.len() => {
            let from = whole(offset);
            tree.allocate(number, from as u64, PIECE as u64, Allocate::Collapse)?;
            file.drain(from..from + PIECE);
        }
        7 if whole(offset) < file.len() => {
            let from = whole(offset);
            tree.allocate(number, from as u64, PIECE as u64, Allocate::Insert)?;
            file.splice(from..from, [0; PIECE]);
        }
        _ => {}
    }
    Ok(())
}

/// A call by chance.
fn step(
    tree: &mut AnyTreeMut<'_, '_>,
    model: &mut Model,
    random: &mut Random,
) -> Result<(), Error> {
    let (from, to) = (b'a' + random.below(6) as u8, b'a' + random.below(6) as u8);
    match (random.below(10), model.get(&from).cloned()) {
        (_, None) => {
            tree.create(ROOT, &[from], &NEW)?;
            model.insert(from, Vec::new());
        }
        (0, Some(_)) => {
            tree.unlink(ROOT, &[from])?;
            model.remove(&from);
        }
        (1..=3, Some(bytes)) if from != to => {
            if model.remove(&to).is_some() {
                tree.unlink(ROOT, &[to])?;
            }
            let (source, made) = (find(tree, from)?, tree.create(ROOT, &[to], &NEW)?.number);
            if random.below(2) == 0 {
                tree.clone_file(source, made)?;
            } else {
                tree.copy_range((source, 0), (made, 0), u64::MAX)?;
            }
            model.insert(to, bytes);
        }
        (4, Some(bytes)) if from != to && model.contains_key(&to) => {
            let (source, target) = (find(tree, from)?, find(tree, to)?);
            let (offset, len) = (random.below(bytes.len() + 1), random.below(4 * PIECE));
            let len = len.min(bytes.len() - offset);
            let place = if random.below(2) == 0 { offset } else { random.below(10 * PIECE) };
            let places = ((source, offset as u64), (target, place as u64));
            tree.copy_range(places.0, places.1, len as u64)?;
            let part = &bytes[offset..offset + len];
            if !part.is_empty() {
                put(model.get_mut(&to).unwrap(), place, part);
            }
        }
        (5, Some(bytes)) if from != to => {
            copy_in_parts(tree, model, (from, to), bytes, random)?;
        }
        (_, Some(_)) => {
            let number = find(tree, from)?;
            change_one(tree, model.get_mut(&from).unwrap(), number, random)?;
        }
    }
    Ok(())
}

/// A copy as a kernel asks for it, in two parts; between them the source may be cut, and grow again.
fn copy_in_parts(
    tree: &mut AnyTreeMut<'_, '_>,
    model: &mut Model,
    (from, to): (u8, u8),
    mut bytes: Vec<u8>,
    random: &mut Random,
) -> Result<(), Error> {
    if model.remove(&to).is_some() {
        tree.unlink(ROOT, &[to])?;
    }
    let (source, made) = (find(tree, from)?, tree.create(ROOT, &[to], &NEW)?.number);
    let first = random.below(bytes.len() + 1);
    tree.copy_range((source, 0), (made, 0), first as u64)?;
    let mut copied = bytes[..first].to_vec();
    if random.below(2) == 0 {
        let (cut, size) = (random.below(bytes.len() + 1), random.below(12 * PIECE));
        for size in [cut, size] {
            tree.set(source, &Set { size: Some(size as u64), ..Set::default() })?;
            bytes.resize(size, 0);
        }
    }
    tree.copy_range((source, first as u64), (made, first as u64), u64::MAX)?;
    copied.extend(bytes.get(first..).unwrap_or_default());
    model.insert(from, bytes);
    model.insert(to, copied);
    Ok(())
}

fn compare<A: Reads>(tree: &mut Tree<A>, model: &Model, random: &mut Random) {
    for (&name, expected) in model {
        let inode = tree.lookup(ROOT, &[name]).unwrap();
        let mut found = vec![1; expected.len() + 9];
        assert_eq!(tree.read(inode.number, 0, &mut found).unwrap(), expected.len());
        assert!(found[..expected.len()] == expected[..], "{}", name as char);
        let (at, len) = (random.below(expected.len() + 1), random.below(2 * PIECE));
        let mut part = vec![1; len.min(expected.len() - at)];
        tree.read(inode.number, at as u64, &mut part).unwrap();
        assert!(part == expected[at..at + part.len()], "{} from {at}", name as char);
        holes_are_zero(tree, inode.number, expected);
    }
}

/// What lies between data is zero.
fn holes_are_zero<A: Reads>(tree: &mut Tree<A>, number: u64, expected: &[u8]) {
    let (mut at, size) = (0, expected.len() as u64);
    while at < size {
        let data = match tree.seek_data(number, at) {
            Err(Error::NothingThere { .. }) => size,
            found => found.unwrap(),
        };
        assert!(expected[at as usize..data as usize].iter().all(|&byte| byte == 0));
        at = if data < size { tree.seek_hole(number, data).unwrap() } else { size };
    }
}

fn made(kind: IndexKind) -> Fs {
    let store = Store::volatile(&Options::new().background(false).index(kind)).unwrap();
    let fs = Fs::format(&store, &Format { piece_size: PIECE, ..Format::default() }, NOW).unwrap();
    fs.set_copied_max(0);
    fs
}

/// One run. Some steps are one commit, or a transaction, which may be dropped.
fn files_have_what_copies_have(kind: IndexKind, seed: u64) {
    println!("seed {seed}");
    let (random, mut fs, mut model) = (&mut Random::new(seed), made(kind), Model::new());
    fs.set_singly_max(random.below(8) as u64);
    for round in 0..300 {
        let steps = 1 + random.below(4);
        let mut next = model.clone();
        let (is_transaction, is_dropped) = (random.below(4) == 0, random.below(4) == 0);
        if is_transaction {
            let mut tx = fs.transaction().unwrap();
            for _ in 0..steps {
                tx.change(NOW, |tree| step(tree, &mut next, random)).unwrap();
            }
            tx.read(|tree| {
                compare(tree, &next, random);
                Ok(())
            })
            .unwrap();
            if is_dropped {
                continue;
            }
            tx.commit(Durability::Buffered).unwrap();
        } else {
            let work = |tree: &mut AnyTreeMut<'_, '_>| {
                (0..steps).try_for_each(|_| step(tree, &mut next, random))
            };
            fs.write(NOW, Durability::Buffered, work).unwrap();
        }
        model = next;
        let mut tree = fs.snapshot().unwrap();
        assert_eq!(tree.check().unwrap().findings, [], "round {round}");
        compare(&mut tree, &model, random);
        if random.below(40) == 0 {
            fs = Fs::open(fs.store()).unwrap();
            fs.set_copied_max(0);
        }
    }
    let remove = |tree: &mut AnyTreeMut<'_, '_>| {
        model.keys().try_for_each(|&name| tree.unlink(ROOT, &[name]))
    };
    fs.write(NOW, Durability::Buffered, remove).unwrap();
    let check = fs.snapshot().unwrap().check().unwrap();
    assert_eq!((check.findings.len(), check.pieces, check.inodes), (0, 0, 1));
    while fs.store().maintain(1000).unwrap() != Progress::Idle {}
}

#[test]
fn files_that_are_cloned_by_chance_have_what_copies_have() {
    let first = std::env::var("TEMBO_CLONES_SEED").map_or(1, |seed| seed.parse().unwrap());
    for seed in first..first + 20 {
        let kind = if seed % 2 == 0 { IndexKind::Cdds } else { IndexKind::Nvtree };
        files_have_what_copies_have(kind, seed);
    }
}
