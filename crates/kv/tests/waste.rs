//! No call to the store pays for nothing, and neither does its background: between two fences no line is flushed twice,
//! none is flushed that has not changed, and no fence comes that has nothing to order. Over random calls.
#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;
use std::sync::Arc;

use tembo_kv::{
    Durability, IndexKind, Isolation, Keyspace, Options, PoolOptions, Progress, Retention, Store,
};
use tembo_pmem::RegionOptions;

#[path = "driver/random.rs"]
mod random;
#[path = "../../index/tests/driver/watch.rs"]
mod watch;

use random::Random;
use watch::{Pair, Seen, Watch};

/// Of a transaction: two of its keys are in one line, and each flushes it.
const ALLOWED_TOGETHER: &[Pair] = &[
    ["nvtree.element.flush", "nvtree.element.flush"],
    ["cdds.entries.flush", "cdds.entries.flush"],
    ["cdds.node.flush", "cdds.entries.flush"],
    ["cdds.record.write", "cdds.record.write"],
];

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
    *watch.seen() = Seen::default();
    let (mut random, mut snapshots) = (Random(seed * 0x9e37_79b9), VecDeque::new());
    for _ in 0..5000 {
        let (space, key) = (spaces[random.below(2) as usize], key(&mut random));
        match random.below(100) {
            0..50 => drop(store.put(space, &key, &value(&mut random), Durability::Strict).unwrap()),
            50..70 => drop(store.remove(space, &key, Durability::Strict).unwrap()),
            70..82 => {
                watch.seen().allowed = ALLOWED_TOGETHER;
                transact(&store, spaces, &mut random);
                watch.seen().allowed = &[];
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
    let seen = watch.seen();
    assert!(seen.lines > 5000 && seen.fences > 3000, "{} {}", seen.lines, seen.fences);
    assert!(seen.wasted.is_empty(), "{} of {} lines: {:#?}", index.name(), seen.lines, seen.wasted);
}

#[test]
fn every_flush_and_fence_of_a_store_has_something_to_order() {
    for index in IndexKind::ORDERED.into_iter().chain([IndexKind::Hash]) {
        (1..5).for_each(|seed| run(index, seed));
    }
}
