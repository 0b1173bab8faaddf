//! The store against a map: transactions, aborts, snapshots, rollback, and opening after the process
//! has gone without a word, in both domains that keep something.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tembo_kv::{Durability, Error, IndexKind, Options, Store};
use tembo_pmem::{Counters, DomainRequest, RegionOptions};
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
fn options(domain: DomainRequest, index: IndexKind) -> Options {
    // Few pages stay private: a store outside a section would be lost with its page.
    let (size_max, log_size, private_max) = (1 << 30, 1 << 20, 256 << 10);
    let region =
        RegionOptions { domain, size_max, log_size, private_max, ..RegionOptions::default() };
    Options::new()
        .pool(PoolOptions { size: 4 << 20, region, ..PoolOptions::default() })
        .index(index)
        .background(true)
}

/// In memory, and recovered step by step.
fn memory(index: IndexKind) -> Options {
    options(DomainRequest::Volatile, index).background(false)
}

const NAMES: [&str; 2] = ["a", "b"];

/// A store and what it must hold.
struct Twin {
    path: PathBuf,
    options: Options,
    random: Random,
    store: Option<Store>,
    now: [Map; 2],
    saved: BTreeMap<String, (u64, [Map; 2])>,
}

impl Twin {
    fn new(path: &Path, options: Options, seed: u64) -> Twin {
        let store = Store::create(path, &options).unwrap();
        let random = Random(seed * 77 + 5);
        let (now, saved) = Default::default();
        Twin { path: path.into(), options, random, store: Some(store), now, saved }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    fn transact(&mut self) {
        let store = self.store.as_ref().unwrap();
        let spaces = NAMES.map(|name| store.keyspace(name).unwrap());
        let mut next = self.now.clone();
        let mut tx = store.exclusive().unwrap();
        assert!(matches!(tx.rollback_to_savepoint(), Err(Error::NoSuchSavepoint)));
        let mut saved = None;
        for _ in 0..self.random.below(20) {
            match self.random.below(60) {
                0 => {
                    tx.savepoint();
                    saved = Some(next.clone());
                }
                1..4 if saved.is_some() => match tx.rollback_to_savepoint() {
                    Ok(()) => next = saved.clone().unwrap(),
                    // The background work of an open has not ended: the writer is dropped.
                    Err(Error::TooManyAborts) => return,
                    Err(error) => panic!("{error}"),
                },
                _ => {}
            }
            let which = self.random.below(2) as usize;
            let (map, space) = (&mut next[which], spaces[which]);
            let key = format!("key:{:08}", self.random.below(500)).into_bytes();
            match self.random.below(40) {
                0..=24 => {
                    let len = self.random.below(300) as usize;
                    let value = vec![len as u8; len];
                    let existed = tx.put(space, &key, &value).unwrap();
                    assert_eq!(existed, map.insert(key.clone(), value).is_some());
                }
                25..=38 => {
                    assert_eq!(tx.remove(space, &key).unwrap(), map.remove(&key).is_some());
                }
                _ => {
                    tx.clear(space).unwrap();
                    map.clear();
                }
            }
            let found = tx.get(space, &key).unwrap().map(|value| value.to_vec());
            assert_eq!(found.as_ref(), map.get(&key));
            if let Some(count) = tx.count(space) {
                assert_eq!(count, map.len() as u64);
            }
        }
        if self.random.below(6) > 0 {
            tx.commit(Durability::Buffered).unwrap();
            self.now = next;
        }
    }

    fn name(&mut self) -> String {
        format!("s{}", self.random.below(3))
    }

    fn travel(&mut self) {
        match self.random.below(30) {
            0 => {
                let name = self.name();
                let version = self.store().save_snapshot(&name).unwrap();
                self.saved.insert(name, (version, self.now.clone()));
            }
            1 => {
                let name = self.name();
                let was_there = self.saved.remove(&name).is_some();
                assert_eq!(self.store().drop_snapshot(&name).unwrap(), was_there);
            }
            2 => {
                if let Some((version, maps)) = self.saved.values().next().cloned() {
                    self.store().rollback(version).unwrap();
                    self.now = maps;
                    self.saved.retain(|_, (other, _)| *other <= version);
                }
            }
            3 | 4 => self.reopen(),
            5 => {
                self.store.take().unwrap().close().unwrap();
                self.store = Some(Store::open(&self.path, &self.options).unwrap());
            }
            6 => {
                let check = self.store().check().unwrap();
                assert_eq!(check.account.total, self.store().report().pool_bytes);
            }
            7 => {
                let key = b"key:00000007";
                let space = self.store().keyspace(NAMES[0]).unwrap();
                let existed = self.store().remove(space, key, Durability::Strict).unwrap();
                assert_eq!(existed, self.now[0].remove(&key[..]).is_some());
            }
            _ => {}
        }
    }

    /// Without a word, as after a kill.
    fn reopen(&mut self) {
        self.store().sync().unwrap();
        self.store = None;
        self.store = Some(Store::open(&self.path, &self.options).unwrap());
    }

    fn verify(&self) {
        let store = self.store();
        let mut versions: Vec<(u64, &[Map; 2])> = vec![(store.visible(), &self.now)];
        versions.extend(self.saved.values().map(|(version, maps)| (*version, maps)));
        for (version, maps) in versions {
            let snapshot = store.snapshot_at(version).unwrap();
            for (which, name) in NAMES.iter().enumerate() {
                let space = store.keyspace(name).unwrap();
                assert!(all(&snapshot, space) == maps[which], "version {version}, keyspace {name}");
            }
        }
    }
}

fn run(domain: DomainRequest, kind: IndexKind, seed: u64, steps: usize) {
    let directory = Directory::new(&format!("{domain:?}-{}-{seed}", kind.name()));
    let mut twin = Twin::new(&directory.pool(), options(domain, kind), seed);
    for name in NAMES {
        twin.store().keyspace(name).unwrap();
    }
    for step in 0..steps {
        twin.transact();
        twin.travel();
        if step % 10 == 0 {
            twin.verify();
        }
    }
    twin.reopen();
    twin.verify();
    let check = twin.store().check().unwrap();
    assert_eq!(check.leaked, 0, "{check:?}");
    twin.store.take().unwrap().close().unwrap();
}

#[test]
fn the_store_is_a_map_with_a_past_in_the_flush_domain() {
    for kind in IndexKind::ALL {
        (1..5).for_each(|seed| run(DomainRequest::Flush, kind, seed, 300));
    }
}

#[test]
fn the_store_is_a_map_with_a_past_in_the_logged_domain() {
    for kind in IndexKind::ALL {
        (1..5).for_each(|seed| run(DomainRequest::Logged, kind, seed, 300));
    }
}

#[test]
fn a_pool_may_be_larger_than_the_memory_that_it_may_take() {
    IndexKind::ALL.iter().for_each(|&kind| is_larger_than_its_memory(kind));
}

fn is_larger_than_its_memory(kind: IndexKind) {
    let directory = Directory::new(&format!("larger-{}", kind.name()));
    let options = options(DomainRequest::Logged, kind);
    let store = Store::create(&directory.pool(), &options).unwrap();
    let space = store.keyspace("x").unwrap();
    let value = |key: u32, round: u32| vec![(key + round) as u8; 500];
    let mut private_max = 0;
    for round in 0..3 {
        for keys in (0..20_000u32).collect::<Vec<_>>().chunks(50) {
            let mut tx = store.exclusive().unwrap();
            for key in keys {
                tx.put(space, &key.to_le_bytes(), &value(*key, round)).unwrap();
            }
            tx.commit(Durability::Strict).unwrap();
            private_max = private_max.max(store.report().private_bytes);
        }
    }
    let report = store.report();
    assert!(report.pool_bytes > 16 << 20, "{report:?}");
    // What a log of 1 MiB holds may come on top while a checkpoint is under way.
    assert!(private_max < 8 << 20, "{private_max} bytes were private");
    let snapshot = store.snapshot().unwrap();
    for key in 0..20_000u32 {
        let found = snapshot.get(space, &key.to_le_bytes()).unwrap().map(|value| value.to_vec());
        assert_eq!(found.as_deref(), Some(value(key, 2).as_slice()));
    }
}

#[test]
fn readers_see_their_version_beside_the_writer() {
    IndexKind::ALL.iter().for_each(|&kind| is_read_beside_the_writer(kind));
}

fn is_read_beside_the_writer(kind: IndexKind) {
    let store = Store::volatile(&options(DomainRequest::Volatile, kind)).unwrap();
    let space = store.keyspace("x").unwrap();
    let keys: Vec<Vec<u8>> = (0..300u32).map(|i| format!("k{i:05}").into_bytes()).collect();
    let write = |round: u64| {
        let mut tx = store.exclusive().unwrap();
        for key in &keys {
            tx.put_parts(space, key, &[&round.to_le_bytes(), key]).unwrap();
        }
        tx.commit(Durability::Buffered).unwrap();
    };
    write(0);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    for i in 0..600usize {
                        let snapshot = store.snapshot().unwrap();
                        // Every key of one snapshot is of one round.
                        let map = all(&snapshot, space);
                        assert_eq!(map.len(), keys.len());
                        let round = &map[&keys[0]][..8];
                        assert!(map.values().all(|value| &value[..8] == round));
                        let key = &keys[i % keys.len()];
                        assert_eq!(
                            snapshot.get(space, key).unwrap().unwrap().to_vec()[..8],
                            *round
                        );
                    }
                })
            })
            .collect();
        for round in 1..400 {
            write(round);
            if round % 50 == 0 {
                let mut tx = store.exclusive().unwrap();
                tx.put(space, b"k00007", b"aborted").unwrap();
            }
        }
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
    store.check().unwrap();
}

