//! The tree against a map of maps: every retained version answers as it did when it was made, after
//! any sequence of puts, removes, aborts, pins, collections and reopenings, and the pool holds
//! exactly what these versions reach.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;

use tembo_index::{
    Clock, DeadInterval, DeadIntervals, Direction, Error, Forest, Index, IndexKind, KEY_SIZE_MAX,
    Op, Place, Retained, Retired, Stamp, TreeMarker, VersionedIndex, View, Writer,
};
use tembo_pool::{Geometry, Object, Pool, PoolOptions};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Operations that are prefetched together.
const PREFETCHED: usize = 20;

struct House {
    pool: Arc<Pool>,
    forest: Arc<Forest>,
    tree: Index,
    cell: Object,
    version: u64,
    visible: u64,
    dead: Arc<DeadIntervals>,
    pins: BTreeMap<u64, Map>,
    retired: Vec<Retired>,
    now: Map,
    aborted: bool,
    /// The places that were found for single changes; most of them are outdated.
    places: BTreeMap<Vec<u8>, Place>,
}

#[derive(Default)]
struct Found {
    objects: HashSet<u64>,
    unclean: Vec<Object>,
    live: u64,
}

impl TreeMarker for Found {
    fn reachable(&mut self, object: Object) -> Result<bool, Error> {
        Ok(self.objects.insert(object.to_bits()))
    }
    fn unclean(&mut self, node: Object) {
        self.unclean.push(node);
    }
    fn live_entry(&mut self) {
        self.live += 1;
    }
}

impl House {
    fn new(kind: IndexKind, node_size: u32) -> House {
        let geometry = Geometry { chunk_size: 4096, node_size };
        let options = PoolOptions { size: 64 << 20, geometry, ..PoolOptions::default() };
        let pool = Arc::new(Pool::volatile(&options).unwrap());
        let forest = Arc::new(Forest::new(pool.clone(), 1 << 30).unwrap());
        let mut retired = Vec::new();
        let (dead, retained) = (DeadIntervals::default(), Retained::default());
        let writer = Writer {
            stamp: Stamp::grouped(1, 0),
            dead: &dead,
            retained: &retained,
            retired: &mut retired,
        };
        let (tree, cell) = Index::create(forest.clone(), kind, &writer).unwrap();
        House {
            pool,
            forest,
            tree,
            cell,
            version: 1,
            visible: 1,
            dead: Arc::default(),
            pins: BTreeMap::new(),
            retired,
            now: Map::new(),
            aborted: false,
            places: BTreeMap::new(),
        }
    }

    fn retained(&self) -> Retained {
        Retained::new(self.visible, self.pins.keys().copied().collect())
    }

    /// Applies the operations at one new version; commits or aborts it.
    fn ticket(&mut self, ops: &[(Vec<u8>, Option<Vec<u8>>)], commit: bool) {
        self.version += 1;
        let (retained, dead) = (self.retained(), self.dead.clone());
        let mut now = self.now.clone();
        let mark = self.retired.len();
        let view = View { version: self.version, dead: &dead };
        let mut places = Vec::new();
        for (at, (key, value)) in ops.iter().enumerate() {
            // For every other group places are known, and some of them outdated: nodes are replaced.
            if self.version.is_multiple_of(2) && at % PREFETCHED == 0 {
                let keys: Vec<_> =
                    ops[at..].iter().take(PREFETCHED).map(|(key, _)| &key[..]).collect();
                places.clear();
                self.tree.prefetch(&keys, view, &mut places);
                assert_eq!(places.len(), keys.len());
            }
            let place = places.get(at % PREFETCHED).copied().unwrap_or_default();
            let mut writer = Writer {
                stamp: Stamp::grouped(self.version, 0),
                dead: &dead,
                retained: &retained,
                retired: &mut self.retired,
            };
            match value {
                Some(value) => {
                    let op = Op::Put {
                        key,
                        value: &[&value[..value.len() / 2], &value[value.len() / 2..]],
                    };
                    let existed = self.tree.apply_at(place, op, &mut writer).unwrap();
                    assert_eq!(now.insert(key.clone(), value.clone()).is_some(), existed);
                }
                None => {
                    assert_eq!(
                        self.tree.apply_at(place, Op::Remove { key }, &mut writer).unwrap(),
                        now.contains_key(key)
                    );
                    now.remove(key);
                }
            }
            let expected = now.get(key).map(Vec::as_slice);
            let found = self.tree.get_at(place, key, view).unwrap();
            assert_eq!(found.map(|value| value.to_vec()).as_deref(), expected);
            let found = self.tree.get(key, view).unwrap();
            assert_eq!(found.map(|value| value.to_vec()).as_deref(), expected);
        }
        if commit {
            self.visible = self.version;
            self.now = now;
        } else {
            self.retired.truncate(mark);
            self.aborted = true;
            let mut intervals = self.dead.intervals().to_vec();
            intervals.push(DeadInterval {
                from: self.version - 1,
                to: self.version,
                lane: Some(0),
            });
            self.set_dead(intervals);
        }
    }

