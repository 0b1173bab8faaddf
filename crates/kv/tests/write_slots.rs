//! Threads that change single keys beside each other, and beside everything else that a store does: small
//! leaves, long keys, large values, removals, snapshots that stay, groups, transactions, clearing,
//! rollback, the background, a pool that is full.
//!
//! `TEMBO_STRESS` is a factor for the number of changes; `TEMBO_STRESS_SEED` is where chance begins.
#![allow(clippy::unwrap_used, clippy::panic)]

mod driver {
    pub(crate) mod map;
    pub(crate) mod random;
}

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use driver::map::{Map, all};
use driver::random::Random;
use tembo_kv::{Durability, Error, IndexKind, Isolation, Keyspace, Options, Progress, Store};
use tembo_pool::Geometry;

const THREADS: u64 = 4;
/// Keys of each thread.
const KEYS: u64 = 150;
const LENGTHS: [usize; 8] = [0, 3, 8, 8, 9, 100, 1500, 5000];

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// The kinds whose stores have write slots.
const SLOTTED: [IndexKind; 2] = [IndexKind::Nvtree, IndexKind::Hash];

fn store(index: IndexKind, background: bool, size_max: u64) -> (Store, Keyspace) {
    let options = Options::new()
        .index(index)
        .background(background)
        .geometry(Geometry::TINY)
        .size(256 << 10)
        .size_max(size_max);
    let store = Store::volatile(&options).unwrap();
    let space = store.keyspace("x").unwrap();
    settle(&store);
    (store, space)
}

/// Until the background has nothing left to do.
fn settle(store: &Store) {
    while store.maintain(64).unwrap() == Progress::More || store.report().recovering {
        std::thread::yield_now();
    }
}

/// Neighbours are of different threads; one in three is too long for a leaf, some without its prefix.
fn key(thread: u64, number: u64) -> Vec<u8> {
    let place = number * THREADS + thread;
    match number % 3 {
        0 => [&b"a prefix of many "[..], &place.to_be_bytes(), &[b'l'; 30]].concat(),
        1 => [&b"a prefix of many "[..], &place.to_be_bytes()].concat(),
        _ => (place << 40).to_be_bytes().to_vec(),
    }
}

fn value(random: &mut Random) -> Vec<u8> {
    let len = LENGTHS[random.below(LENGTHS.len() as u64) as usize];
    let mut value = vec![random.next() as u8; len];
    value.iter_mut().zip(random.next().to_le_bytes()).for_each(|(to, byte)| *to = byte);
    value
}

/// What one thread has put, and no other changes.
struct Owner<'s> {
    store: &'s Store,
    space: Keyspace,
    thread: u64,
    random: Random,
    map: Map,
    refused: u64,
}