#[test]
fn a_writer_goes_back_to_its_savepoint_more_often_than_voids_can_be_noted() {
    for kind in IndexKind::ALL {
        let store = Store::volatile(&memory(kind)).unwrap();
        let [one, two] = ["one", "two"].map(|name| store.keyspace(name).unwrap());
        store.put(one, b"kept", b"0", Durability::Strict).unwrap();
        store.put(two, b"kept", b"0", Durability::Strict).unwrap();
        for round in 0..300u32 {
            let mut tx = store.exclusive().unwrap();
            let name = round.to_be_bytes();
            tx.put(one, &name, b"before").unwrap();
            tx.savepoint();
            for _ in 0..2 {
                tx.put(one, b"kept", b"1").unwrap();
                tx.put(one, &name, b"after").unwrap();
                tx.clear(two).unwrap();
                tx.put(two, b"new", b"1").unwrap();
                tx.rollback_to_savepoint().unwrap();
                assert_eq!(tx.get(one, b"kept").unwrap().unwrap(), b"0");
                assert_eq!(tx.get(two, b"kept").unwrap().unwrap(), b"0");
                assert!(tx.get(two, b"new").unwrap().is_none());
                assert_eq!(tx.get(one, &name).unwrap().unwrap(), b"before");
            }
            assert_eq!(tx.count(one), Some(u64::from(round) + 2));
            assert_eq!(tx.count(two), Some(1));
            tx.commit(Durability::Strict).unwrap();
        }
        store.check().unwrap();
        let snapshot = store.snapshot().unwrap();
        assert_eq!(all(&snapshot, one).len(), 301);
        assert_eq!(all(&snapshot, two).len(), 1);
    }
}

