//! Ranges of keys that are removed in one step, against a map for every version, while the background erases them.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::path::Path;

use tembo_kv::backup::restore;
use tembo_kv::{
    Change, Direction, Durability, Error, Event, IndexKind, Isolation, Keyspace, Options, Progress,
    Retention, SaveOptions, Since, Store,
};
use tembo_pmem::{Counters, DomainRequest, RegionOptions};
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
use map::Map;
use random::Random;
use state::{State, state};

const NAMES: [&str; 2] = ["a", "b"];

fn options(domain: DomainRequest, index: IndexKind) -> Options {
    let (size_max, log_size) = (1 << 30, 1 << 20);
    let region = RegionOptions { domain, size_max, log_size, ..RegionOptions::default() };
    let pool = PoolOptions { size: 4 << 20, region, ..PoolOptions::default() };
    Options::new().pool(pool).index(index).background(false)
}

fn volatile(index: IndexKind) -> Store {
    Store::volatile(&options(DomainRequest::Volatile, index)).unwrap()
}

fn idle(store: &Store) {
    while store.maintain(16).unwrap() == Progress::More {}
}

fn key(number: u64) -> Vec<u8> {
    let tail = if number.is_multiple_of(3) { "-and-a-tail-beyond-eight-bytes" } else { "" };
    format!("key{number:04}{tail}").into_bytes()
}

type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

