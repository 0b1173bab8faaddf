//! Keys of all lengths where space is short: in a full pool, and on a full disk. What a change of the structure writes of
//! them, low keys and records of keys that lose their prefix, is as long as they are.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;
use std::sync::Arc;

use tembo_kv::{
    Durability, Error, Geometry, IndexKind, Isolation, Keyspace, Options, PoolOptions, Progress,
    Store,
};
use tembo_pmem::{DomainRequest, RegionOptions, SyncPolicy};
use tembo_sim::{Failure, Fault, SimDisk};

#[path = "driver/map.rs"]
mod map;
#[path = "driver/random.rs"]
mod random;

use map::{Map, all};
use random::Random;

const LONGEST: u64 = 60_000;
const POOL: &str = "/disk/pool";

/// A key: short, or long with little or much in common with others.
fn key(random: &mut Random) -> Vec<u8> {
    let number = random.below(4000).to_be_bytes();
    let longest = [20, 300, 3000, LONGEST][random.below(4) as usize];
    let len = random.below(longest - 8) as usize;
    match random.below(5) {
        0 => number[7 - len % 7..].to_vec(),
        1 => [&number[..], &vec![b'a'; len][..]].concat(),
        2 => [&vec![b'b'; len][..], &number[..]].concat(),
        // Lengths that many keys have, so that a leaf has a long prefix.
        3 => [&[b'c'; 200][..], &number[..]].concat(),
        _ => [&[b'd'; 2000][..], &number[6..]].concat(),
    }
}

fn idle(store: &Store) {
    while store.maintain(1 << 10).unwrap() == Progress::More {}
}

/// A pool that does not grow, and its log.
fn options(disk: &SimDisk, (size, log_size): (u64, u64), index: IndexKind) -> Options {
    let region = RegionOptions {
        domain: DomainRequest::Logged,
        sync: SyncPolicy::Os,
        size_max: size,
        log_size,
        disk: Arc::new(disk.clone()),
        background: false,
        ..RegionOptions::default()
    };
    let pool = PoolOptions { size, region, ..PoolOptions::default() };
    Options::new().pool(pool).index(index).background(false)
}

/// A store, and what it has to show.
struct Model {
    store: Store,
    space: Keyspace,
    map: Map,
    random: Random,
    refused: u32,
}

impl Model {
    fn value(&mut self) -> Vec<u8> {
        let len = [4, 8, 40, 512, 3000][self.random.below(5) as usize];
        vec![self.random.below(256) as u8; len]
    }

    /// A key that is there, or another.
    fn some_key(&mut self) -> Vec<u8> {
        let at = self.random.below(self.map.len() as u64 + 1) as usize;
        self.map.keys().nth(at).cloned().unwrap_or_else(|| key(&mut self.random))
    }

    fn is_full<T: std::fmt::Debug>(&mut self, done: Result<T, Error>) -> bool {
        let is_refused = done.is_err();
        assert!(matches!(done, Ok(_) | Err(Error::Full(_))), "{done:?}");
        self.refused += u32::from(is_refused);
        is_refused
    }

    /// Changes by an exclusive writer, which goes on behind what is refused.
    fn exclusive(&mut self) {
        let (before, mut tx) = (self.map.clone(), self.store.exclusive().unwrap());
        for _ in 0..1 + self.random.below(12) {
            if self.random.below(4) == 0 {
                let key = self.some_key();
                let removed = tx.remove(self.space, &key);
                if !self.is_full(removed) {
                    self.map.remove(&key);
                }
            } else {
                let (key, value) = (key(&mut self.random), self.value());
                let put = tx.put(self.space, &key, &value);
                if !self.is_full(put) {
                    self.map.insert(key, value);
                }
            }
        }
        let committed = tx.commit(Durability::Buffered);
        if self.is_full(committed) {
            self.map = before;
        }
    }

    /// All of the changes, or none.
    fn optimistic(&mut self) {
        let (mut after, isolation) = (self.map.clone(), Isolation::Snapshot);
        let mut tx = self.store.transaction(isolation).unwrap();
        for _ in 0..1 + self.random.below(12) {
            if self.random.below(4) == 0 {
                let key = self.some_key();
                tx.remove(self.space, &key).unwrap();
                after.remove(&key);
            } else {
                let (key, value) = (key(&mut self.random), self.value());
                tx.put(self.space, &key, &value).unwrap();
                after.insert(key, value);
            }
        }
        let committed = tx.commit(Durability::Buffered);
        if !self.is_full(committed) {
            self.map = after;
        }
    }