    /// One change that commits by itself, if the index can do that.
    fn single(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        let (retained, dead) = (self.retained(), self.dead.clone());
        let clock = Clock::new(self.version);
        let mut writer = Writer {
            stamp: Stamp::single(0, 0),
            dead: &dead,
            retained: &retained,
            retired: &mut self.retired,
        };
        let parts = [value.as_deref().unwrap_or_default()];
        let op = match &value {
            Some(_) => Op::Put { key: &key, value: &parts },
            None => Op::Remove { key: &key },
        };
        let place = match self.places.get(&key) {
            Some(&place) if self.version.is_multiple_of(2) => place,
            _ => self.tree.prefetch_single(op),
        };
        self.places.insert(key.clone(), place);
        let applied = self.tree.apply_single_at(place, op, &clock.ticket(), &mut writer);
        let Some(existed) = applied.unwrap() else {
            return;
        };
        assert_eq!(existed, self.now.contains_key(&key));
        self.version = clock.last();
        self.visible = self.version;
        match value {
            Some(value) => self.now.insert(key.clone(), value),
            None => self.now.remove(&key),
        };
        let view = View { version: self.version, dead: &dead };
        assert_eq!(
            self.tree.get(&key, view).unwrap().map(|value| value.to_vec()).as_deref(),
            self.now.get(&key).map(Vec::as_slice)
        );
    }

    /// Some steps of logical collection.
    fn collect(&mut self) {
        let (retained, dead) = (self.retained(), self.dead.clone());
        let mut from: Option<Vec<u8>> = None;
        loop {
            let mut writer = Writer {
                stamp: Stamp::grouped(self.version, 0),
                dead: &dead,
                retained: &retained,
                retired: &mut self.retired,
            };
            from = self.tree.collect(from.as_deref(), &mut writer).unwrap();
            if from.is_none() {
                return;
            }
        }
    }

    /// Many versions pass, in which nothing happens here.
    fn pass(&mut self, versions: u64) {
        self.version += versions;
        self.visible = self.version;
    }

    /// Takes back what came after a pinned version.
    fn roll_back(&mut self, version: u64) {
        let Some(map) = self.pins.get(&version).cloned() else { return };
        self.pins.retain(|&pin, _| pin <= version);
        self.version += 1;
        let mut intervals = self.dead.intervals().to_vec();
        intervals.push(DeadInterval { from: version, to: self.version - 1, lane: None });
        self.set_dead(intervals);
        self.visible = self.version;
        self.retired.retain(|retired| retired.end <= version);
        self.now = map;
        self.aborted = true;
    }

    fn set_dead(&mut self, intervals: Vec<DeadInterval>) {
        self.dead = Arc::new(DeadIntervals::new(intervals));
        self.forest.set_dead(self.dead.clone());
    }

    fn pin(&mut self) {
        self.pins.insert(self.visible, self.now.clone());
    }

    fn reclaim(&mut self) {
        let retained = Arc::new(self.retained());
        self.forest.set_retained(retained.clone());
        let pool = self.pool.clone();
        self.retired.retain(|retired| {
            let needed = retained.needs(retired.start, retired.end);
            if !needed {
                pool.free(retired.object);
            }
            needed
        });
    }

    fn write_hint(&mut self) {
        self.tree.write_hint(self.version, &mut self.retired).unwrap();
        assert!(!self.tree.wants_hint());
    }

    /// Everything volatile is lost.
    fn reopen(&mut self) {
        self.forest = Arc::new(Forest::new(self.pool.clone(), 1 << 30).unwrap());
        self.forest.set_dead(self.dead.clone());
        self.forest.set_retained(Arc::new(self.retained()));
        self.tree = Index::open(self.forest.clone(), self.cell, 1).unwrap();
        self.places.clear();
    }

    fn scrub(&mut self) {
        let (retained, dead) = (self.retained(), self.dead.clone());
        for node in self.mark().unclean {
            let mut writer = Writer {
                stamp: Stamp::grouped(self.version, 0),
                dead: &dead,
                retained: &retained,
                retired: &mut self.retired,
            };
            self.tree.scrub(node, &mut writer).unwrap();
        }
        assert!(self.mark().unclean.is_empty());
        let mut retired = Vec::new();
        let mut writer = Writer {
            stamp: Stamp::grouped(self.version, 0),
            dead: &dead,
            retained: &retained,
            retired: &mut retired,
        };
        self.tree.scrub_root(&mut writer).unwrap();
        self.set_dead(Vec::new());
    }