#[test]
fn rollback_needs_a_retained_version_before_which_nothing_is_read() {
    IndexKind::ALL.iter().for_each(|&kind| is_rolled_back(kind));
}

fn is_rolled_back(kind: IndexKind) {
    let store = Store::volatile(&options(DomainRequest::Volatile, kind)).unwrap();
    let space = store.keyspace("x").unwrap();
    store.put(space, b"a", b"1", Durability::Strict).unwrap();
    let saved = store.save_snapshot("s").unwrap();
    store.put(space, b"a", b"2", Durability::Strict).unwrap();
    let later = store.snapshot().unwrap();
    assert!(matches!(store.rollback(saved), Err(Error::VersionInUse { .. })));
    drop(later);
    assert!(matches!(store.rollback(saved - 1), Err(Error::NotRetained { .. })));
    store.rollback(saved).unwrap();
    assert_eq!(store.get(space, b"a").unwrap().as_deref(), Some(&b"1"[..]));
    store.put(space, b"a", b"3", Durability::Strict).unwrap();
    store.check().unwrap();
    assert_eq!(store.get(space, b"a").unwrap().as_deref(), Some(&b"3"[..]));
}

/// Fences and lines are budgets, whatever the machine: CDDS's own formula.
#[test]
fn a_commit_costs_two_fences_and_a_line_an_entry() {
    let store = Store::volatile(&memory(IndexKind::Cdds)).unwrap();
    while store.maintain(64).unwrap() == tembo_kv::Progress::More {}
    let space = store.keyspace("x").unwrap();
    store.put(space, b"warm", b"up", Durability::Buffered).unwrap();
    let cost = |work: &dyn Fn()| {
        let before = Counters::thread();
        work();
        let cost = Counters::thread() - before;
        (cost.fences, cost.lines)
    };
    // A record of one line, an entry, the commit word.
    let put = || assert!(store.put(space, b"key", b"value", Durability::Buffered).is_ok());
    assert_eq!(cost(&put), (2, 3));
    // An update ends the old entry too: beside the new one, or a line more.
    let (fences, lines) = cost(&put);
    assert_eq!(fences, 2);
    assert!(lines <= 4, "{lines}");
    assert_eq!(cost(&|| drop(store.get(space, b"key").unwrap())), (0, 0));
    let remove = || assert!(store.remove(space, b"key", Durability::Buffered).is_ok());
    assert_eq!(cost(&remove), (1, 1));
    // A kilobyte: 8 + 4 + 1024 bytes are 17 lines.
    let large = || assert!(store.put(space, b"long", &[7; 1024], Durability::Buffered).is_ok());
    assert_eq!(cost(&large), (2, 17 + 2));
    let batch = || {
        let mut tx = store.exclusive().unwrap();
        for i in 0..10u8 {
            tx.put(space, &[b'g', i], b"value").unwrap();
        }
        tx.commit(Durability::Buffered).unwrap();
    };
    assert_eq!(cost(&batch), (2, 10 + 10 + 1));
}

