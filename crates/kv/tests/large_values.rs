//! Large values in pieces: as a vector of bytes would be, and a change writes what it touches.
#![allow(clippy::unwrap_used, clippy::panic)]

use tembo_kv::{
    Durability, Error, IndexKind, Isolation, Keyspace, LARGE_VALUE_SIZE_MAX, LargeValue,
    LargeValueWrite, Options, PIECE_SIZE_MAX, PIECE_SIZE_MIN, Snapshot, Store, Transaction,
};
use tembo_pmem::Counters;

#[path = "driver/directory.rs"]
mod directory;
#[path = "driver/random.rs"]
mod random;

use directory::Directory;
use random::Random;

const STRICT: Durability = Durability::Strict;

/// Names that are prefixes of each other.
const NAMES: [&[u8]; 3] = [b"", b"a", b"a\0"];

/// Longer values are cut.
const LEN_MAX: u64 = 100_000;

fn options(index: IndexKind, size: u64) -> Options {
    Options::new().index(index).background(false).size(size)
}

fn store(index: IndexKind, size: u64) -> (Store, Keyspace) {
    let store = Store::volatile(&options(index, size)).unwrap();
    let space = store.keyspace("large").unwrap();
    (store, space)
}

fn begin(store: &Store) -> Transaction {
    store.transaction(Isolation::Snapshot).unwrap()
}

fn open<'t>(
    tx: &'t mut Transaction,
    space: Keyspace,
    name: &[u8],
) -> LargeValue<&'t mut Transaction> {
    LargeValue::open(tx, space, name).unwrap().unwrap()
}

fn read_all(snapshot: &Snapshot, space: Keyspace, name: &[u8]) -> Option<Vec<u8>> {
    let mut value = LargeValue::open(snapshot, space, name).unwrap()?;
    let mut bytes = vec![1; value.len() as usize + 5];
    let len = value.read_at(0, &mut bytes).unwrap();
    assert_eq!(len as u64, value.len());
    bytes.truncate(len);
    Some(bytes)
}

fn bytes(random: &mut Random, len: u64) -> Vec<u8> {
    let first = random.next();
    (0..len).map(|n| (first.wrapping_add(n * 7)) as u8).collect()
}

/// A position in a value of that length: often where pieces meet.
fn position(random: &mut Random, len: u64) -> u64 {
    let position = match random.below(3) {
        0 => random.below(len + 1),
        1 => random.below(len / 512 + 2) * 512,
        _ => (random.below(len / 512 + 2) * 512 + random.below(9)).saturating_sub(4),
    };
    position.min(LEN_MAX)
}

type Model = [Option<Vec<u8>>; 3];

/// One random change of a value and of its model.
fn change<A: LargeValueWrite>(
    access: A,
    space: Keyspace,
    (name, model): (&[u8], &mut Option<Vec<u8>>),
    random: &mut Random,
) {
    let piece_size = [512, 4096, 8192][random.below(3) as usize];
    let Some(vector) = model else {
        assert!(LargeValue::create(access, space, name, piece_size).unwrap().is_empty());
        *model = Some(Vec::new());
        return;
    };
    let mut value = LargeValue::open(access, space, name).unwrap().unwrap();
    assert_eq!(value.len(), vector.len() as u64);
    let (offset, most) = (position(random, value.len()), [10, 5000, 20_000]);
    let most = most[random.below(3) as usize];
    let len = random.below(most);
    let (from, to) = (offset as usize, (offset + len) as usize);
    match random.below(12) {
        0..=3 => {
            let bytes = bytes(random, len);
            value.write_at(offset, &bytes).unwrap();
            if !bytes.is_empty() {
                vector.resize(vector.len().max(to), 0);
                vector[from..to].copy_from_slice(&bytes);
            }
        }
        4 if vector.len() < LEN_MAX as usize => {
            let bytes = bytes(random, len);
            value.append(&bytes).unwrap();
            vector.extend(bytes);
        }
        5..=6 => {
            value.truncate(offset).unwrap();
            vector.resize(from, 0);
        }
        7..=9 => {
            value.clear_range(offset, len).unwrap();
            let (from, to) = (from.min(vector.len()), to.min(vector.len()));
            vector[from..to].fill(0);
        }
        10 => {
            let mut found = vec![9; len as usize];
            let read = value.read_at(offset, &mut found).unwrap();
            let (from, to) = (from.min(vector.len()), to.min(vector.len()));
            assert_eq!(found[..read], vector[from..to]);
        }
        _ if random.below(4) == 0 => {
            value.remove().unwrap();
            *model = None;
        }
        _ => {}
    }
}

