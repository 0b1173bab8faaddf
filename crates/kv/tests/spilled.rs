//! Transactions that outgrow memory: others go on beside them, and what they leave is what smaller ones leave.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use tembo_kv::{
    Durability, Error, IndexKind, Isolation, Keyspace, Options, Progress, Savepoint, Store,
    Transaction,
};
use tembo_pool::Geometry;

#[path = "driver/directory.rs"]
mod directory;
#[path = "driver/random.rs"]
mod random;
#[path = "driver/wait.rs"]
mod wait;

use directory::Directory;
use random::Random;
use wait::wait_until;

const STRICT: Durability = Durability::Strict;
const BUFFERED: Durability = Durability::Buffered;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn options(index: IndexKind, memory: usize) -> Options {
    Options::new().index(index).background(false).transaction_memory(memory)
}

fn store(index: IndexKind, memory: usize) -> (Store, Keyspace) {
    let store = Store::volatile(&options(index, memory)).unwrap();
    idle(&store);
    let space = store.keyspace("x").unwrap();
    (store, space)
}

fn idle(store: &Store) {
    while store.maintain(16).unwrap() == Progress::More {}
}

fn begin(store: &Store) -> Transaction {
    store.transaction(Isolation::Snapshot).unwrap()
}

fn all(store: &Store, space: Keyspace) -> Map {
    store.range::<[u8]>(space, ..).unwrap().map(Result::unwrap).collect()
}

/// A transaction that is far larger than its memory, with these keys.
fn large(store: &Store, space: Keyspace, keys: std::ops::Range<u32>) -> Transaction {
    let mut tx = begin(store);
    keys.for_each(|key| tx.put(space, &key.to_be_bytes(), b"large").unwrap());
    tx
}

#[test]
fn others_commit_all_along_and_wait_for_the_commit_only() {
    for index in IndexKind::ALL {
        let (store, space) = store(index, 4 << 10);
        let (committed, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        let other = |number: u64| {
            let key = [b"other".as_slice(), &(number % 1000).to_be_bytes()].concat();
            if number.is_multiple_of(2) {
                store.put(space, &key, b"1", BUFFERED).unwrap();
            } else {
                let mut tx = begin(&store);
                tx.put(space, &key, b"2").unwrap();
                tx.put(space, b"other counter", &number.to_be_bytes()).unwrap();
                tx.commit(BUFFERED).unwrap();
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    other(number);
                    committed.fetch_add(1, Ordering::Relaxed);
                }
            });
            let mut tx = begin(&store);
            for key in 0..100_000u32 {
                // So many records are left to a sweep.
                tx.put(space, &key.to_be_bytes(), &[key.to_le_bytes(); 4].concat()).unwrap();
                if key.is_multiple_of(1000) {
                    // Two, for the first may have waited for a batch of this transaction.
                    let before = committed.load(Ordering::Relaxed);
                    let count = || committed.load(Ordering::Relaxed);
                    wait_until("a commit of the other", count, |&now| now >= before + 2);
                }
            }
            let beside = committed.load(Ordering::Relaxed);
            let began = Instant::now();
            tx.commit(BUFFERED).unwrap();
            println!("{index:?}: {beside} beside it, commit {:?}", began.elapsed());
            is_over.store(true, Ordering::Relaxed);
        });
        let map = all(&store, space);
        for key in 0..100_000u32 {
            assert_eq!(map[&key.to_be_bytes()[..]], [key.to_le_bytes(); 4].concat());
        }
        idle(&store);
        assert_eq!(store.check().unwrap().leaked, 0);
    }
}