/// Amortised, splits and everything included: random keys as redis-benchmark makes them.
#[test]
fn a_million_random_puts_cost_what_the_formula_says() {
    let options = memory(IndexKind::Cdds).size(1 << 30);
    let store = Store::volatile(&options).unwrap();
    while store.maintain(64).unwrap() == tembo_kv::Progress::More {}
    let space = store.keyspace("x").unwrap();
    let (count, batch) = (1_000_000u64, 50);
    let mut random = Random(99);
    for (round, lines_max) in [("half of them new", 3.8), ("updates", 3.4)] {
        let before = Counters::thread();
        for _ in 0..count / batch {
            let mut tx = store.exclusive().unwrap();
            for _ in 0..batch {
                let key = format!("key:{:012}", random.below(count));
                tx.put(space, key.as_bytes(), b"xxx").unwrap();
            }
            tx.commit(Durability::Buffered).unwrap();
        }
        let cost = Counters::thread() - before;
        let batches = (count / batch) as f64;
        // Two a batch; the rest are roots, version limits and frontiers.
        let fences = cost.fences as f64 / batches;
        assert!((2.0..2.02).contains(&fences), "{round}: {fences} fences a batch");
        // A record and an entry; an ended entry in half of the cases; reshapes.
        let lines = cost.lines as f64 / count as f64;
        assert!(lines < lines_max, "{round}: {lines} lines a put");
        println!("{round}: {fences:.4} fences a batch of {batch}, {lines:.3} lines a put");
    }
    store.check().unwrap();
}

/// More crashes in a row than the table of dead intervals has slots, each after a commit and before
/// any recovery.
#[test]
fn any_number_of_crashes_before_recovery_leaves_a_store_that_opens() {
    IndexKind::ALL.iter().for_each(|&kind| opens_after_any_number_of_crashes(kind));
}

fn opens_after_any_number_of_crashes(kind: IndexKind) {
    let directory = Directory::new(&format!("crashes-{}", kind.name()));
    let options = options(DomainRequest::Flush, kind).background(false);
    let store = Store::create(&directory.pool(), &options).unwrap();
    let space = store.keyspace("x").unwrap();
    store.put(space, b"kept", b"1", Durability::Strict).unwrap();
    // Half of the table by aborts between commits, the other half and more by crashes.
    for _ in 0..63 {
        store.exclusive().unwrap().put(space, b"lost", b"0").unwrap();
        store.put(space, b"kept", b"1", Durability::Strict).unwrap();
    }
    drop(store);
    for round in 0..70u8 {
        let store = Store::open(&directory.pool(), &options).unwrap();
        let space = store.keyspace("x").unwrap();
        assert_eq!(store.get(space, b"kept").unwrap().as_deref(), Some(&b"1"[..]));
        assert_eq!(store.get(space, b"lost").unwrap(), None);
        store.put(space, &[round], b"2", Durability::Strict).unwrap();
        // In flight when the process goes: an abort notes nothing durably.
        let mut tx = store.exclusive().unwrap();
        tx.put(space, b"lost", b"3").unwrap();
        drop(tx);
        drop(store);
    }
    let store = Store::open(&directory.pool(), &options).unwrap();
    let check = store.check().unwrap();
    assert_eq!((check.leaked, check.keyspaces[0].1.entry_count), (0, 71));
}