/// Random changes through all handles, of which some are taken back; what each held snapshot is to show.
fn run(store: &Store, space: Keyspace, model: &mut Model, random: &mut Random, steps: usize) {
    let mut held: Vec<(Snapshot, Model)> = Vec::new();
    for step in 0..steps {
        let mut after = model.clone();
        let any = |random: &mut Random| random.below(NAMES.len() as u64) as usize;
        let is_kept = random.below(4) > 0;
        if random.below(3) == 0 {
            let mut writer = store.exclusive().unwrap();
            for _ in 0..=random.below(3) {
                let at = any(random);
                change(&mut writer, space, (NAMES[at], &mut after[at]), random);
            }
            if is_kept {
                writer.commit(STRICT).unwrap();
            }
        } else {
            let mut tx = begin(store);
            for _ in 0..=random.below(3) {
                let (at, before) = (any(random), after.clone());
                let saved = tx.savepoint();
                change(&mut tx, space, (NAMES[at], &mut after[at]), random);
                if random.below(6) == 0 {
                    tx.rollback_to(&saved).unwrap();
                    after = before;
                }
            }
            if is_kept {
                tx.commit(STRICT).unwrap();
            }
        }
        if is_kept {
            *model = after;
        }
        held.push((store.snapshot().unwrap(), model.clone()));
        if held.len() > 4 {
            held.remove(random.below(4) as usize);
        }
        let (snapshot, then) = &held[random.below(held.len() as u64) as usize];
        for (name, expected) in NAMES.iter().zip(then) {
            assert!(read_all(snapshot, space, name) == *expected, "step {step}, {name:?}");
        }
    }
}

#[test]
fn it_is_what_a_vector_of_bytes_is() {
    for index in IndexKind::ALL {
        for seed in 1..=4 {
            let (store, space) = store(index, 32 << 20);
            let (mut model, mut random) = (Model::default(), Random(seed));
            run(&store, space, &mut model, &mut random, 300);
            // Of a value that is removed nothing is left.
            let mut writer = store.exclusive().unwrap();
            for name in NAMES {
                if let Some(value) = LargeValue::open(&mut writer, space, name).unwrap() {
                    value.remove().unwrap();
                }
            }
            assert_eq!(writer.count(space), Some(0), "{index:?}, seed {seed}");
        }
    }
}

#[test]
fn it_is_the_same_after_reopening() {
    for index in IndexKind::ALL {
        let directory = Directory::new(&format!("large-{index:?}"));
        let options = options(index, 32 << 20);
        let store = Store::create(&directory.pool(), &options).unwrap();
        store.keyspace("large").unwrap();
        drop(store);
        let (mut model, mut random) = (Model::default(), Random(7));
        for _ in 0..4 {
            let store = Store::open(&directory.pool(), &options).unwrap();
            let space = store.keyspace("large").unwrap();
            let snapshot = store.snapshot().unwrap();
            for (name, expected) in NAMES.iter().zip(&model) {
                assert!(read_all(&snapshot, space, name) == *expected, "{index:?}");
            }
            run(&store, space, &mut model, &mut random, 40);
            drop(snapshot);
            assert_eq!(store.check().unwrap().leaked, 0);
        }
    }
}