    fn single(&mut self) {
        let (key, value) = (key(&mut self.random), self.value());
        let put = self.store.put(self.space, &key, &value, Durability::Buffered);
        if !self.is_full(put) {
            self.map.insert(key, value);
        }
    }

    fn step(&mut self) {
        match self.random.below(4) {
            0 => self.exclusive(),
            1 | 2 => self.optimistic(),
            _ => self.single(),
        }
    }

    /// Removes most keys: some of what is removed has come back before the next.
    fn thin_out(&mut self) {
        for _ in 0..3 {
            let keys: Vec<Vec<u8>> = self.map.keys().step_by(2).cloned().collect();
            for key in keys {
                let removed = self.store.remove(self.space, &key, Durability::Buffered);
                if !self.is_full(removed) {
                    self.map.remove(&key);
                }
            }
            idle(&self.store);
        }
    }

    fn expect(&self, what: &str) {
        let snapshot = self.store.snapshot().unwrap();
        assert!(all(&snapshot, self.space) == self.map, "{what}");
        for (key, value) in &self.map {
            let found = snapshot.get(self.space, key).unwrap().map(|found| found.to_vec());
            assert!(found.as_ref() == Some(value), "{what}: a key of {} bytes", key.len());
        }
    }
}

#[test]
fn in_a_full_pool_a_commit_is_whole_or_refused() {
    for index in IndexKind::ALL {
        for geometry in [Geometry::default(), Geometry::TINY] {
            let (disk, path) = (SimDisk::default(), Path::new(POOL));
            let options = options(&disk, (3 << 20, 8 << 20), index).geometry(geometry);
            let store = Store::create(path, &options).unwrap();
            let space = store.keyspace("x").unwrap();
            idle(&store);
            let (map, random) = (Map::new(), Random(0x9E37_79B9));
            let mut model = Model { store, space, map, random, refused: 0 };
            for round in 0..4 {
                let what = format!("{index:?} {geometry:?} {round}");
                let before = model.refused;
                while model.refused < before + 40 {
                    model.step();
                }
                model.expect(&what);
                model.store.sync().unwrap();
                let Model { store, map, random, refused, .. } = model;
                drop(store);
                let store = Store::open(path, &options).unwrap();
                let space = store.keyspace("x").unwrap();
                model = Model { store, space, map, random, refused };
                model.expect(&what);
                model.thin_out();
                model.expect(&what);
                let check = model.store.check().unwrap();
                assert_eq!(check.leaked, 0, "{what}");
                assert_eq!(check.keyspaces[0].1.entry_count, model.map.len() as u64);
            }
        }
    }
}

/// The log takes what a group holds, however much of the structure it has changed, or the change is refused before.
#[test]
fn on_a_full_disk_a_commit_is_whole_or_refused_and_goes_on_when_there_is_room() {
    for index in IndexKind::ALL {
        let (disk, path) = (SimDisk::default(), Path::new(POOL));
        let store = Store::create(path, &options(&disk, (64 << 20, 4 << 20), index)).unwrap();
        let space = store.keyspace("x").unwrap();
        let (map, random) = (Map::new(), Random(0xC0FF_EE11));
        let mut model = Model { store, space, map, random, refused: 0 };
        for round in 0..30 {
            let before = model.refused;
            for _ in 0..20 + round % 7 {
                model.step();
            }
            assert_eq!(model.refused, before, "{index:?} {round}: there is room");
            let steps = vec!["log.write", "log.write_blocks"];
            disk.fail(Fault { failure: Failure::Full, steps, from: 1, count: u64::MAX });
            while model.refused < before + 5 {
                model.step();
            }
            disk.heal();
            model.store.sync().unwrap();
            let refused = model.refused;
            model.single();
            assert_eq!(model.refused, refused, "{index:?} {round}: it goes on");
            if round % 10 == 9 {
                model.expect(&format!("{index:?} {round}"));
                model.thin_out();
            }
        }
        idle(&model.store);
        model.store.check().unwrap();
    }
}