#[test]
fn the_first_committer_wins_whatever_the_size() {
    for index in IndexKind::ALL {
        let (store, space) = store(index, 1000);
        let is_conflict = |done: Result<u64, Error>, expected: &[u8]| matches!(done, Err(Error::Conflict { key, .. }) if key == expected);
        for key in [b"kept", b"gone"] {
            store.put(space, key, b"before", STRICT).unwrap();
        }
        let before = all(&store, space);
        let key = 7u32.to_be_bytes();
        // Keys that are changed, removed, made and removed; what was read; ranges.
        type Step = fn(&Store, Keyspace);
        let steps: [(Step, &[u8]); 4] = [
            (|store, space| drop(store.put(space, &7u32.to_be_bytes(), b"1", STRICT)), &key),
            (|store, space| drop(store.remove(space, b"gone", STRICT)), b"gone"),
            (|store, space| drop(store.put(space, b"read", b"1", STRICT)), b"read"),
            (|store, space| drop(store.put(space, b"in range", b"1", STRICT)), b"in range"),
        ];
        let steps = if index.is_ordered() { &steps[..] } else { &steps[..3] };
        for &(step, expected) in steps {
            let mut tx = store.transaction(Isolation::Serialisable).unwrap();
            assert!(tx.get(space, b"read").unwrap().is_none());
            tx.put(space, b"gone", b"late").unwrap();
            if index.is_ordered() {
                tx.remove_range(space, &b"in"[..]..&b"io"[..]).unwrap();
            }
            (0..500u32).for_each(|key| tx.put(space, &key.to_be_bytes(), b"large").unwrap());
            step(&store, space);
            let done = tx.commit(STRICT);
            assert!(is_conflict(done, expected), "{:?}", expected.escape_ascii().to_string());
            // Nothing of it is left; what the other has done is taken back.
            let mut writer = store.exclusive().unwrap();
            match index.is_ordered() {
                true => writer.remove_range::<[u8]>(space, ..).unwrap(),
                false => writer.clear(space).unwrap(),
            }
            for (key, value) in &before {
                writer.put(space, key, value).unwrap();
            }
            writer.commit(STRICT).unwrap();
            assert_eq!(all(&store, space), before);
        }
        // The other way round.
        let mut small = begin(&store);
        small.put(space, &key, b"small").unwrap();
        let mut elsewhere = begin(&store);
        elsewhere.put(space, b"elsewhere", b"1").unwrap();
        large(&store, space, 0..500).commit(STRICT).unwrap();
        assert!(is_conflict(small.commit(STRICT), &key));
        elsewhere.commit(STRICT).unwrap();
        assert_eq!(all(&store, space).len(), 503);
        idle(&store);
        assert_eq!(store.check().unwrap().leaked, 0);
    }
}

#[test]
fn a_crash_leaves_nothing_of_it_and_its_space_comes_back() {
    for index in IndexKind::ALL {
        let directory = Directory::new(&format!("spilled-{index:?}"));
        let options = options(index, 1000).size(16 << 20);
        let path = directory.file("left.pool");
        let left = |file: &std::path::Path, suffix| format!("{}{suffix}", file.display());
        let store = Store::create(&directory.pool(), &options).unwrap();
        let space = store.keyspace("x").unwrap();
        store.put(space, b"before", b"1", STRICT).unwrap();
        idle(&store);
        let used = store.check().unwrap().account.object_bytes;
        let mut tx = large(&store, space, 0..5000);
        tx.savepoint();
        (0..3000u32).for_each(|key| tx.remove(space, &key.to_be_bytes()).unwrap());
        store.put(space, b"beside", b"1", STRICT).unwrap();
        // A marking reaches what is not named, and a check accounts for it.
        idle(&store);
        assert_eq!(store.check().unwrap().leaked, 0);
        store.sync().unwrap();
        for suffix in ["", ".log"] {
            std::fs::copy(left(&directory.pool(), suffix), left(&path, suffix)).unwrap();
        }
        drop(tx);
        drop(store);
        for path in [path, directory.pool()] {
            let store = Store::open(&path, &options).unwrap();
            let space = store.keyspace("x").unwrap();
            assert_eq!(all(&store, space).len(), 2);
            idle(&store);
            let check = store.check().unwrap();
            assert_eq!(check.leaked, 0);
            let now = check.account.object_bytes;
            assert!(now < used + (16 << 10), "{now}, {used} before");
        }
    }
}

