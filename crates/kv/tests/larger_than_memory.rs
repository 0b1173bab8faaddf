//! A pool that is larger than memory is read page by page, asks ahead for what it will read, and shows what any other does.
#![allow(clippy::unwrap_used)]

use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tembo_kv::{Direction, Durability, IndexKind, Keyspace, Options, Progress, Store};
use tembo_pmem::{DomainRequest, RegionOptions};
use tembo_pool::PoolOptions;

#[path = "driver/directory.rs"]
mod directory;
#[path = "driver/map.rs"]
mod map;
#[path = "driver/random.rs"]
mod random;

use directory::Directory;
use map::{Map, all};
use random::Random;

/// The indexes under test.
const KEYS: u64 = 3000;

fn options(index: IndexKind) -> Options {
    let (memory, log_size) = (Some(1 << 20), 2 << 20);
    let domain = DomainRequest::Logged;
    let region = RegionOptions { domain, memory, log_size, ..RegionOptions::default() };
    let pool = PoolOptions { size: 1 << 20, region, ..PoolOptions::default() };
    Options::new().pool(pool).index(index).background(false)
}

fn key(number: u64) -> Vec<u8> {
    // Some keys have a record beside their leaf, and some have not.
    let tail = if number.is_multiple_of(3) { "-and-a-tail-beyond-eight-bytes" } else { "" };
    format!("{number:06}{tail}").into_bytes()
}

fn value(random: &mut Random) -> Vec<u8> {
    let size = [0, 8, 100, 1024, 5000, 200_000][random.below(6) as usize];
    let size = if size == 200_000 && random.below(50) > 0 { 300 } else { size };
    vec![random.next() as u8; size]
}

/// What a range shows, in the direction, until so many keys were seen.
fn range(
    store: &Store,
    space: Keyspace,
    from: &[u8],
    direction: Direction,
    limit: usize,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut shown = Vec::new();
    let bounds = match direction {
        Direction::Forward => (Bound::Included(from), Bound::Unbounded),
        Direction::Backward => (Bound::Unbounded, Bound::Included(from)),
    };
    let snapshot = store.snapshot().unwrap();
    snapshot
        .range_with::<[u8]>(space, bounds, direction, &mut |key, value| {
            shown.push((key.to_vec(), value.to_vec()));
            shown.len() < limit
        })
        .unwrap();
    shown
}

fn shows_all(store: &Store, space: Keyspace, model: &Map, random: &mut Random) {
    assert!(all(&store.snapshot().unwrap(), space) == *model);
    let ranges = if store.is_ordered() { 50 } else { 0 };
    for _ in 0..ranges {
        let (from, limit) = (key(random.below(KEYS)), 1 + random.below(200) as usize);
        let entry = |(key, value): (&Vec<u8>, &Vec<u8>)| (key.clone(), value.clone());
        let up: Vec<_> = model.range(from.clone()..).take(limit).map(entry).collect();
        assert!(range(store, space, &from, Direction::Forward, limit) == up);
        let down: Vec<_> = model.range(..=from.clone()).rev().take(limit).map(entry).collect();
        assert!(range(store, space, &from, Direction::Backward, limit) == down);
    }
    let mut exclusive = store.exclusive().unwrap();
    for _ in 0..20 {
        let keys: Vec<Vec<u8>> = (0..40).map(|_| key(random.below(KEYS))).collect();
        let borrowed: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        exclusive.prefetch(space, &borrowed);
        for key in &keys {
            let found = exclusive.get(space, key).unwrap().map(|value| value.to_vec());
            assert!(found.as_ref() == model.get(key));
        }
    }
}

#[test]
fn a_pool_that_is_larger_than_memory_shows_what_any_other_does() {
    for index in IndexKind::ALL {
        let directory = Directory::new(&format!("larger-{}", index.name()));
        let mut random = Random(0x1234_5678_9ABC_DEF1);
        let mut model = Map::new();
        let store = Store::create(&directory.pool(), &options(index)).unwrap();
        let space = store.keyspace("a").unwrap();
        for round in 0..KEYS / 10 {
            let mut exclusive = store.exclusive().unwrap();
            for _ in 0..15 {
                let key = key(random.below(KEYS));
                if random.below(5) == 0 {
                    exclusive.remove(space, &key).unwrap();
                    model.remove(&key);
                } else {
                    let value = value(&mut random);
                    exclusive.put(space, &key, &value).unwrap();
                    model.insert(key, value);
                }
            }
            exclusive.commit(Durability::Strict).unwrap();
            if round % 100 == 50 {
                shows_all(&store, space, &model, &mut random);
            }
        }
        assert!(std::fs::metadata(directory.pool()).unwrap().len() > 2 << 20, "too small a pool");
        drop(store);
        for options in [options(index), options(index).read_only(true)] {
            let store = Store::open(&directory.pool(), &options).unwrap();
            let space = store.keyspace("a").unwrap();
            shows_all(&store, space, &model, &mut random);
            if store.report().recovering {
                // Marks all that is reachable, and frees the rest.
                while store.report().recovering {
                    store.maintain(100).unwrap();
                }
                shows_all(&store, space, &model, &mut random);
            }
        }
    }
}

/// The most private pages while `work` is done.
fn peak(store: &Store, work: impl FnOnce()) -> u64 {
    let (is_done, most) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                most.fetch_max(store.report().private_bytes, Ordering::Relaxed);
                std::thread::yield_now();
            }
        });
        work();
        is_done.store(true, Ordering::Relaxed);
    });
    most.into_inner()
}

/// It has to make room in the table of dead intervals, by a scrub of all that was aborted before.
#[test]
fn a_rollback_that_finds_its_table_full_keeps_within_the_memory() {
    const LIMIT: u64 = 1 << 20;
    const KEYS: u64 = 300_000;
    let directory = Directory::new("memory-of-a-rollback");
    let options = options(IndexKind::Nvtree).private_max(LIMIT);
    let store = Store::create(&directory.pool(), &options).unwrap();
    let space = store.keyspace("a").unwrap();
    let write = |numbers: std::ops::Range<u64>, step: usize| {
        let mut exclusive = store.exclusive().unwrap();
        for number in numbers.step_by(step) {
            exclusive.put(space, &number.to_be_bytes(), &[step as u8; 8]).unwrap();
        }
        exclusive
    };
    for from in (0..KEYS).step_by(1000) {
        write(from..from + 1000, 1).commit(Durability::Strict).unwrap();
    }
    while store.maintain(64).unwrap() == Progress::More {}
    // Something in each leaf.
    drop(write(0..KEYS, 5));
    // There is room in the table for fewer.
    for round in 0..70 {
        let then = store.snapshot().unwrap();
        store.put(space, b"rolled back", b"1", Durability::Buffered).unwrap();
        let most = peak(&store, || drop(store.rollback(then.version()).unwrap()));
        assert!(most < 3 * LIMIT, "{most} bytes in round {round}");
    }
    assert!(store.get(space, b"rolled back").unwrap().is_none());
    for number in 0..KEYS {
        let value = store.get(space, &number.to_be_bytes()).unwrap();
        assert_eq!(value, Some(vec![1; 8]));
    }
    assert!(store.report().used_bytes > 10 * LIMIT);
    assert_eq!(store.check().unwrap().leaked, 0);
}