    /// Keys that are looked for together have what each of them has, others among them.
    fn finds_many(&self, map: &Map, view: View<'_>) {
        let near = |key: &Vec<u8>| [key.clone(), key[..key.len().saturating_sub(1)].to_vec()];
        let keys: Vec<_> = map.keys().rev().chain(self.now.keys()).flat_map(near).collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let mut values = Vec::new();
        self.tree.get_many(&keys, view, &mut values).unwrap();
        assert_eq!(values.len(), keys.len());
        for (&key, value) in keys.iter().zip(values) {
            let value = value.map(|value| value.to_vec());
            assert!(value.as_ref() == map.get(key), "{key:?} in version {}", view.version);
        }
    }

    /// Where a walk of the whole index is taken up again behind a key, it is as if it had not ended.
    fn goes_on_behind_each(&self, all: &[(Vec<u8>, Vec<u8>)], view: View<'_>) {
        for at in [0, all.len() / 3, all.len() / 2, all.len().saturating_sub(1)] {
            let Some((key, _)) = all.get(at) else { continue };
            let mut rest = Vec::new();
            let (from, to) = (Bound::Excluded(&key[..]), Bound::Unbounded);
            let mut visit = |key: &[u8], value: tembo_index::Value<'_>| {
                rest.push((key.to_vec(), value.to_vec()));
                true
            };
            self.tree.range(from, to, Direction::Forward, view, &mut visit).unwrap();
            assert!(rest == all[at + 1..]);
        }
    }

    fn mark(&self) -> Found {
        let mut found = Found::default();
        self.tree.mark(&self.retained(), &self.dead, &mut found).unwrap();
        found
    }

    fn verify(&self) {
        let retained = self.retained();
        let report = self.tree.check(&retained, &self.dead).unwrap();
        assert_eq!(report.entry_count, self.now.len() as u64);
        let found = self.mark();
        assert_eq!(found.live, self.now.len() as u64);
        for (&version, map) in self.pins.iter().chain([(&self.visible, &self.now)]) {
            let view = View { version, dead: &self.dead };
            self.finds_many(map, view);
            let mut forward = Vec::new();
            for direction in [Direction::Forward, Direction::Backward] {
                let mut all = Vec::new();
                self.tree
                    .range(Bound::Unbounded, Bound::Unbounded, direction, view, &mut |k, v| {
                        all.push((k.to_vec(), v.to_vec()));
                        true
                    })
                    .unwrap();
                if direction == Direction::Backward {
                    all.reverse();
                }
                if !self.tree.kind().is_ordered() {
                    // Both directions have the same order, whichever it is.
                    assert!(direction == Direction::Forward || all == forward);
                    forward.clone_from(&all);
                    self.goes_on_behind_each(&all, view);
                    all.sort();
                }
                let expected: Vec<_> = map.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
                assert!(all == expected, "version {version} of {}, {direction:?}", self.version);
            }
        }
        // Nothing that can be reached has been given back.
        let mut census = self.pool.census();
        for bits in &found.objects {
            census.mark(Object::from_bits(*bits)).unwrap();
        }
        let account = census.account();
        assert_eq!(account.dangling, 0, "reachable, but given back");
        // An aborted version leaves garbage until the next sweep; nothing else does.
        if !self.aborted {
            assert!(account.leaked <= self.retired.len() as u64, "{account:?}");
        }
    }
}

/// A small deterministic generator.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

/// A style of keys: at the bound of their length.
const LONGEST: u64 = 4;

fn key(random: &mut Random, space: u64, style: u64) -> Vec<u8> {
    let n = random.below(space);
    match style {
        0 => format!("key:{n:012}").into_bytes(),
        1 => vec![b'x'; n as usize % 23],
        2 => format!("a-long-common-prefix-that-is-shared/{}", "z".repeat(n as usize % 7))
            .into_bytes()
            .into_iter()
            .chain((n as u16).to_be_bytes())
            .collect(),
        LONGEST => {
            // Of the longest keys, and of some a little shorter, only the last bytes differ.
            let mut key = vec![b'k'; KEY_SIZE_MAX - n as usize % 4];
            let end = key.len() - 2;
            key[end..].copy_from_slice(&(n as u16).to_be_bytes());
            key
        }
        _ => n.to_be_bytes()[8 - (n as usize % 8 + 1)..].to_vec(),
    }
}