#[test]
fn the_space_of_those_that_have_ended_is_used_again() {
    for index in IndexKind::ALL {
        let (store, space) = store(index, 1000);
        let mut sizes = Vec::new();
        for round in 0..12 {
            let tx = large(&store, space, 0..3000);
            if round % 3 == 0 {
                drop(tx)
            } else {
                assert!(tx.commit(STRICT).unwrap() > 0)
            }
            idle(&store);
            let check = store.check().unwrap();
            assert_eq!(check.leaked, 0, "{index:?}, {round}");
            sizes.push(check.account.total - check.account.above_frontier_bytes);
        }
        let (early, late) = (sizes[2], sizes[11]);
        assert!(late < early + (256 << 10), "{index:?}: {sizes:?}");
    }
}

#[test]
fn without_room_it_fails_alone() {
    for index in IndexKind::ALL {
        let options = options(index, 1000).geometry(Geometry::TINY);
        let store = Store::volatile(&options.size(512 << 10).size_max(512 << 10)).unwrap();
        idle(&store);
        let space = store.keyspace("x").unwrap();
        store.put(space, b"before", b"1", STRICT).unwrap();
        for _ in 0..3 {
            let mut tx = begin(&store);
            tx.savepoint();
            let filled =
                (0..10_000u32).try_for_each(|key| tx.put(space, &key.to_be_bytes(), &[1; 300]));
            assert!(matches!(filled, Err(Error::Full(_))), "{filled:?}");
            // It has what it had, and can go back or be dropped.
            assert_eq!(tx.get(space, &0u32.to_be_bytes()).unwrap(), Some(vec![1; 300]));
            drop(tx);
            idle(&store);
            assert_eq!(all(&store, space).len(), 1);
            assert_eq!(store.check().unwrap().leaked, 0);
        }
        large(&store, space, 0..300).commit(STRICT).unwrap();
        assert_eq!(all(&store, space).len(), 301);
    }
}

/// What it could not move to the pool as a whole, because another takes the room meanwhile, it has in memory alone: a
/// savepoint means what it meant.
#[test]
fn a_move_to_the_pool_that_fails_half_way_leaves_savepoints_as_they_were() {
    const KEYS: u32 = 200;
    let put = |tx: &mut Transaction, space, key: u32, value: &[u8]| {
        tx.put(space, &key.to_be_bytes(), &[value, &[7; 290]].concat())
    };
    let (mut failed_half_way, mut went_back_count) = (0, 0);
    for index in IndexKind::ALL {
        let options = options(index, 32 << 10).geometry(Geometry::TINY);
        let store = Store::volatile(&options.size(512 << 10).size_max(512 << 10)).unwrap();
        idle(&store);
        let space = store.keyspace("x").unwrap();
        store.put(space, b"before", b"1", STRICT).unwrap();
        let fill = |most: u32| {
            let mut hog = begin(&store);
            let keys =
                (1000..1000 + most).take_while(|&key| put(&mut hog, space, key, b"hog").is_ok());
            let count = keys.count() as u32;
            (hog, count)
        };
        let (hog, most) = fill(10_000);
        drop(hog);
        idle(&store);
        for (left, retries) in (10..most).step_by(41).flat_map(|left| [(left, 0), (left, 2)]) {
            let (hog, _) = fill(most - left);
            let mut tx = begin(&store);
            (0..3).for_each(|key| put(&mut tx, space, key, b"kept").unwrap());
            let first = tx.savepoint();
            (3..6).for_each(|key| put(&mut tx, space, key, b"more").unwrap());
            let second = tx.savepoint();
            let full =
                (6..KEYS).find_map(|key| put(&mut tx, space, key, b"lost").err().map(|_| key));
            let Some(full) = full else { break };
            failed_half_way += 1;
            (0..retries).for_each(|_| drop(put(&mut tx, space, full, b"lost")));
            if retries > 0 {
                // It succeeds at last.
                drop(hog);
                idle(&store);
                put(&mut tx, space, full, b"lost").unwrap();
                (6..60).for_each(|key| put(&mut tx, space, key, b"again").unwrap());
            }
            let went_back = [(second, 6), (first, 3)].into_iter().all(|(savepoint, end)| {
                let went_back = tx.rollback_to(&savepoint);
                // Without any room it can only be dropped.
                assert!(matches!(went_back, Ok(()) | Err(Error::Full(_))), "{went_back:?}");
                for key in 0..KEYS {
                    let found = tx.get(space, &key.to_be_bytes()).unwrap();
                    let is_right = went_back.is_err() || found.is_some() == (key < end);
                    assert!(is_right, "{index:?} {left} {retries}: {key}");
                }
                went_back.is_ok()
            });
            assert!(went_back || retries == 0, "{index:?} {left}");
            went_back_count += usize::from(went_back);
            if retries == 0 {
                continue;
            }
            tx.commit(STRICT).unwrap();
            assert_eq!(all(&store, space).len(), 1 + 3, "{index:?} {left}");
            for key in 0..3u32 {
                store.remove(space, &key.to_be_bytes(), STRICT).unwrap();
            }
            idle(&store);
            assert_eq!(store.check().unwrap().leaked, 0);
        }
    }
    assert!(went_back_count > failed_half_way / 2 + 9, "{went_back_count} of {failed_half_way}");
}