fn borrowed(range: &Bounds) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (range.0.as_ref().map(Vec::as_slice), range.1.as_ref().map(Vec::as_slice))
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

    fn key(&mut self) -> Vec<u8> {
        key(self.random.below(300))
    }

    fn range(&mut self) -> Bounds {
        let mut ends = [self.key(), self.key()];
        ends.sort();
        let [from, to] = ends;
        let from = match self.random.below(5) {
            0 => Bound::Unbounded,
            1 => Bound::Excluded(from),
            _ => Bound::Included(from),
        };
        let to = match self.random.below(5) {
            0 => Bound::Unbounded,
            1 => Bound::Included(to),
            _ => Bound::Excluded(to),
        };
        if from == Bound::Unbounded && to == Bound::Unbounded { self.range() } else { (from, to) }
    }

    fn step(&mut self) {
        let name = NAMES[self.random.below(2) as usize];
        let space = self.store.keyspace(name).unwrap();
        let value = vec![self.random.below(256) as u8; [3, 40, 300][self.random.below(3) as usize]];
        match self.random.below(20) {
            0..5 => {
                let key = self.key();
                let was = self.store.put(space, &key, &value, Durability::Buffered).unwrap();
                assert_eq!(was, self.now.get_mut(name).unwrap().insert(key, value).is_some());
            }
            5..7 => {
                let key = self.key();
                let was = self.store.remove(space, &key, Durability::Buffered).unwrap();
                assert_eq!(was, self.now.get_mut(name).unwrap().remove(&key).is_some());
            }
            7 => {
                let range = self.range();
                self.store
                    .remove_range::<[u8]>(space, borrowed(&range), Durability::Buffered)
                    .unwrap();
                self.take_out(name, &range);
            }
            8..11 => self.exclusive(name, space, &value),
            11..14 => self.transaction(name, space, &value),
            14 if self.random.below(4) == 0 => {
                let mut tx = self.store.exclusive().unwrap();
                tx.remove_range::<[u8]>(space, ..).unwrap();
                tx.clear(space).unwrap();
                tx.commit(Durability::Buffered).unwrap();
                self.now.get_mut(name).unwrap().clear();
            }
            _ => drop(self.store.maintain(1 + self.random.below(3) as usize).unwrap()),
        }
        self.then.insert(self.store.visible(), self.now.clone());
        let (snapshot, key) = (self.store.snapshot().unwrap(), self.key());
        let expected = self.now[name].get(&key);
        assert_eq!(
            snapshot.get(space, &key).unwrap().map(|value| value.to_vec()).as_ref(),
            expected
        );
        assert_eq!(self.store.get(space, &key).unwrap().as_ref(), expected);
    }

    fn take_out(&mut self, name: &str, range: &Bounds) {
        take_out(self.now.get_mut(name).unwrap(), range);
    }

    fn exclusive(&mut self, name: &str, space: Keyspace, value: &[u8]) {
        let mut map = self.now[name].clone();
        let store = self.store.clone();
        let mut tx = store.exclusive().unwrap();
        let mut saved = None;
        for _ in 0..self.random.below(8) {
            let key = self.key();
            match self.random.below(6) {
                0 => {
                    let range = self.range();
                    tx.remove_range::<[u8]>(space, borrowed(&range)).unwrap();
                    take_out(&mut map, &range);
                }
                1 => assert_eq!(tx.remove(space, &key).unwrap(), map.remove(&key).is_some()),
                2 => {
                    tx.savepoint();
                    saved = Some(map.clone());
                }
                3 if saved.is_some() => {
                    tx.rollback_to_savepoint().unwrap();
                    map.clone_from(saved.as_ref().unwrap());
                }
                _ => {
                    let was = tx.put(space, &key, value).unwrap();
                    assert_eq!(was, map.insert(key.clone(), value.to_vec()).is_some());
                }
            }
            let found = tx.get(space, &key).unwrap().map(|value| value.to_vec());
            assert_eq!(found.as_ref(), map.get(&key));
        }
        if let Some(count) = tx.count(space) {
            assert_eq!(count, map.len() as u64);
        }
        let all: Map = tx.range::<[u8]>(space, ..).unwrap().map(Result::unwrap).collect();
        assert!(all == map);
        if self.random.below(4) > 0 {
            tx.commit(Durability::Buffered).unwrap();
            self.now.insert(name.into(), map);
        }
    }

    fn transaction(&mut self, name: &str, space: Keyspace, value: &[u8]) {
        let mut map = self.now[name].clone();
        let store = self.store.clone();
        let mut tx = store.transaction(Isolation::Serialisable).unwrap();
        let mut saved = None;
        for _ in 0..self.random.below(8) {
            let key = self.key();
            match self.random.below(6) {
                0 => {
                    let range = self.range();
                    tx.remove_range::<[u8]>(space, borrowed(&range)).unwrap();
                    take_out(&mut map, &range);
                }
                1 => {
                    tx.remove(space, &key).unwrap();
                    map.remove(&key);
                }
                2 => saved = Some((tx.savepoint(), map.clone())),
                3 if saved.is_some() => {
                    let (point, before) = saved.as_ref().unwrap();
                    tx.rollback_to(point).unwrap();
                    map.clone_from(before);
                }
                _ => {
                    tx.put(space, &key, value).unwrap();
                    map.insert(key.clone(), value.to_vec());
                }
            }
            assert_eq!(tx.get(space, &key).unwrap().as_ref(), map.get(&key));
        }
        let all: Map = tx.range::<[u8]>(space, ..).unwrap().map(Result::unwrap).collect();
        assert!(all == map);
        if self.random.below(4) > 0 {
            tx.commit(Durability::Buffered).unwrap();
            self.now.insert(name.into(), map);
        }
    }

    fn at(&self, version: u64) -> &State {
        self.then.range(..=version).next_back().unwrap().1
    }

    /// Reads at the noted versions of the window, in both directions.
    fn read_all(&self) {
        let oldest = self.store.oldest();
        for (&version, expected) in self.then.range(oldest..) {
            let snapshot = self.store.snapshot_at(version).unwrap();
            assert!(state(&snapshot) == *expected, "at {version}");
            for (name, space) in snapshot.keyspaces().unwrap() {
                let mut backward = Vec::new();
                let all = ..;
                let mut visit = |key: &[u8], _: tembo_kv::Value<'_>| {
                    backward.push(key.to_vec());
                    backward.len() < 20
                };
                snapshot.range_with::<[u8]>(space, all, Direction::Backward, &mut visit).unwrap();
                assert!(backward.iter().eq(expected[&name].keys().rev().take(20)));
            }
        }
    }

    /// What happened, applied to what was there: at the noted versions it is what was noted.
    fn follow(&self, after: u64) {
        self.store.sync().unwrap();
        // A version that was not noted is a part of a commit that has several.
        let after = *self.then.range(after..).next().unwrap().0;
        let mut state = self.at(after).clone();
        let mut changes = self.store.changes(after).unwrap();
        let mut last = after;
        while let Some(change) = changes.next().unwrap() {
            if change.version != last {
                if let Some(noted) = self.then.get(&last) {
                    assert!(state == *noted, "at {last}");
                }
                last = change.version;
            }
            apply(&mut state, change);
        }
        assert!(state == self.now);
    }
}