#[test]
fn a_change_of_one_byte_of_64_mebibytes_writes_one_piece() {
    for (piece_size, lines) in [(PIECE_SIZE_MIN, 8), (4096, 64), (PIECE_SIZE_MAX, 1024)] {
        let (store, space) = store(IndexKind::Nvtree, 200 << 20);
        let mut writer = store.exclusive().unwrap();
        let mut value = LargeValue::create(&mut writer, space, b"v", piece_size).unwrap();
        for _ in 0..64 {
            value.append(&[5; 1 << 20]).unwrap();
        }
        writer.commit(STRICT).unwrap();
        let offsets = [0, 50_000_000, (64 << 20) - 1];
        let mut splits = 0;
        for (time, offset) in offsets.into_iter().flat_map(|offset| [1, 2, 3].map(|n| (n, offset)))
        {
            let before = Counters::thread();
            let mut tx = begin(&store);
            open(&mut tx, space, b"v").write_at(offset, &[6]).unwrap();
            tx.commit(STRICT).unwrap();
            let done = Counters::thread() - before;
            // The piece, its record's head, its entry; a leaf that was filled in order has one free slot, and is split once,
            // by the first or the second change. Elements with records are erased where they were: that is a fence more.
            splits = if time == 1 { 0 } else { splits } + u32::from(done.fences > 2);
            let (more, fences) = if done.fences > 2 { (40, 5) } else { (5, 2) };
            assert!(splits <= 1 && (time < 3 || done.fences <= 2), "{splits}");
            assert!(done.lines <= lines + more, "{} lines of {piece_size}", done.lines);
            assert!(done.fences <= fences, "{} fences", done.fences);
            let snapshot = store.snapshot().unwrap();
            let mut value = LargeValue::open(&snapshot, space, b"v").unwrap().unwrap();
            let mut found = [0; 2];
            let read = value.read_at(offset, &mut found).unwrap();
            assert_eq!(found[..read], [6, 5][..read]);
        }
    }
}

#[test]
fn transactions_conflict_where_they_write_the_same_piece_or_change_the_length() {
    type Step = fn(&mut LargeValue<&mut Transaction>) -> Result<(), Error>;
    const WRITE_0: Step = |value| value.write_at(1, b"x");
    const WRITE_0_TOO: Step = |value| value.write_at(4095, b"x");
    const WRITE_1: Step = |value| value.write_at(4096, &[b'y'; 4096]);
    const LENGTHEN_2: Step = |value| value.write_at(9000, b"x");
    const FILL_5: Step = |value| value.write_at(5 * 4096, b"x");
    const FILL_5_WHOLE: Step = |value| value.write_at(5 * 4096, &[1; 4096]);
    const FILL_6: Step = |value| value.write_at(6 * 4096, b"x");
    const APPEND: Step = |value| value.append(b"x");
    const CUT: Step = |value| value.truncate(8500);
    const EXTEND: Step = |value| value.truncate(100_000);
    const CLEAR_1: Step = |value| value.clear_range(4096, 4096);
    const FILL_TWO: usize = 4;
    let pairs: [(Step, Step, bool); 17] = [
        (WRITE_0, WRITE_1, false),
        (WRITE_0, WRITE_0_TOO, true),
        (WRITE_0, APPEND, false),
        (WRITE_0, CUT, false),
        (FILL_5, FILL_6, false),
        (FILL_5, FILL_5_WHOLE, true),
        (FILL_5, WRITE_0, false),
        (CLEAR_1, FILL_5, false),
        (CLEAR_1, WRITE_1, true),
        (APPEND, APPEND, true),
        (APPEND, EXTEND, true),
        (APPEND, CUT, true),
        // Piece 2 ends at 8200: the cut at 8500 leaves it as it is.
        (LENGTHEN_2, CUT, true),
        (FILL_5, CUT, true),
        (FILL_5_WHOLE, CUT, true),
        (FILL_6, CUT, true),
        (LENGTHEN_2, WRITE_1, false),
    ];
    let pairs = || pairs.into_iter().enumerate();
    let ordered = pairs().map(|pair| (IndexKind::Nvtree, pair));
    // Without an order two that fill holes conflict.
    let fill_two = |(at, (one, other, expected))| (at, (one, other, expected || at == FILL_TWO));
    let unordered = pairs().map(|pair| (IndexKind::Hash, fill_two(pair)));
    for (index, (at, (one, other, expected))) in ordered.chain(unordered) {
        for (first, second) in [(one, other), (other, one)] {
            let (store, space) = store(index, 8 << 20);
            let mut tx = begin(&store);
            let mut value = LargeValue::create(&mut tx, space, b"v", 4096).unwrap();
            value.append(&[1; 8200]).unwrap();
            value.truncate(50_000).unwrap();
            tx.commit(STRICT).unwrap();
            let (mut a, mut b) = (begin(&store), begin(&store));
            first(&mut open(&mut a, space, b"v")).unwrap();
            second(&mut open(&mut b, space, b"v")).unwrap();
            a.commit(STRICT).unwrap();
            let done = b.commit(STRICT);
            assert_eq!(matches!(done, Err(Error::Conflict { .. })), expected, "{at}: {done:?}");
            // What lies behind the end is zero when the value gets longer, whatever came before.
            let mut tx = begin(&store);
            let mut value = open(&mut tx, space, b"v");
            let len = value.len();
            value.truncate(200_000).unwrap();
            let mut behind = vec![1; 200_000];
            let read = value.read_at(len, &mut behind).unwrap();
            assert!(behind[..read].iter().all(|&byte| byte == 0), "{at}");
        }
    }
}

