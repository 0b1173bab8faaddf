//! No call to the store pays for nothing, and neither does its background: between two fences no line is flushed twice,
//! none is flushed that has not changed, and no fence comes that has nothing to order. Over random calls.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex};

use tembo_kv::{
    Durability, IndexKind, Isolation, Keyspace, Options, PoolOptions, Progress, Retention, Store,
};
use tembo_pmem::{Observer, RegionOptions, Stored};

#[path = "driver/random.rs"]
mod random;

use random::Random;

/// As in the index's test: a cleaned line is emptied further, or gets what the space was made for, and small records
/// share a line.
const ALLOWED: [[&str; 2]; 3] = [
    ["nvtree.erase.flush", "nvtree.erase.flush"],
    ["nvtree.erase.flush", "nvtree.element.flush"],
    ["nvtree.record.write", "nvtree.record.write"],
];

/// Of a transaction: two of its keys are in one line, and each flushes it.
const ALLOWED_TOGETHER: [[&str; 2]; 4] = [
    ["nvtree.element.flush", "nvtree.element.flush"],
    ["cdds.entries.flush", "cdds.entries.flush"],
    ["cdds.node.flush", "cdds.entries.flush"],
    ["cdds.record.write", "cdds.record.write"],
];

#[derive(Default)]
struct Seen {
    /// A transaction commits.
    is_together: bool,
    dirty: HashSet<u64>,
    /// Lines that were flushed since the last fence, with the step that did.
    flushed: HashMap<u64, &'static str>,
    wasted: BTreeMap<String, usize>,
    fences: usize,
    lines: usize,
}

#[derive(Default)]
struct Watch(Mutex<Seen>);

impl Observer for Watch {
    fn load(&self, _offset: u64, _len: u64) {}

    fn store(&self, stored: Stored<'_>, perform: &mut dyn FnMut()) {
        perform();
        let lines = stored.offset / 64..=(stored.offset + stored.len().max(1) - 1) / 64;
        self.0.lock().unwrap().dirty.extend(lines);
    }

    fn flush(&self, name: &'static str, offset: u64, len: u64) {
        let mut seen = self.0.lock().unwrap();
        for line in offset / 64..=(offset + len.max(1) - 1) / 64 {
            seen.lines += 1;
            let is_dirty = seen.dirty.remove(&line);
            let is_together = seen.is_together;
            match seen.flushed.insert(line, name).map(|before| [before, name]) {
                Some(pair) if ALLOWED.contains(&pair) => {}
                Some(pair) if is_together && ALLOWED_TOGETHER.contains(&pair) => {}
                Some([before, _]) => {
                    *seen.wasted.entry(format!("twice: {before}, {name}")).or_default() += 1;
                }
                None if !is_dirty => *seen.wasted.entry(format!("clean: {name}")).or_default() += 1,
                _ => {}
            }
        }
    }

    fn fence(&self, name: &'static str) {
        let mut seen = self.0.lock().unwrap();
        seen.fences += 1;
        if seen.flushed.is_empty() {
            *seen.wasted.entry(format!("nothing to order: {name}")).or_default() += 1;
        }
        seen.flushed.clear();
    }

    fn sync(&self) {}

    fn resize(&self, _size: u64) {}
}

fn key(random: &mut Random) -> Vec<u8> {
    let n = random.below(400);
    if n.is_multiple_of(2) { n.to_be_bytes().to_vec() } else { format!("key:{n:020}").into_bytes() }
}

fn value(random: &mut Random) -> Vec<u8> {
    vec![random.below(256) as u8; [8, 3, 40, 700, 4096][random.below(5) as usize]]
}

/// Keys of one transaction, some of them removed.
fn transact(store: &Store, spaces: [Keyspace; 2], random: &mut Random) {
    let mut transaction = store.transaction(Isolation::Serialisable).unwrap();
    for _ in 0..random.below(12) {
        let (space, key) = (spaces[random.below(2) as usize], key(random));
        match random.below(3) {
            0 => transaction.remove(space, &key).unwrap(),
            _ => transaction.put(space, &key, &value(random)).unwrap(),
        }
    }
    match random.below(4) {
        0 => drop(transaction),
        _ => drop(transaction.commit(Durability::Strict).unwrap()),
    }
}

fn run(index: IndexKind, seed: u64) {
    let watch = Arc::new(Watch::default());
    let region = RegionOptions { observer: Some(watch.clone()), ..RegionOptions::default() };
    let pool = PoolOptions { size: 16 << 20, region, ..PoolOptions::default() };
    let store = Store::volatile(&Options::new().pool(pool).index(index).background(false)).unwrap();
    let spaces = ["a", "b"].map(|name| store.keyspace(name).unwrap());
    while store.maintain(64).unwrap() == Progress::More {}
    *watch.0.lock().unwrap() = Seen::default();
    let (mut random, mut snapshots) = (Random(seed * 0x9e37_79b9), VecDeque::new());
    for _ in 0..5000 {
        let (space, key) = (spaces[random.below(2) as usize], key(&mut random));
        match random.below(100) {
            0..50 => drop(store.put(space, &key, &value(&mut random), Durability::Strict).unwrap()),
            50..70 => drop(store.remove(space, &key, Durability::Strict).unwrap()),
            70..82 => {
                watch.0.lock().unwrap().is_together = true;
                transact(&store, spaces, &mut random);
                watch.0.lock().unwrap().is_together = false;
            }
            82..86 => snapshots.push_back(store.snapshot().unwrap()),
            86..90 => drop(snapshots.pop_front()),
            90 => drop(store.save_snapshot("kept").unwrap()),
            91 => drop(store.drop_snapshot("kept").unwrap()),
            92 => drop(store.retain(Retention::Versions(random.below(50) + 1)).unwrap()),
            93 => drop(store.retain(Retention::Nothing).unwrap()),
            _ => drop(store.maintain(random.below(64) as usize).unwrap()),
        }
    }
    let seen = watch.0.lock().unwrap();
    assert!(seen.lines > 5000 && seen.fences > 3000, "{} {}", seen.lines, seen.fences);
    assert!(seen.wasted.is_empty(), "{} of {} lines: {:#?}", index.name(), seen.lines, seen.wasted);
}

#[test]
fn every_flush_and_fence_of_a_store_has_something_to_order() {
    for index in IndexKind::ALL.into_iter().chain([IndexKind::Hash]) {
        (1..5).for_each(|seed| run(index, seed));
    }
}