fn take_out(map: &mut Map, range: &Bounds) {
    use std::ops::RangeBounds;
    map.retain(|key, _| !range.contains(key));
}

fn apply(state: &mut State, Change { keyspace, event, .. }: Change) {
    let map = state.entry(keyspace.to_string()).or_default();
    match event {
        Event::Created => {}
        Event::Cleared => map.clear(),
        Event::Put { key, value } => drop(map.insert(key, value)),
        Event::Removed { key } => drop(map.remove(&key)),
    }
}

#[test]
fn every_version_shows_what_was_there_whatever_is_erased() {
    for index in IndexKind::ORDERED {
        for seed in 1..5 {
            println!("{index:?} {seed}");
            let store = volatile(index);
            store.retain(Retention::Versions(40 * seed)).unwrap();
            let mut past = Past::new(store, seed * 0x9E37_79B9);
            for _ in 0..15 {
                (0..20).for_each(|_| past.step());
                past.read_all();
                past.follow(past.store.oldest());
            }
            idle(&past.store);
            past.read_all();
            past.store.retain(Retention::Nothing).unwrap();
            idle(&past.store);
            past.read_all();
            let count = past.store.exclusive().unwrap();
            for name in NAMES {
                let space = past.store.keyspace(name).unwrap();
                assert_eq!(count.count(space), Some(past.now[name].len() as u64));
            }
            drop(count);
            past.store.check().unwrap();
        }
    }
}

#[test]
fn a_rollback_takes_back_ranges_that_were_removed_and_erased() {
    for index in IndexKind::ORDERED {
        for seed in 1..4 {
            let store = volatile(index);
            store.retain(Retention::Versions(1 << 20)).unwrap();
            let mut past = Past::new(store, seed * 0x51_7C_C1);
            for _ in 0..10 {
                (0..15).for_each(|_| past.step());
                let noted: Vec<u64> = past.then.keys().copied().collect();
                let at = noted.len() - 1 - past.random.below(10) as usize;
                past.store.rollback(noted[at]).unwrap();
                past.then.split_off(&(noted[at] + 1));
                past.now = past.then[&noted[at]].clone();
                past.then.insert(past.store.visible(), past.now.clone());
                past.read_all();
            }
            idle(&past.store);
            past.read_all();
            past.store.check().unwrap();
        }
    }
}

#[test]
fn what_was_removed_stays_so_over_crashes() {
    for index in IndexKind::ORDERED {
        let directory = Directory::new(&format!("removed-ranges-{index:?}"));
        let options = options(DomainRequest::Flush, index);
        let mut path = directory.file("0.pool");
        let store = Store::create(&path, &options).unwrap();
        store.retain(Retention::Versions(60)).unwrap();
        let mut past = Past::new(store, 1234);
        for round in 1..12 {
            (0..25).for_each(|_| past.step());
            if round % 3 == 0 {
                past.store.save_snapshot("kept").unwrap();
            }
            let space = past.store.keyspace("a").unwrap();
            let mut tx = past.store.exclusive().unwrap();
            tx.remove_range::<[u8]>(space, ..).unwrap();
            let after = directory.file(&format!("{round}.pool"));
            std::fs::copy(&path, &after).unwrap();
            drop(tx);
            past.store = Store::open(&after, &options).unwrap();
            std::fs::remove_file(&path).unwrap();
            path = after;
            past.then.insert(past.store.visible(), past.now.clone());
            past.read_all();
            past.follow(past.store.oldest());
        }
        idle(&past.store);
        past.read_all();
        past.store.check().unwrap();
    }
}

fn save(store: &Store, path: &Path, since: Option<u64>) {
    let options = SaveOptions { since: since.map(Since::Version), keep: Some("kept".into()) };
    store.save(path, &options, &mut |_| ControlFlow::Continue(())).unwrap();
}