#[test]
fn a_value_that_is_removed_beside_a_write_leaves_no_piece() {
    for (index, is_range) in
        [(IndexKind::Nvtree, false), (IndexKind::Nvtree, true), (IndexKind::Hash, false)]
    {
        for is_first in [false, true] {
            let (store, space) = store(index, 8 << 20);
            let mut tx = begin(&store);
            let mut value = LargeValue::create(&mut tx, space, b"v", 4096).unwrap();
            value.truncate(50_000).unwrap();
            tx.commit(STRICT).unwrap();
            let mut fill = begin(&store);
            open(&mut fill, space, b"v").write_at(30_000, b"x").unwrap();
            let mut remove = begin(&store);
            let value = open(&mut remove, space, b"v");
            if is_range {
                let keys = value.keys();
                remove.remove_range(space, keys).unwrap();
            } else {
                value.remove().unwrap();
            }
            if is_first {
                fill.commit(STRICT).unwrap();
                assert!(matches!(remove.commit(STRICT), Err(Error::Conflict { .. })));
                continue;
            }
            remove.commit(STRICT).unwrap();
            assert!(matches!(fill.commit(STRICT), Err(Error::Conflict { .. })));
            assert_eq!(store.range::<[u8]>(space, ..).unwrap().count(), 0);
        }
    }
}

/// The exclusive writer fills a hole while a transaction that does not see it waits to cut there.
#[test]
fn a_cut_conflicts_with_what_the_exclusive_writer_has_filled() {
    for (index, is_cut) in
        IndexKind::ALL.into_iter().flat_map(|index| [(index, false), (index, true)])
    {
        let (store, space) = store(index, 8 << 20);
        let mut tx = begin(&store);
        let mut value = LargeValue::create(&mut tx, space, b"v", 4096).unwrap();
        value.append(&[1; 8200]).unwrap();
        value.truncate(50_000).unwrap();
        tx.commit(STRICT).unwrap();
        let mut tx = begin(&store);
        let mut value = open(&mut tx, space, b"v");
        if is_cut {
            value.truncate(8500).unwrap();
        } else {
            value.remove().unwrap();
        }
        let mut exclusive = store.exclusive().unwrap();
        let mut value = LargeValue::open(&mut exclusive, space, b"v").unwrap().unwrap();
        value.write_at(5 * 4096, b"x").unwrap();
        exclusive.commit(STRICT).unwrap();
        let done = tx.commit(STRICT);
        assert!(matches!(done, Err(Error::Conflict { .. })), "{index:?}, {is_cut}: {done:?}");
    }
}

#[test]
fn all_its_keys_are_removed_as_a_range() {
    let (store, space) = store(IndexKind::Nvtree, 8 << 20);
    for name in NAMES {
        let mut writer = store.exclusive().unwrap();
        let mut value = LargeValue::create(&mut writer, space, name, 512).unwrap();
        value.append(&[1; 100_000]).unwrap();
        writer.commit(STRICT).unwrap();
    }
    let keys = LargeValue::open(store.snapshot().unwrap(), space, b"a").unwrap().unwrap().keys();
    store.remove_range(space, keys, STRICT).unwrap();
    let snapshot = store.snapshot().unwrap();
    for name in NAMES {
        let expected = (name != b"a").then(|| vec![1; 100_000]);
        assert!(read_all(&snapshot, space, name) == expected);
    }
}