impl<'s> Owner<'s> {
    fn all(store: &'s Store, space: Keyspace, seed: u64) -> Vec<Owner<'s>> {
        let owner = |thread| {
            let random = Random((seed << 8) + 2 * thread + 1);
            Owner { store, space, thread, random, map: Map::new(), refused: 0 }
        };
        (0..THREADS).map(owner).collect()
    }

    /// One change and one look.
    fn step(&mut self) {
        let number = self.random.below(KEYS);
        let key = key(self.thread, number);
        let there = self.map.contains_key(&key);
        let changed = if self.random.below(3) == 0 {
            let removed = self.store.remove(self.space, &key, Durability::Buffered);
            removed.inspect(|_| drop(self.map.remove(&key)))
        } else {
            let value = value(&mut self.random);
            let put = self.store.put(self.space, &key, &value, Durability::Buffered);
            put.inspect(|_| drop(self.map.insert(key.clone(), value)))
        };
        match changed {
            Ok(existed) => assert_eq!(existed, there, "{key:?}"),
            Err(Error::Full(_)) => self.refused += 1,
            Err(error) => panic!("{error}"),
        }
        self.look(&key);
        let other = crate::key(self.thread, self.random.below(KEYS));
        self.look(&other);
    }

    fn look(&self, key: &[u8]) {
        let found = self.store.get(self.space, key).unwrap();
        assert!(found.as_ref() == self.map.get(key), "{key:?}");
    }
}

/// Ends what goes on beside, be it by a panic.
struct Ends<'d>(&'d AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// The owners make so many changes each, with all of this beside them.
fn churn(owners: &mut [Owner<'_>], steps: u64, beside: &[&(dyn Fn() + Sync)]) {
    let (left, done) = (AtomicU64::new(owners.len() as u64), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for owner in owners {
            scope.spawn(|| {
                let _ends = Ends(&done);
                (0..steps).for_each(|_| owner.step());
                if left.fetch_sub(1, Ordering::AcqRel) > 1 {
                    std::mem::forget(_ends);
                }
            });
        }
        for work in beside {
            scope.spawn(|| {
                while !done.load(Ordering::Acquire) {
                    work();
                }
            });
        }
    });
}

fn union(owners: &[Owner<'_>]) -> Map {
    owners.iter().flat_map(|owner| owner.map.clone()).collect()
}

fn word(value: &[u8]) -> u64 {
    u64::from_le_bytes(value[..8].try_into().unwrap())
}

/// All is there, and every byte accounted for.
fn compare(store: &Store, space: Keyspace, expected: &Map) {
    settle(store);
    assert!(all(&store.snapshot().unwrap(), space) == *expected);
    assert_eq!(store.exclusive().unwrap().count(space), Some(expected.len() as u64));
    let check = store.check().unwrap();
    assert_eq!(check.leaked, 0, "{check:?}");
}

#[test]
fn lanes_beside_snapshots_groups_transactions_and_the_background() {
    for index in SLOTTED {
        let (seed, steps) = (number("TEMBO_STRESS_SEED", 1), 3000 * number("TEMBO_STRESS", 1));
        let (store, space) = store(index, true, 256 << 20);
        let (other, counters) =
            (store.keyspace("other").unwrap(), store.keyspace("counters").unwrap());
        let mut owners = Owner::all(&store, space, seed);
        // What a snapshot shows stays, whatever happens meanwhile.
        let look = || {
            let snapshot = store.snapshot().unwrap();
            let first = all(&snapshot, space);
            (0..300).for_each(|_| std::thread::yield_now());
            assert!(first == all(&snapshot, space));
        };
        // A keyspace that is cleared while it is written.
        let clear = || {
            for n in (0..40_u64).cycle().take(2000) {
                store.put(other, &n.to_be_bytes(), &[7; 300], Durability::Buffered).unwrap();
            }
            let mut writer = store.exclusive().unwrap();
            writer.clear(other).unwrap();
            writer.put(other, b"left", b"1").unwrap();
            writer.commit(Durability::Buffered).unwrap();
            assert_eq!(store.get(other, b"left").unwrap().as_deref(), Some(&b"1"[..]));
        };
        // Two counters that rise together.
        let counts = AtomicU64::new(0);
        let count = || {
            let rise = store.with_retry(Isolation::Serialisable, Durability::Buffered, |tx| {
                let a = tx.get(counters, b"a")?.map_or(0, |value| word(&value));
                let b = tx.get(counters, b"b")?.map_or(0, |value| word(&value));
                assert_eq!(a, b);
                tx.put(counters, b"a", &(a + 1).to_le_bytes())?;
                tx.put(counters, b"b", &(a + 1).to_le_bytes())
            });
            // Of the tries of a transaction that others always come before, none may be left.
            let before = rise.map(|()| counts.fetch_add(1, Ordering::Relaxed));
            if before.is_ok_and(|before| before < 1000 && before % 50 == 0) {
                // A group that is given up.
                let mut writer = store.exclusive().unwrap();
                writer.put(counters, b"a", b"never").unwrap();
            }
        };
        churn(&mut owners, steps, &[&look, &clear, &count]);
        let found = store.get(counters, b"a").unwrap().map_or(0, |value| word(&value));
        assert_eq!(found, counts.load(Ordering::Relaxed));
        compare(&store, space, &union(&owners));
    }
}

#[test]
fn slots_with_nothing_beside_them_but_old_snapshots() {
    for index in SLOTTED {
        let (seed, steps) = (number("TEMBO_STRESS_SEED", 1), 4000 * number("TEMBO_STRESS", 1));
        let (store, space) = store(index, true, 256 << 20);
        let mut owners = Owner::all(&store, space, seed ^ 0x55);
        for _ in 0..3 {
            churn(&mut owners, steps / 6, &[]);
            let (snapshot, then) = (store.snapshot().unwrap(), union(&owners));
            churn(&mut owners, steps / 6, &[]);
            assert!(all(&snapshot, space) == then);
            drop(snapshot);
            compare(&store, space, &union(&owners));
        }
    }
}

#[test]
fn threads_come_and_go_and_there_are_more_than_lanes() {
    for index in SLOTTED {
        const AT_A_TIME: u64 = 80;
        const WAVES: u64 = 3;
        let steps = 60 * number("TEMBO_STRESS", 1);
        let (store, space) = store(index, true, 256 << 20);
        let key =
            |thread: u64, step: u64| [thread.to_be_bytes(), (step % 50).to_be_bytes()].concat();
        for wave in 0..WAVES {
            let all_have_begun = std::sync::Barrier::new(AT_A_TIME as usize);
            let live = |thread: u64| {
                for step in 0..steps {
                    if step == 1 {
                        all_have_begun.wait();
                    }
                    let (key, value) = (key(thread, step), step.to_be_bytes());
                    let existed = store.put(space, &key, &value, Durability::Buffered).unwrap();
                    assert_eq!(existed, step >= 50);
                    assert_eq!(store.get(space, &key).unwrap().as_deref(), Some(&value[..]));
                }
            };
            std::thread::scope(|scope| {
                let live = &live;
                for thread in 0..AT_A_TIME {
                    scope.spawn(move || live(wave * AT_A_TIME + thread));
                }
            });
        }
        let last = |step: u64| steps - 1 - (steps - 1 - step) % 50;
        let left =
            (0..WAVES * AT_A_TIME).flat_map(|thread| (0..50).map(move |step| (thread, step)));
        let expected = left.map(|(thread, n)| (key(thread, n), last(n).to_be_bytes().to_vec()));
        compare(&store, space, &expected.collect());
    }
}

#[test]
fn what_was_rolled_back_is_void_and_slots_go_on() {
    for index in SLOTTED {
        let (seed, steps) = (number("TEMBO_STRESS_SEED", 1), 500 * number("TEMBO_STRESS", 1));
        let (store, space) = store(index, true, 256 << 20);
        let mut owners = Owner::all(&store, space, seed ^ 0xaa);
        for _ in 0..6 {
            churn(&mut owners, steps, &[]);
            let version = store.save_snapshot("then").unwrap();
            let then: BTreeMap<u64, Map> =
                owners.iter().map(|owner| (owner.thread, owner.map.clone())).collect();
            churn(&mut owners, steps, &[]);
            store.rollback(version).unwrap();
            owners.iter_mut().for_each(|owner| owner.map = then[&owner.thread].clone());
            churn(&mut owners, steps / 4, &[]);
            compare(&store, space, &union(&owners));
        }
    }
}

#[test]
fn what_finds_no_room_in_a_lane_changes_nothing() {
    for index in SLOTTED {
        let (seed, steps) = (number("TEMBO_STRESS_SEED", 1), 1500 * number("TEMBO_STRESS", 1));
        for background in [true, false] {
            let (store, space) = store(index, background, 512 << 10);
            let mut owners = Owner::all(&store, space, seed ^ 0xff);
            churn(&mut owners, steps, &[]);
            let refused: u64 = owners.iter().map(|owner| owner.refused).sum();
            assert!(refused > 0 && refused < THREADS * steps / 2, "{refused}");
            compare(&store, space, &union(&owners));
        }
    }
}