#[test]
fn backups_do_not_have_what_was_removed() {
    for index in IndexKind::ORDERED {
        let directory = Directory::new(&format!("removed-ranges-backup-{index:?}"));
        let mut past = Past::new(volatile(index), 99);
        past.store.retain(Retention::Versions(1 << 20)).unwrap();
        let (mut files, mut since) = (Vec::new(), None);
        for round in 0..8 {
            (0..20).for_each(|_| past.step());
            files.push(directory.file(&format!("{round}.backup")));
            save(&past.store, files.last().unwrap(), since);
            since =
                past.store.snapshots().iter().find(|(name, _)| name == "kept").map(|kept| kept.1);
            let paths: Vec<&Path> = files.iter().map(|path| path.as_path()).collect();
            let (pool, options) =
                (directory.file(&format!("{round}.pool")), options(DomainRequest::Logged, index));
            restore(&paths, &pool, &options, &mut |_| {}).unwrap();
            let restored = Store::open(&pool, &options).unwrap();
            assert!(state(&restored.snapshot().unwrap()) == past.now, "round {round}");
        }
    }
}

/// A store with so many keys, which are few enough for a test and many enough to be noticed.
fn filled(index: IndexKind, count: u64) -> (Store, Keyspace) {
    let store = volatile(index);
    let space = store.keyspace("x").unwrap();
    fill(&store, space, count);
    (store, space)
}

fn fill(store: &Store, space: Keyspace, count: u64) {
    let mut tx = store.exclusive().unwrap();
    (0..count).for_each(|n| assert!(!tx.put(space, &key(n), b"value").unwrap()));
    tx.commit(Durability::Strict).unwrap();
    idle(store);
}

#[test]
fn to_remove_many_keys_costs_as_much_as_to_remove_few() {
    for index in IndexKind::ORDERED {
        let cost = |count| {
            let (store, space) = filled(index, count);
            let remove = || {
                let before = Counters::thread();
                store.remove_range::<[u8]>(space, .., Durability::Strict).unwrap();
                Counters::thread() - before
            };
            // The first one in the life of a store also sets the feature bit.
            let first = remove();
            idle(&store);
            fill(&store, space, count);
            let spent = remove();
            assert_eq!(first.fences, spent.fences + 1);
            assert_eq!(store.range::<[u8]>(space, ..).unwrap().count(), 0);
            assert_eq!(store.exclusive().unwrap().count(space), None);
            idle(&store);
            assert_eq!(store.exclusive().unwrap().count(space), Some(0));
            (first.fences, first.lines, spent.fences)
        };
        let few = cost(10);
        assert_eq!(cost(9_000), few);
        println!("{index:?}: {few:?} fences and lines at first, fences later");
        assert!(few.2 <= 3);
    }
}

#[test]
fn the_first_committer_wins_whichever_removes_a_range() {
    for index in IndexKind::ORDERED {
        let (store, space) = filled(index, 100);
        let begin = || store.transaction(Isolation::Serialisable).unwrap();
        let is_conflict = |done: Result<u64, Error>| matches!(done, Err(Error::Conflict { .. }));
        // A write, a read and a range of what was removed meanwhile.
        let (mut write, mut read, mut range, mut other) = (begin(), begin(), begin(), begin());
        write.put(space, &key(50), b"late").unwrap();
        read.get(space, &key(51)).unwrap();
        read.put(space, b"z", b"1").unwrap();
        assert!(range.range(space, &key(52)[..]..&key(53)[..]).unwrap().count() > 0);
        range.put(space, b"y", b"1").unwrap();
        other.put(space, &key(99), b"elsewhere").unwrap();
        store.remove_range(space, &key(40)[..]..&key(60)[..], Durability::Strict).unwrap();
        // What is written where nothing was, before and after, is no conflict.
        for (late, conflicts) in [(write, true), (read, true), (range, true), (other, false)] {
            assert_eq!(is_conflict(late.commit(Durability::Strict)), conflicts);
        }
        // The other way round.
        let (mut remover, mut elsewhere) = (begin(), begin());
        store.put(space, &key(70), b"first", Durability::Strict).unwrap();
        remover.remove_range(space, &key(65)[..]..&key(75)[..]).unwrap();
        assert!(is_conflict(remover.commit(Durability::Strict)));
        elsewhere.remove_range(space, &key(80)[..]..&key(85)[..]).unwrap();
        elsewhere.commit(Durability::Strict).unwrap();
        // Erasing is no change: a transaction that began before it commits.
        let mut late = begin();
        late.put(space, &key(50), b"again").unwrap();
        idle(&store);
        late.commit(Durability::Strict).unwrap();
        assert_eq!(store.get(space, &key(50)).unwrap().as_deref(), Some(&b"again"[..]));
        assert_eq!(store.get(space, &key(81)).unwrap(), None);
        store.check().unwrap();
    }
}

