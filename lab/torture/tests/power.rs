//! Threads whose machine loses power: what was acknowledged is there, what it had read is, and every
//! transaction is there whole or not at all.
//!
//! The disk is simulated, and so loses what was not synced; the threads are real.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use std::path::Path;
use std::sync::Arc;

use tembo_kv::{
    DomainRequest, Durability, IndexKind, Options, PoolOptions, RegionOptions, Store, SyncPolicy,
};
use tembo_sim::{Chooser, Point, Random, Rest, SimDisk};
use tembo_torture::history::{
    ABSENT, Clock, Database, History, Isolation, Key, Plan, Stored, Transact, Value, check_crash,
};

const POOL: &str = "/disk/pool";
/// Histories over each index.
const SEEDS: u64 = 20;
const OPERATIONS: u64 = 200;
const KEYS: Key = 24;
/// Power losses of each history.
const POINTS: usize = 30;

fn options(disk: &SimDisk, index: IndexKind) -> Options {
    let region = RegionOptions {
        domain: DomainRequest::Logged,
        sync: SyncPolicy::Always,
        log_size: 1 << 20,
        disk: Arc::new(disk.clone()),
        background: false,
        ..RegionOptions::default()
    };
    let pool = PoolOptions { size: 1 << 20, region, ..PoolOptions::default() };
    Options::new().pool(pool).index(index).background(false)
}

/// A history, and the disk before each of its steps, with a time before that.
fn run(index: IndexKind, isolation: Isolation, seed: u64) -> (History, Vec<Point>) {
    let disk = SimDisk::default();
    let store = Store::create(Path::new(POOL), &options(&disk, index)).unwrap();
    let stored = Stored::new(&store, "history").unwrap();
    store.sync().unwrap();
    disk.record();
    let plan = Plan { isolation, operations: OPERATIONS, threads: 6, keys: KEYS, seed };
    let clock = Clock::default();
    let history = plan.run_by(&clock, &stored, &|_| disk.mark(clock.tick())).unwrap();
    (history, disk.points())
}

/// Everything that the store on that disk shows.
fn shown(disk: &SimDisk, index: IndexKind) -> Vec<(Key, Value)> {
    let store = Store::open(Path::new(POOL), &options(disk, index)).unwrap();
    let stored = Stored::new(&store, "history").unwrap();
    let mut transaction = stored.begin(Isolation::Snapshot).unwrap();
    let entries = (0..KEYS).map(|key| (key, transaction.get(key).unwrap()));
    let entries: Vec<_> = entries.filter(|(_, value)| *value != ABSENT).collect();
    // And no other key.
    let space = store.keyspace("history").unwrap();
    assert_eq!(store.range::<[u8]>(space, ..).unwrap().count(), entries.len());
    entries
}

/// Nothing that could still be lost leaves the process, not through a reader either.
#[test]
fn what_a_strict_transaction_has_read_is_durable() {
    let disk = SimDisk::default();
    let store = Store::create(Path::new(POOL), &options(&disk, IndexKind::Nvtree)).unwrap();
    let space = store.keyspace("x").unwrap();
    store.put(space, b"k", b"visible", Durability::Buffered).unwrap();
    assert!(store.durable() < store.visible());
    let mut transaction = store.transaction(tembo_kv::Isolation::Snapshot).unwrap();
    assert_eq!(transaction.get(space, b"k").unwrap().unwrap(), b"visible");
    let version = transaction.commit(Durability::Strict).unwrap();
    assert!(store.durable() >= version);
}

/// Threads that put single keys, each its own, in leaves of their own: in lanes beside each other.
#[test]
fn a_power_loss_leaves_what_lanes_have_acknowledged() {
    const THREADS: u64 = 4;
    const APART: u64 = 100;
    let mut overlapped = 0;
    for seed in 0..SEEDS {
        let disk = SimDisk::default();
        let store = Store::create(Path::new(POOL), &options(&disk, IndexKind::Nvtree)).unwrap();
        let space = store.keyspace("x").unwrap();
        for n in 0..THREADS * APART {
            store.put(space, &n.to_be_bytes(), &[0; 8], Durability::Buffered).unwrap();
        }
        store.sync().unwrap();
        disk.record();
        let clock = Clock::default();
        // Of each put when it was called, and when it had returned.
        let put_all = |thread: u64| {
            let key = (thread * APART).to_be_bytes();
            let put = |n: u64| {
                let called = clock.tick();
                store.put(space, &key, &n.to_le_bytes(), Durability::Strict).unwrap();
                let returned = clock.tick();
                // In every other history time enough for the rest, if one processor serves them all.
                (0..seed % 2 * 10).for_each(|_| std::thread::yield_now());
                disk.mark(clock.tick());
                (called, returned)
            };
            (1..=20).map(put).collect::<Vec<_>>()
        };
        let times: Vec<Vec<(u64, u64)>> = std::thread::scope(|scope| {
            let spawn = |thread| scope.spawn(move || put_all(thread));
            let threads: Vec<_> = (0..THREADS).map(spawn).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        drop(store);
        let points = disk.points();
        let mut random = Random::new(seed);
        for _ in 0..POINTS {
            let point = &points[random.below(points.len())];
            let disk = point.snapshot.after_power_loss(Chooser::new(Rest::Old));
            let store = Store::open(Path::new(POOL), &options(&disk, IndexKind::Nvtree)).unwrap();
            let space = store.keyspace("x").unwrap();
            let mut under_way = 0;
            for (thread, times) in (0..).zip(&times) {
                let found = store.get(space, &(thread * APART).to_be_bytes()).unwrap().unwrap();
                let found = u64::from_le_bytes(found.try_into().unwrap());
                let acknowledged = times.iter().filter(|time| time.1 < point.mark).count() as u64;
                assert!(acknowledged <= found, "seed {seed}: {found} of {acknowledged}");
                under_way += u64::from(found > acknowledged);
            }
            overlapped += u64::from(under_way > 1);
        }
    }
    println!("{overlapped} of {} with two under way", SEEDS * POINTS as u64);
    assert!(overlapped > 0, "no two were under way");
}

#[test]
fn a_power_loss_leaves_what_was_acknowledged() {
    for index in IndexKind::ALL {
        for seed in 0..SEEDS {
            let isolation = Isolation::ALL[seed as usize % 2];
            let (history, points) = run(index, isolation, seed);
            let mut random = Random::new(seed);
            for _ in 0..POINTS {
                let point = &points[random.below(points.len())];
                let rest = match random.below(4) {
                    0 => Rest::Old,
                    1 => Rest::New,
                    _ => Rest::Random(Random::new(random.number())),
                };
                let disk = point.snapshot.after_power_loss(Chooser::new(rest));
                // A transaction that was called later is not there: that is one of the ways not to have ended.
                let history = history.clone().until((point.mark, u64::MAX));
                let judged = check_crash(&history, &shown(&disk, index));
                judged.unwrap_or_else(|broken| {
                    let step = point.step;
                    panic!("{index:?}, seed {seed}, {step}: {}", broken.report(&history))
                });
            }
        }
    }
}