#[test]
fn a_rollback_beside_it_does_not_touch_it() {
    for index in IndexKind::ALL {
        let (store, space) = store(index, 1000);
        store.put(space, b"before", b"1", STRICT).unwrap();
        store.save_snapshot("here").unwrap();
        let mut tx = large(&store, space, 0..500);
        store.put(space, b"beside", b"1", STRICT).unwrap();
        (500..1000u32).for_each(|key| tx.put(space, &key.to_be_bytes(), b"large").unwrap());
        store.rollback_to("here").unwrap();
        (1000..1500u32).for_each(|key| tx.put(space, &key.to_be_bytes(), b"large").unwrap());
        idle(&store);
        for key in 0..1500u32 {
            let found = tx.get(space, &key.to_be_bytes()).unwrap();
            assert_eq!(found.as_deref(), Some(&b"large"[..]), "{index:?} {key}");
        }
        tx.commit(STRICT).unwrap();
        assert_eq!(all(&store, space).len(), 1501);
        assert!(store.get(space, b"beside").unwrap().is_none());
        idle(&store);
        assert_eq!(store.check().unwrap().leaked, 0);
    }
}

/// A transaction, what it is to show, and the points that it can go back to.
struct Model {
    tx: Transaction,
    map: Map,
    saved: Vec<(Savepoint, Map)>,
    is_ordered: bool,
}

impl Model {
    fn key(random: &mut Random) -> Vec<u8> {
        let number = random.below(60);
        let tail = if number.is_multiple_of(3) { "-and-a-tail-beyond-eight-bytes" } else { "" };
        format!("{number:02}{tail}").into_bytes()
    }

    fn step(&mut self, space: Keyspace, random: &mut Random) {
        let key = Model::key(random);
        match random.below(20) {
            0..8 => {
                let len = [0, 5, 8, 9, 100, 700][random.below(6) as usize];
                let value = vec![random.below(256) as u8; len];
                self.tx.put(space, &key, &value).unwrap();
                self.map.insert(key, value);
            }
            8..11 => {
                self.tx.remove(space, &key).unwrap();
                self.map.remove(&key);
            }
            11 if self.is_ordered => {
                let to = Model::key(random);
                self.tx.remove_range(space, &key[..]..&to[..]).unwrap();
                self.map.retain(|other, _| !(key <= *other && *other < to));
            }
            12..14 => {
                self.saved.push((self.tx.savepoint(), self.map.clone()));
            }
            14 if !self.saved.is_empty() => {
                let at = random.below(self.saved.len() as u64) as usize;
                self.saved.truncate(at + 1);
                let (saved, map) = &self.saved[at];
                self.tx.rollback_to(saved).unwrap();
                self.map = map.clone();
            }
            15 if self.is_ordered => {
                let (from, is_forward) = (Bound::Included(&key[..]), random.below(2) == 0);
                let found =
                    self.tx.range::<[u8]>(space, (from, Bound::Excluded(&b"z"[..]))).unwrap();
                let expected = self.map.range(key.clone()..);
                let expected = expected.map(|(key, value)| (key.clone(), value.clone()));
                let (found, expected): (Vec<_>, Vec<_>) = match is_forward {
                    true => (found.map(Result::unwrap).collect(), expected.collect()),
                    false => (found.rev().map(Result::unwrap).collect(), expected.rev().collect()),
                };
                assert_eq!(found, expected);
            }
            _ => assert_eq!(self.tx.get(space, &key).unwrap().as_ref(), self.map.get(&key)),
        }
    }
}

