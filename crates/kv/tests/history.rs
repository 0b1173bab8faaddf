//! Time: a window of versions stays readable, and everything that happened in it is reported, compared with a map
//! for every version.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tembo_kv::backup::restore;
use tembo_kv::{
    Change, Durability, Error, Event, Holder, HolderKind, IndexKind, Isolation, Options, Progress,
    Retention, SaveOptions, Since, Store, Transaction,
};
use tembo_pmem::{DomainRequest, RegionOptions};
use tembo_pool::PoolOptions;

#[path = "driver/directory.rs"]
mod directory;
#[path = "driver/map.rs"]
mod map;
#[path = "driver/random.rs"]
mod random;
#[path = "driver/state.rs"]
mod state;

use directory::Directory;
use random::Random;
use state::{State, state};

/// The indexes under test.
const NAMES: [&str; 2] = ["a", "b"];

fn go_on(_: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn options(domain: DomainRequest, index: IndexKind) -> Options {
    let (size_max, log_size, private_max) = (1 << 30, 1 << 20, 256 << 10);
    let region =
        RegionOptions { domain, size_max, log_size, private_max, ..RegionOptions::default() };
    let pool = PoolOptions { size: 4 << 20, region, ..PoolOptions::default() };
    Options::new().pool(pool).index(index).background(false)
}

fn idle(store: &Store) {
    while store.maintain(16).unwrap() == Progress::More {}
}

/// A store, and what it was at each version.
struct Past {
    store: Store,
    now: State,
    then: BTreeMap<u64, State>,
    random: Random,
}

impl Past {
    fn new(store: Store, seed: u64) -> Past {
        NAMES.iter().for_each(|name| assert!(store.keyspace(name).is_ok()));
        let now: State = NAMES.iter().map(|name| ((*name).into(), BTreeMap::new())).collect();
        let then = BTreeMap::from([(store.visible(), now.clone())]);
        Past { store, now, then, random: Random(seed) }
    }

    /// Short and long keys and values, few enough to meet again.
    fn pair(&mut self) -> (Vec<u8>, Vec<u8>) {
        let number = self.random.below(60);
        let tail = if number.is_multiple_of(3) { "-and-a-tail-beyond-eight-bytes" } else { "" };
        let key = format!("key{number:03}{tail}").into_bytes();
        let len = [3, 8, 40, 300][self.random.below(4) as usize];
        (key, (0..len).map(|_| self.random.below(256) as u8).collect())
    }

    fn step(&mut self) {
        let name = NAMES[self.random.below(2) as usize];
        let space = self.store.keyspace(name).unwrap();
        let (key, value) = self.pair();
        match self.random.below(12) {
            0..5 => {
                self.store.put(space, &key, &value, Durability::Buffered).unwrap();
                self.now.get_mut(name).unwrap().insert(key, value);
            }
            5..8 => {
                self.store.remove(space, &key, Durability::Buffered).unwrap();
                self.now.get_mut(name).unwrap().remove(&key);
            }
            8..11 => self.group(),
            _ if self.random.below(10) == 0 => {
                let mut tx = self.store.exclusive().unwrap();
                tx.put(space, &key, &value).unwrap();
                tx.clear(space).unwrap();
                tx.put(space, b"first", b"again").unwrap();
                tx.commit(Durability::Buffered).unwrap();
                let again = BTreeMap::from([(b"first".to_vec(), b"again".to_vec())]);
                self.now.insert(name.into(), again);
            }
            _ => {
                let mut tx = self.store.exclusive().unwrap();
                tx.put(space, &key, b"never").unwrap();
                drop(tx);
            }
        }
        self.then.insert(self.store.visible(), self.now.clone());
    }

    fn group(&mut self) {
        let pairs: Vec<_> = (0..1 + self.random.below(6)).map(|_| self.pair()).collect();
        let spaces = NAMES.map(|name| self.store.keyspace(name).unwrap());
        let mut tx = self.store.exclusive().unwrap();
        for (at, (key, value)) in pairs.into_iter().enumerate() {
            let map = self.now.get_mut(NAMES[at % 2]).unwrap();
            if at % 3 == 2 {
                tx.remove(spaces[at % 2], &key).unwrap();
                map.remove(&key);
            } else {
                tx.put(spaces[at % 2], &key, &value).unwrap();
                map.insert(key, value);
            }
        }
        tx.commit(Durability::Buffered).unwrap();
    }

    /// The state at a version: that of the last one noted up to it.
    fn at(&self, version: u64) -> &State {
        self.then.range(..=version).next_back().unwrap().1
    }

    /// Reads at the versions of the window, and between them.
    fn read_all(&self) {
        let oldest = self.store.oldest();
        let noted = self.then.range(oldest..).flat_map(|(&version, _)| [version - 1, version]);
        for version in noted.chain([oldest]).filter(|version| *version >= oldest) {
            assert_eq!(state(&self.store.snapshot_at(version).unwrap()), *self.at(version));
        }
    }

    /// Applies what happened after some version; at the end of each version the state is that version's.
    fn follow(&self, after: u64, budget: usize) {
        let mut state = self.at(after).clone();
        let mut last = after;
        let mut changes = self.store.changes(after).unwrap().with_budget(budget);
        while let Some(change) = changes.next().unwrap() {
            if change.version != last {
                assert!(change.version > last);
                assert_eq!(state, *self.at(change.version - 1), "before {}", change.version);
                last = change.version;
            }
            apply(&mut state, change);
        }
        assert_eq!(changes.position(), self.store.durable());
        assert_eq!(state, *self.at(self.store.durable()));
    }
}

fn apply(state: &mut State, change: Change) {
    let map = state.entry(change.keyspace.to_string()).or_default();
    match change.event {
        Event::Created => assert!(map.is_empty()),
        Event::Cleared => map.clear(),
        Event::Put { key, value } => drop(map.insert(key, value)),
        Event::Removed { key } => drop(map.remove(&key)),
    }
}

#[test]
fn every_version_of_the_window_is_read_and_followed() {
    for index in IndexKind::ALL {
        let store = Store::volatile(&options(DomainRequest::Volatile, index)).unwrap();
        let mut past = Past::new(store, 77);
        let from = past.store.retain(Retention::Since(past.store.visible())).unwrap();
        for round in 0..400 {
            past.step();
            if round % 50 == 0 {
                idle(&past.store);
            }
        }
        idle(&past.store);
        assert_eq!(past.store.oldest(), from);
        past.read_all();
        for (step, &after) in past.then.keys().collect::<Vec<_>>().iter().enumerate() {
            if *after >= from && step % 20 == 0 {
                past.follow(*after, 1 << 20);
                past.follow(*after, 1000);
            }
        }
        assert_eq!(past.store.check().unwrap().leaked, 0);
    }
}

#[test]
fn a_window_moves_on_and_gives_back_what_it_leaves() {
    for index in IndexKind::ALL {
        let store = Store::volatile(&options(DomainRequest::Volatile, index)).unwrap();
        let mut past = Past::new(store, 4711);
        past.store.retain(Retention::Versions(200)).unwrap();
        let mut used = Vec::new();
        for round in 0..3000 {
            past.step();
            if round % 100 == 0 {
                idle(&past.store);
                used.push(past.store.report().used_bytes);
            }
        }
        idle(&past.store);
        let (oldest, visible) = (past.store.oldest(), past.store.visible());
        assert!((visible - 200 - 64 - 1..=visible - 200).contains(&oldest), "{oldest} {visible}");
        past.read_all();
        past.follow(oldest, 1 << 20);
        let refused = past.store.snapshot_at(oldest - 1).err().unwrap();
        assert!(matches!(refused, Error::NotRetained { version } if version == oldest - 1));
        let refused = past.store.changes(oldest - 1).err().unwrap();
        let is_forgotten = matches!(refused, Error::HistoryForgotten { version, oldest: from }
            if version == oldest - 1 && from == oldest);
        assert!(is_forgotten, "{refused}");
        let (early, late) = (used[5..10].iter().max().unwrap(), used.last().unwrap());
        assert!(*late < 2 * early, "{early} {late}");
        past.store.retain(Retention::Nothing).unwrap();
        assert_eq!(past.store.oldest(), past.store.visible());
        assert!(past.store.snapshot_at(visible - 1).is_err());
        assert_eq!(past.store.check().unwrap().leaked, 0);
    }
}

fn reopen(path: &Path, domain: DomainRequest, index: IndexKind) -> Store {
    Store::open(path, &options(domain, index)).unwrap()
}

#[test]
fn a_window_survives_the_process() {
    for index in IndexKind::ALL {
        for domain in [DomainRequest::Logged, DomainRequest::Flush] {
            let directory = Directory::new("window");
            let path = directory.pool();
            let mut past = Past::new(Store::create(&path, &options(domain, index)).unwrap(), 99);
            past.store.retain(Retention::Versions(150)).unwrap();
            for _ in 0..5 {
                (0..80).for_each(|_| past.step());
                past.store.sync().unwrap();
                let (oldest, last) = (past.store.oldest(), past.store.visible());
                // Without a clean stop.
                let Past { store, now, then, random } = past;
                drop(store);
                let store = reopen(&path, domain, index);
                assert!(store.oldest() <= oldest, "what was kept is kept");
                assert_eq!(store.retention(), Retention::Versions(150));
                past = Past { store, now, then, random };
                for version in past.then.range(oldest..=last).map(|(version, _)| *version) {
                    let snapshot = past.store.snapshot_at(version).unwrap();
                    assert_eq!(state(&snapshot), *past.at(version), "{version}");
                }
                idle(&past.store);
                past.follow(oldest, 5000);
                assert_eq!(past.store.check().unwrap().leaked, 0);
            }
            (0..600).for_each(|_| past.step());
            idle(&past.store);
            past.read_all();
            assert_eq!(past.store.check().unwrap().leaked, 0);
        }
    }
}

#[test]
fn a_rollback_goes_to_any_version_of_the_window_and_followers_learn_of_it() {
    for index in IndexKind::ALL {
        let store = Store::volatile(&options(DomainRequest::Volatile, index)).unwrap();
        let mut past = Past::new(store, 31);
        past.store.retain(Retention::Since(past.store.visible())).unwrap();
        for round in 0..8 {
            (0..60).for_each(|_| past.step());
            let (from, to) = (past.store.oldest(), past.store.visible());
            // To long ago, and to what happened since the last rollback.
            let reach = if round % 2 == 0 { to - from } else { 50 };
            let version = to - 1 - past.random.below(reach);
            let mut later = past.store.changes(to).unwrap();
            let mut behind = past.store.changes(from).unwrap();
            past.store.rollback(version).unwrap();
            past.now = past.at(version).clone();
            past.then.split_off(&(version + 1));
            past.then.insert(past.store.visible(), past.now.clone());
            let refused = later.next().unwrap_err();
            assert!(matches!(refused, Error::RolledBack { version: it, to: back }
                if it == to && back <= version));
            assert!(past.store.changes(to).is_err_and(|e| matches!(e, Error::RolledBack { .. })));
            let mut copy = past.at(from).clone();
            while let Some(change) = behind.next().unwrap() {
                apply(&mut copy, change);
            }
            assert_eq!(copy, past.now);
            drop((later, behind));
            idle(&past.store);
            past.read_all();
            // In one pass, and in many, which end between what was rolled back before.
            past.follow(from, 1 << 20);
            past.follow(from, 300);
        }
        assert_eq!(past.store.check().unwrap().leaked, 0);
    }
}

#[test]
fn a_follower_needs_no_window_and_what_it_was_given_is_given_back() {
    for index in IndexKind::ALL {
        let store = Store::volatile(&options(DomainRequest::Volatile, index)).unwrap();
        let mut past = Past::new(store, 5);
        let (mut copy, after) = (past.now.clone(), past.store.visible());
        let mut changes = past.store.changes(after).unwrap();
        // The follower has a share of the store.
        let store = &past.store;
        let space = store.keyspace("a").unwrap();
        let mut map = BTreeMap::new();
        for round in 0..3000u64 {
            let key = format!("key{}", past.random.below(50)).into_bytes();
            let value = vec![round as u8; 200];
            store.put(space, &key, &value, Durability::Buffered).unwrap();
            map.insert(key, value);
            if past.random.below(100) == 0 {
                while let Some(change) = changes.next().unwrap() {
                    apply(&mut copy, change);
                }
                assert_eq!(copy["a"], map);
                assert_eq!(changes.position(), store.visible());
                idle(store);
                assert!(store.report().used_bytes < 256 << 10, "{}", store.report().used_bytes);
            }
        }
    }
}

#[test]
fn the_horizon_says_what_holds_it_back() {
    let options = options(DomainRequest::Volatile, IndexKind::Nvtree);
    let store = Store::volatile(&options).unwrap();
    idle(&store);
    assert_eq!(store.horizon().holders, []);
    let space = store.keyspace("a").unwrap();
    let mut expected = Vec::new();
    let mut next = |kind| {
        store.put(space, b"key", b"value", Durability::Strict).unwrap();
        expected.push(Holder { version: store.visible(), kind });
        store.visible()
    };
    let first = next(HolderKind::Named("daily".into()));
    store.save_snapshot("daily").unwrap();
    next(HolderKind::Handles(2));
    let handles = (store.snapshot().unwrap(), store.snapshot().unwrap());
    let followed = next(HolderKind::Followers(1));
    let changes = store.changes(followed).unwrap();
    next(HolderKind::Window);
    store.retain(Retention::Versions(1000)).unwrap();
    store.put(space, b"key", b"value", Durability::Strict).unwrap();
    let horizon = store.horizon();
    assert_eq!((horizon.version, horizon.visible), (first, store.visible()));
    assert_eq!(horizon.holders, expected);
    assert_eq!(store.report().horizon, horizon);
    store.drop_snapshot("daily").unwrap();
    drop(changes);
    drop(handles);
    assert_eq!(store.horizon().holders, expected[3..]);
    assert_eq!(store.horizon().version, store.oldest());
}

/// Moves one from a key to another; some keys are taken away and put back with what they had.
fn transfer(store: &Store, round: u64, accounts: u64) {
    let space = store.keyspace("a").unwrap();
    let (from, to) = (round * 7919 % accounts, (round * 104_729 + 1) % accounts);
    let mut tx = store.exclusive().unwrap();
    let read = |tx: &tembo_kv::Exclusive, account: u64| {
        let bytes = tx.get(space, &account.to_be_bytes()).unwrap();
        bytes.map_or(0, |bytes| i64::from_le_bytes(bytes.array(0).unwrap()))
    };
    for (account, amount) in [(from, -1), (to, 1)] {
        let sum = read(&tx, account) + amount;
        if sum == 0 {
            tx.remove(space, &account.to_be_bytes()).unwrap();
        } else {
            tx.put(space, &account.to_be_bytes(), &sum.to_le_bytes()).unwrap();
        }
    }
    tx.commit(Durability::Buffered).unwrap();
}

/// The same, beside others.
fn transfer_beside(store: &Store, round: u64, accounts: u64) {
    let space = store.keyspace("a").unwrap();
    let (from, to) = (round * 31 % accounts, (round * 7919 + 1) % accounts);
    let work = |tx: &mut Transaction| {
        for (account, amount) in [(from, -1), (to, 1)] {
            let key = account.to_be_bytes();
            let before = tx.get(space, &key)?.and_then(|bytes| bytes.try_into().ok());
            match before.map_or(0, i64::from_le_bytes) + amount {
                0 => tx.remove(space, &key)?,
                sum => tx.put(space, &key, &sum.to_le_bytes())?,
            }
        }
        Ok(())
    };
    store.with_retry(Isolation::Snapshot, Durability::Buffered, work).unwrap();
}

#[test]
fn a_follower_of_writers_at_work_sees_each_version_whole() {
    const ACCOUNTS: u64 = 300;
    const ROUNDS: u64 = 20_000;
    for index in IndexKind::ALL {
        let options = options(DomainRequest::Volatile, index).background(true);
        let store = Store::volatile(&options).unwrap();
        store.keyspace("a").unwrap();
        let after = store.visible();
        let (done, given) = (AtomicBool::new(false), AtomicU64::new(0));
        // Before the first of them is made, so that all are retained.
        let changes = store.changes(after).unwrap().with_budget(20_000);
        let follow = || {
            let mut changes = changes;
            let (mut map, mut sum, mut last) = (BTreeMap::new(), 0, after);
            loop {
                let is_over = done.load(Ordering::Acquire);
                while let Some(change) = changes.next().unwrap() {
                    if change.version != last {
                        assert!(change.version > last);
                        assert_eq!(sum, 0, "before version {}", change.version);
                        last = change.version;
                    }
                    let number = |bytes: Vec<u8>| i64::from_le_bytes(bytes.try_into().unwrap());
                    let before = match change.event {
                        Event::Put { key, value } => {
                            sum += number(value.clone());
                            map.insert(key, value)
                        }
                        Event::Removed { key } => map.remove(&key),
                        other => panic!("{other:?}"),
                    };
                    sum -= before.map_or(0, number);
                }
                given.store(changes.position(), Ordering::Release);
                if is_over {
                    break map;
                }
            }
        };
        let map = std::thread::scope(|scope| {
            let follower = scope.spawn(follow);
            let beside = || (0..ROUNDS / 4).for_each(|n| transfer_beside(&store, n, ACCOUNTS));
            let writers = [scope.spawn(beside), scope.spawn(beside)];
            for round in 0..ROUNDS / 2 {
                transfer(&store, round, ACCOUNTS);
                let until = if round % 2000 == 0 { store.visible() } else { 0 };
                while given.load(Ordering::Acquire) < until {
                    std::thread::yield_now();
                }
            }
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            done.store(true, Ordering::Release);
            follower.join().unwrap()
        });
        assert_eq!(map, state(&store.snapshot().unwrap())["a"]);
        assert_eq!(store.check().unwrap().leaked, 0);
    }
}

/// Incremental backups are differences between two versions of which only these are kept.
#[test]
fn a_difference_is_found_beside_a_writer_at_work() {
    let directory = Directory::new("difference");
    for index in IndexKind::ALL {
        let options = options(DomainRequest::Volatile, index).background(true);
        let store = Store::volatile(&options).unwrap();
        let space = store.keyspace("a").unwrap();
        (0..2000).for_each(|round| transfer(&store, round, 900));
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let write = || {
                let mut round = 2000;
                while !stop.load(Ordering::Relaxed) {
                    transfer(&store, round, 900);
                    round += 1;
                }
            };
            let writer = scope.spawn(write);
            for number in 0..20 {
                let file = directory.file(&format!("{}-{number}", index.name()));
                let keep = SaveOptions { since: None, keep: Some("before".into()) };
                let whole = store.save(&file, &keep, &mut go_on).unwrap();
                (0..200).for_each(|_| {
                    store.put(space, b"x", b"12345678", Durability::Buffered).unwrap();
                });
                let since = SaveOptions { since: Some(Since::Version(whole.until)), keep: None };
                let part = file.with_extension("part");
                store.save(&part, &since, &mut go_on).unwrap();
                let pool = file.with_extension("pool");
                let kind = IndexKind::ALL[number % 3];
                let made = self::options(DomainRequest::Logged, kind);
                restore(&[&file, &part], &pool, &made, &mut |_| ()).unwrap();
                let again = Store::open(&pool, &made).unwrap();
                let mut map = state(&again.snapshot().unwrap()).remove("a").unwrap();
                assert!(map.remove(&b"x"[..]).is_some());
                let number = |bytes: &Vec<u8>| i64::from_le_bytes(bytes[..].try_into().unwrap());
                assert_eq!(map.values().map(number).sum::<i64>(), 0);
            }
            stop.store(true, Ordering::Relaxed);
            writer.join().unwrap();
        });
    }
}