#[test]
fn what_only_a_removed_range_has_kept_is_given_back_after_an_open() {
    for index in IndexKind::ORDERED {
        let directory = Directory::new(&format!("removed-ranges-kept-{index:?}"));
        let (path, options) = (directory.file("pool"), options(DomainRequest::Flush, index));
        let store = Store::create(&path, &options).unwrap();
        let space = store.keyspace("a").unwrap();
        for number in 0..100 {
            store.put(space, &key(number), &[7; 90], Durability::Strict).unwrap();
        }
        store.remove_range::<[u8]>(space, .., Durability::Strict).unwrap();
        store.put(space, &key(1), b"later", Durability::Strict).unwrap();
        drop(store);
        let store = Store::open(&path, &options).unwrap();
        idle(&store);
        let check = store.check().unwrap();
        assert_eq!((check.leaked, check.retired), (0, 0), "{check:?}");
    }
}

#[test]
fn a_removed_range_is_erased_beneath_a_prepared_transaction() {
    for index in IndexKind::ORDERED {
        let (store, space) = filled(index, 100);
        store.remove_range::<[u8]>(space, .., Durability::Strict).unwrap();
        let mut tx = store.transaction(Isolation::Serialisable).unwrap();
        assert_eq!(tx.get(space, &key(3)).unwrap(), None);
        tx.put(space, &key(5), b"prepared").unwrap();
        tx.prepare(b"id").unwrap();
        idle(&store);
        let count = |expected| {
            assert_eq!(store.exclusive().unwrap().count(space), Some(expected));
            assert_eq!(store.range::<[u8]>(space, ..).unwrap().count() as u64, expected);
        };
        count(0);
        store.commit_prepared(b"id", Durability::Strict).unwrap();
        count(1);
        store.check().unwrap();
    }
}

/// What is pending at an open is read at its own versions too.
#[test]
fn ranges_that_wait_to_be_erased_are_sound_in_the_next_life() {
    for index in IndexKind::ORDERED {
        let directory = Directory::new(&format!("ranges-next-life-{}", index.name()));
        let options = options(DomainRequest::Logged, index);
        let store = Store::create(&directory.pool(), &options).unwrap();
        let space = store.keyspace("a").unwrap();
        for number in 0..100 {
            store.put(space, &key(number), b"v", Durability::Buffered).unwrap();
        }
        // Each changes the catalogue, in which only its own version needs what the next one ends.
        for number in 0..80 {
            let (from, to) = (key(number), key(number + 1));
            store.remove_range(space, from..to, Durability::Buffered).unwrap();
            store.save_snapshot("s").unwrap();
        }
        store.sync().unwrap();
        drop(store);
        let store = Store::open(&directory.pool(), &options).unwrap();
        for _ in 0..3 {
            assert_eq!(store.check().unwrap().leaked, 0);
            store.save_snapshot("t").unwrap();
            assert_eq!(store.maintain(8).unwrap(), Progress::More);
        }
        idle(&store);
        let check = store.check().unwrap();
        assert_eq!((check.leaked, check.keyspaces[0].1.entry_count), (0, 20));
    }
}

/// Its tombstone keeps the version of a removed range, so that the index can say what was put later; it is not kept to be read.
#[test]
fn a_version_that_only_a_tombstone_keeps_is_not_retained() {
    for index in IndexKind::ORDERED {
        let (store, space) = filled(index, 3000);
        let (small, large) = (key(100), key(101));
        store.remove_range(space, ..small, Durability::Strict).unwrap();
        store.remove_range(space, large.., Durability::Strict).unwrap();
        let version = store.visible();
        for _ in 0..12 {
            store.maintain(1).unwrap();
        }
        assert!(store.visible() > version);
        assert_eq!(store.exclusive().unwrap().count(space), None, "one is still pending");
        let refused = store.snapshot_at(version).map(drop);
        assert!(matches!(refused, Err(Error::NotRetained { .. })), "{refused:?}");
        let refused = store.rollback(version);
        assert!(matches!(refused, Err(Error::NotRetained { .. })), "{refused:?}");
        idle(&store);
        assert_eq!(state(&store.snapshot().unwrap())["x"].len(), 1);
    }
}