/// What other threads do beside it, where it is not.
fn beside(store: &Store, space: Keyspace, random: &mut Random) {
    let key = [b"z", &random.below(50).to_be_bytes()[..]].concat();
    match random.below(5) {
        0 => drop(store.put(space, &key, &[1; 40], BUFFERED).unwrap()),
        1 => drop(store.remove(space, &key, BUFFERED).unwrap()),
        2 => {
            // What is given up leaves dead intervals.
            let mut writer = store.exclusive().unwrap();
            writer.put(space, &key, b"given up").unwrap();
        }
        _ => drop(store.maintain(1 + random.below(3) as usize).unwrap()),
    }
}

#[test]
fn it_shows_and_leaves_what_a_map_does() {
    for index in IndexKind::ALL {
        for seed in 1..=30 {
            let memory = [0, 300, 2000][seed as usize % 3];
            let store = Store::volatile(&options(index, memory).geometry(Geometry::TINY)).unwrap();
            let space = store.keyspace("x").unwrap();
            let (mut random, mut map) = (Random(seed * 0x51_7cc1), Map::new());
            for round in 0..25 {
                let (tx, saved, is_ordered) = (begin(&store), Vec::new(), store.is_ordered());
                let mut model = Model { tx, map: map.clone(), saved, is_ordered };
                for _ in 0..random.below(80) {
                    model.step(space, &mut random);
                    if random.below(4) == 0 {
                        beside(&store, space, &mut random);
                    }
                }
                if random.below(3) > 0 {
                    model.tx.commit(BUFFERED).unwrap();
                    map = model.map;
                }
                let mut found = all(&store, space);
                found.retain(|key, _| key[0] != b'z');
                assert_eq!(found, map, "{index:?}, seed {seed}, round {round}");
            }
            idle(&store);
            let check = store.check().unwrap();
            assert_eq!(check.leaked, 0, "{index:?}, seed {seed}");
        }
    }
}

#[test]
fn several_at_a_time_beside_markings_leave_what_each_says() {
    const THREADS: u8 = 3;
    for index in IndexKind::ALL {
        let options = options(index, 500).background(true).geometry(Geometry::TINY);
        let store = Store::volatile(&options).unwrap();
        let space = store.keyspace("x").unwrap();
        let run = |thread: u8| {
            let (mut random, mut map) = (Random(u64::from(thread) + 1), Map::new());
            for _ in 0..40 {
                let (mut tx, mut then) = (begin(&store), map.clone());
                for _ in 0..random.below(150) {
                    let key = [thread, random.below(80) as u8].to_vec();
                    let value = vec![random.below(256) as u8; random.below(60) as usize];
                    if random.below(4) == 0 {
                        tx.remove(space, &key).unwrap();
                        then.remove(&key);
                    } else {
                        tx.put(space, &key, &value).unwrap();
                        then.insert(key, value);
                    }
                }
                match random.below(3) {
                    0 => drop(tx),
                    _ => {
                        tx.commit(BUFFERED).unwrap();
                        map = then;
                    }
                }
                // What is given up takes a marking.
                if random.below(5) == 0 {
                    let mut writer = store.exclusive().unwrap();
                    writer.put(space, &[thread, 200], b"given up").unwrap();
                }
            }
            map
        };
        let maps: Vec<Map> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..THREADS).map(|thread| scope.spawn(move || run(thread))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let expected: Map = maps.into_iter().flatten().collect();
        assert_eq!(all(&store, space), expected, "{index:?}");
        let leaked = || store.check().unwrap().leaked;
        wait_until("all space to be known", leaked, |&leaked| leaked == 0);
    }
}