/// A length of a value: now and then one that fills an object.
fn len(random: &mut Random) -> usize {
    match random.below(8) {
        0 => 512,
        _ => random.below(40) as usize,
    }
}

fn run(kind: IndexKind, (seed, node_size, style): (u64, u32, u64), tickets: usize, aborts: bool) {
    let mut random = Random(seed * 0x9e37_79b9 + 1);
    let mut house = House::new(kind, node_size);
    let space = [4, 40, 400][random.below(if style == LONGEST { 2 } else { 3 }) as usize];
    for ticket in 0..tickets {
        let count = 1 + random.below(6);
        let ops: Vec<_> = (0..count)
            .map(|_| {
                let key = key(&mut random, space, style);
                let growing = (ticket / 50) % 2 == 0;
                let put = random.below(10) < if growing { 8 } else { 2 };
                let value = vec![random.below(256) as u8; len(&mut random)];
                (key, put.then_some(value))
            })
            .collect();
        house.ticket(&ops, !aborts || random.below(5) > 0);
        match random.below(12) {
            0 => house.pin(),
            1 => drop(house.pins.pop_first()),
            2 => {
                let middle = house.pins.keys().nth(house.pins.len() / 2).copied();
                middle.map(|version| house.pins.remove(&version));
            }
            3 => {
                if ticket % 2 == 0 {
                    house.write_hint();
                }
                house.reopen();
            }
            4 if aborts => house.scrub(),
            5 => {
                for _ in 0..random.below(6) {
                    let put = random.below(3) > 0;
                    let value = vec![ticket as u8; len(&mut random)];
                    house.single(key(&mut random, space, style), put.then_some(value));
                }
            }
            6 => house.collect(),
            7 if random.below(4) == 0 => house.pass(1 << (10 + random.below(20))),
            8 if aborts && random.below(3) == 0 => {
                let pin = house.pins.keys().nth(random.below(8) as usize).copied();
                pin.into_iter().for_each(|version| house.roll_back(version));
            }
            _ => {}
        }
        house.reclaim();
        if ticket % 7 == 0 {
            house.verify();
        }
    }
    house.verify();
}

fn run_all(
    kind: IndexKind,
    node_size: u32,
    seeds: u64,
    tickets: usize,
    aborts: impl Fn(u64) -> bool,
) {
    for seed in 1..seeds {
        for style in 0..4 {
            run(kind, (seed, node_size, style), tickets, aborts(seed));
        }
    }
}

#[test]
fn every_retained_version_answers_on_small_nodes() {
    IndexKind::ALL.iter().for_each(|&kind| run_all(kind, 192, 60, 150, |_| false));
}

#[test]
fn every_retained_version_answers_with_aborts() {
    IndexKind::ALL.iter().for_each(|&kind| run_all(kind, 192, 60, 150, |_| true));
}

#[test]
fn every_retained_version_answers_on_full_size_nodes() {
    IndexKind::ALL
        .iter()
        .for_each(|&kind| run_all(kind, 1024, 10, 400, |seed| seed.is_multiple_of(2)));
}

#[test]
fn every_retained_version_answers_of_the_longest_keys() {
    for kind in IndexKind::ALL {
        for seed in 1..5 {
            run(kind, (seed, [192, 1024][seed as usize % 2], LONGEST), 60, seed.is_multiple_of(2));
        }
    }
}

#[test]
fn a_key_that_is_too_long_changes_nothing() {
    for kind in IndexKind::ALL {
        let mut house = House::new(kind, 192);
        for n in 0..60_u8 {
            // Without a bound the length of what these have in common would run into another field.
            let mut key = vec![b'k'; KEY_SIZE_MAX + 64];
            key.push(n);
            let (dead, retained, clock) =
                (house.dead.clone(), house.retained(), Clock::new(house.version));
            let mut writer = Writer {
                stamp: Stamp::grouped(house.version + 1, 0),
                dead: &dead,
                retained: &retained,
                retired: &mut house.retired,
            };
            let size = key.len();
            for op in [Op::Put { key: &key, value: &[b"12345678"] }, Op::Remove { key: &key }] {
                let error = house.tree.apply(op, &mut writer).unwrap_err();
                assert!(matches!(error, Error::KeyTooLong { size: known } if known == size));
                let error = house.tree.apply_single(op, &clock.ticket(), &mut writer).unwrap_err();
                assert!(matches!(error, Error::KeyTooLong { .. }));
            }
            house.ticket(&[(vec![n], Some(vec![n; 9]))], true);
        }
        house.verify();
        house.reopen();
        house.verify();
    }
}
