//! No operation pays for nothing: between two fences no line is flushed twice, no line is flushed that has not
//! changed, and no fence comes that has nothing to order. Over random operations on both trees.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use tembo_index::{
    Clock, DeadIntervals, Forest, Index, IndexKind, Op, Retained, Retired, Stamp, VersionedIndex,
    Writer,
};
use tembo_pmem::RegionOptions;
use tembo_pool::{Geometry, Pool, PoolOptions};

#[path = "driver/watch.rs"]
mod watch;

use watch::{Seen, Watch};

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % n
    }
}

fn key(random: &mut Random, seed: u64) -> Vec<u8> {
    let n = random.below(600);
    match seed % 3 {
        0 => n.to_be_bytes().to_vec(),
        1 => format!("key:{n:012}").into_bytes(),
        _ => format!("a-prefix-that-many-share/{}/{n}", n % 7).into_bytes(),
    }
}

fn collect(tree: &Index, pool: &Pool, writer: &mut Writer<'_>) {
    let mut from = Some(Vec::new());
    while let Some(next) = from {
        from = tree.collect(Some(&next), writer).unwrap();
        pool.region().fence_flushed("test.collect");
    }
}

fn run(kind: IndexKind, seed: u64) {
    let watch = Arc::new(Watch::default());
    let geometry = Geometry { chunk_size: 4096, node_size: [512, 1024][seed as usize % 2] };
    let region = RegionOptions { observer: Some(watch.clone()), ..RegionOptions::default() };
    let options = PoolOptions { size: 16 << 20, geometry, region, ..PoolOptions::default() };
    let pool = Arc::new(Pool::volatile(&options).unwrap());
    let forest = Arc::new(Forest::new(pool.clone(), 1 << 30).unwrap());
    let mut random = Random(seed);
    let (dead, clock, mut pins) = (DeadIntervals::default(), Clock::new(1), Vec::new());
    let mut retired: Vec<Retired> = Vec::new();
    let retained = Retained::new(1, vec![]);
    let stamp = Stamp::grouped(1, 0);
    let writer = Writer { stamp, dead: &dead, retained: &retained, retired: &mut retired };
    let (tree, _) = Index::create(forest.clone(), kind, &writer).unwrap();
    pool.region().fence_flushed("test.made");
    // What was formatted, and grown into, is not what is counted.
    *watch.seen() = Seen::default();
    for number in 0..6000 {
        let retained = Retained::new(clock.last(), pins.clone());
        forest.set_retained(Arc::new(retained.clone()));
        retired.retain(|retired: &Retired| {
            let needed = retained.needs(retired.start, retired.end);
            if !needed {
                pool.free(retired.object);
            }
            needed
        });
        let key = key(&mut random, seed);
        let value = vec![number as u8; [8, 3, 40, 700][random.below(4) as usize]];
        let puts = if number / 1000 % 2 == 0 { 8 } else { 3 };
        let put = Op::Put { key: &key, value: &[&value] };
        let op = if random.below(10) < puts { put } else { Op::Remove { key: &key } };
        let mut writer = Writer {
            stamp: Stamp::single(clock.last(), 0),
            dead: &dead,
            retained: &retained,
            retired: &mut retired,
        };
        let single = match random.below(3) {
            0 => None,
            _ => tree.apply_single(op, &clock.ticket(), &mut writer).unwrap(),
        };
        if single.is_none() {
            writer.stamp = Stamp::grouped(clock.draw(), 0);
            tree.apply(op, &mut writer).unwrap();
        }
        pool.region().fence_flushed("test.group");
        match random.below(60) {
            0 => pins.push(clock.last()),
            1 | 2 => drop((!pins.is_empty()).then(|| pins.remove(0))),
            3 => {
                let retained = Retained::new(clock.last(), pins.clone());
                let stamp = Stamp::grouped(clock.last(), 0);
                let retired = &mut retired;
                let mut writer = Writer { stamp, dead: &dead, retained: &retained, retired };
                collect(&tree, &pool, &mut writer);
                // Readers of what was unlinked are gone.
                clock.draw();
            }
            _ => {}
        }
    }
    let seen = watch.seen();
    assert!(seen.lines > 6000 && seen.fences > 3000);
    assert!(seen.wasted.is_empty(), "{} of {} lines: {:#?}", kind.name(), seen.lines, seen.wasted);
}

#[test]
fn every_flush_and_fence_of_the_nv_tree_has_something_to_order() {
    (1..13).for_each(|seed| run(IndexKind::Nvtree, seed));
}

#[test]
fn every_flush_and_fence_of_the_hash_index_has_something_to_order() {
    (1..13).for_each(|seed| run(IndexKind::Hash, seed));
}

#[test]
fn every_flush_and_fence_of_the_b_tree_has_something_to_order() {
    (1..13).for_each(|seed| run(IndexKind::Cdds, seed));
}