/// Its pieces lie in no order: each is found by its number. A range of its keys is refused, and nothing of it has changed.
#[test]
fn over_a_hash_index_it_is_cut_cleared_and_removed_too() {
    let (store, space) = store(IndexKind::Hash, 8 << 20);
    let mut tx = begin(&store);
    let mut value = LargeValue::create(&mut tx, space, b"v", 512).unwrap();
    value.append(&[1; 10_000]).unwrap();
    value.clear_range(700, 2000).unwrap();
    value.truncate(5000).unwrap();
    let keys = value.keys();
    tx.commit(STRICT).unwrap();
    let expected = [vec![1; 700], vec![0; 2000], vec![1; 2300]].concat();
    assert!(read_all(&store.snapshot().unwrap(), space, b"v") == Some(expected));
    // The header, two pieces before the hole, five behind it.
    assert_eq!(store.range::<[u8]>(space, ..).unwrap().count(), 1 + 2 + 5);
    assert!(matches!(store.remove_range(space, keys, STRICT), Err(Error::Unordered)));
    let mut tx = begin(&store);
    open(&mut tx, space, b"v").remove().unwrap();
    tx.commit(STRICT).unwrap();
    assert_eq!(store.range::<[u8]>(space, ..).unwrap().count(), 0);
}

#[test]
fn a_hole_takes_no_space() {
    let (store, space) = store(IndexKind::Nvtree, 8 << 20);
    let mut writer = store.exclusive().unwrap();
    let mut value = LargeValue::create(&mut writer, space, b"v", 4096).unwrap();
    value.truncate(1 << 40).unwrap();
    value.write_at(1 << 39, &[1; 40_960]).unwrap();
    value.clear_range((1 << 39) + 4096, 32_768).unwrap();
    let mut found = [9; 8192];
    value.read_at(5, &mut found).unwrap();
    assert_eq!(found, [0; 8192]);
    assert_eq!(writer.count(space), Some(3), "the header and two pieces");
    let value = LargeValue::open(&mut writer, space, b"v").unwrap().unwrap();
    value.remove().unwrap();
    assert_eq!(writer.count(space), Some(0));
}

#[test]
fn what_has_no_place_is_refused() {
    let (store, space) = store(IndexKind::Nvtree, 8 << 20);
    let mut tx = begin(&store);
    for size in [0, 1, PIECE_SIZE_MIN - 1, PIECE_SIZE_MIN + 1, 2 * PIECE_SIZE_MAX] {
        let made = LargeValue::create(&mut tx, space, b"v", size);
        assert!(matches!(made, Err(Error::PieceSize { size: found }) if found == size));
    }
    let made = LargeValue::create(&mut tx, space, &vec![0; 65_000], PIECE_SIZE_MIN);
    assert!(matches!(made, Err(Error::KeyTooLong { .. })));
    let mut value = LargeValue::create(&mut tx, space, b"v", PIECE_SIZE_MIN).unwrap();
    assert!(matches!(value.write_at(u64::MAX, b"x"), Err(Error::LargeValueTooLong { .. })));
    let most = LARGE_VALUE_SIZE_MAX;
    assert!(matches!(value.truncate(most + 1), Err(Error::LargeValueTooLong { .. })));
    value.truncate(most).unwrap();
    value.write_at(most - 1, b"x").unwrap();
    assert!(matches!(value.append(b"x"), Err(Error::LargeValueTooLong { .. })));
    let mut end = [1; 8];
    assert_eq!(value.read_at(most - 4, &mut end).unwrap(), 4);
    assert_eq!(end, [0, 0, 0, b'x', 1, 1, 1, 1]);
    assert_eq!(value.read_at(most, &mut end).unwrap(), 0);
    assert_eq!(value.read_at(u64::MAX, &mut end).unwrap(), 0);
    let again = LargeValue::create(&mut tx, space, b"v", PIECE_SIZE_MIN);
    assert!(matches!(again, Err(Error::LargeValueExists { .. })));
    // A header that is none, and a piece that is too long.
    tx.put(space, &[0, 1, b'w', 0], b"short").unwrap();
    assert!(matches!(LargeValue::open(&mut tx, space, b"w"), Err(Error::Damaged { .. })));
    let piece = [&[0, 1, b'v', 1][..], &0_u64.to_be_bytes()].concat();
    tx.put(space, &piece, &[0; PIECE_SIZE_MIN + 1]).unwrap();
    let found = open(&mut tx, space, b"v").read_at(0, &mut end);
    assert!(matches!(found, Err(Error::Damaged { .. })));
}
