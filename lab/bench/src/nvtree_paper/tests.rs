//! The paper's tree against a map, its own counts, its recovery, and what a crash can leave of it.
#![allow(clippy::unwrap_used)]

mod adaptivity;
mod counts;
mod crash;
mod recovery;

use std::collections::BTreeMap;
use std::sync::Arc;

use tembo_pmem::{Region, RegionOptions};
use tembo_pool::{Geometry, Pool, PoolOptions};

use super::block::Place;
use super::leaf::Leaf;
use super::{NvTree, Options, Strategy};
use crate::keys::Random;

type Map = BTreeMap<u64, u64>;

/// Five elements in a leaf.
const TINY: Options = Options { leaf_size: 192, leaf_size_max: 1024, strategy: None };

/// Nodes of a line: three keys in a PLN, six in an IN. The region can grow.
fn pool() -> Arc<Pool> {
    let geometry = Geometry { chunk_size: 4096, node_size: 64 };
    let options = PoolOptions { size: 1 << 20, geometry, ..PoolOptions::default() };
    Arc::new(Pool::volatile(&options).unwrap())
}

/// What is left when everything volatile is lost.
fn image(tree: &NvTree) -> Vec<u8> {
    let region = tree.pool().region();
    region.media_bytes(0, region.size()).unwrap().to_vec()
}

fn pool_of(image: &[u8]) -> Arc<Pool> {
    let region = Region::from_image(image, &RegionOptions::default()).unwrap();
    Arc::new(Pool::from_region(region).unwrap())
}

/// The tree holds what the map holds, to searches and to scans; list and PLNs agree; each leaf holds
/// only keys that lead to it; and nothing else is taken in the pool.
fn verify(tree: &NvTree, map: &Map) {
    let mut all = Vec::new();
    let mut visit = |key, value| {
        all.push((key, value));
        true
    };
    tree.scan(0, &mut visit).unwrap();
    assert!(all.iter().copied().eq(map.iter().map(|(&key, &value)| (key, value))), "scan");
    for (&key, &value) in map {
        assert_eq!(tree.get(key).unwrap(), Some(value));
    }
    let Some(block) = &tree.block else { return assert!(map.is_empty()) };
    let region = tree.pool.region();
    let (mut next, mut low, mut count) = (tree.head().unwrap(), None, 0);
    while next != 0 {
        let leaf = Leaf::at(region, next).unwrap();
        let run = block.run(region, low.map_or(0, |low| low + 1)).unwrap();
        assert_eq!(run[0].place.leaf, next, "the PLNs name the leaves in the list's order");
        assert_eq!(run[0].low, low);
        let high = run[run.len() - 1].high;
        let own = |key: &u64| low.is_none_or(|low| low < *key) && *key <= high;
        assert!(leaf.valid().iter().all(|entry| own(&entry.0)));
        assert!(leaf.key_max().is_none_or(|key| own(&key)));
        (low, next, count) = (Some(high), leaf.header.next.load(), count + 1);
    }
    assert_eq!(low, Some(u64::MAX));
    assert_eq!(tree.leaf_count(), count);
    let usage = tree.pool.usage();
    if !usage.recovering {
        assert_eq!(usage.objects, count + 2, "leaves, the block and the root");
    }
}

/// Does something random to both.
fn step(tree: &mut NvTree, map: &mut Map, random: &mut Random, keys: u64, growing: bool) {
    let (key, value) = (random.below(keys), random.below(4));
    let roll = random.below(10);
    if roll < if growing { 6 } else { 2 } {
        match map.insert(key, value) {
            None => tree.insert(key, value).unwrap(),
            Some(_) => assert!(tree.update(key, value).unwrap()),
        }
    } else if roll < 9 {
        assert_eq!(tree.remove(key).unwrap(), map.remove(&key).is_some());
    } else {
        assert_eq!(tree.update(key, value).unwrap(), map.contains_key(&key));
        map.entry(key).and_modify(|old| *old = value);
    }
    assert_eq!(tree.get(key).unwrap(), map.get(&key).copied());
}

fn run(seed: u64, keys: u64, steps: u32, options: &Options) -> (NvTree, Map) {
    let mut tree = NvTree::create(pool(), options).unwrap();
    let (mut map, mut random) = (Map::new(), Random::new(seed));
    for at in 0..steps {
        step(&mut tree, &mut map, &mut random, keys, at / 200 % 2 == 0);
        if at % 97 == 0 {
            verify(&tree, &map);
        }
    }
    verify(&tree, &map);
    (tree, map)
}

/// Values come back again and again, on which the paper's NEGATIVE elements would go wrong.
#[test]
fn it_does_what_a_map_does() {
    for seed in 0..40 {
        for keys in [3, 30, 300, 3000] {
            run(seed, keys, 1500, &TINY);
        }
    }
}

#[test]
fn it_does_what_a_map_does_with_every_strategy() {
    for seed in 0..10 {
        for strategy in [Strategy::Conservative, Strategy::Balanced, Strategy::Aggressive] {
            for keys in [30, 300, 3000] {
                run(seed, keys, 1500, &Options { strategy: Some(strategy), ..TINY });
            }
        }
    }
}

#[test]
fn the_ends_of_the_key_space_are_keys_like_others() {
    let mut tree = NvTree::create(pool(), &TINY).unwrap();
    let mut map = Map::new();
    assert_eq!(tree.get(0).unwrap(), None);
    assert!(!tree.update(0, 1).unwrap() && !tree.remove(u64::MAX).unwrap());
    for at in 0..100 {
        for key in [u64::MAX - at, at, u64::MAX / 2 + at] {
            tree.insert(key, at).unwrap();
            map.insert(key, at);
        }
    }
    verify(&tree, &map);
    let mut from = Vec::new();
    let mut visit = |key, _| {
        from.push(key);
        from.len() < 3
    };
    tree.scan(u64::MAX / 2 - 1, &mut visit).unwrap();
    assert_eq!(from, [u64::MAX / 2, u64::MAX / 2 + 1, u64::MAX / 2 + 2]);
}

/// Emptied leaf by leaf: with one leaf in each PLN, all merges are across parents.
#[test]
fn leaves_merge_across_parents_and_come_apart_there() {
    let mut tree = NvTree::create(pool(), &TINY).unwrap();
    let mut map: Map = (0..200).map(|key| (key, key)).collect();
    for &key in map.keys() {
        tree.insert(key, key).unwrap();
    }
    tree.rebuild().unwrap();
    let (full, block) = (tree.leaf_count(), tree.block.unwrap());
    assert_eq!(block.shape.units, full, "one leaf in each PLN");
    for key in 0..200 {
        if key % 8 != 0 {
            assert!(tree.remove(key).unwrap());
            map.remove(&key);
        }
    }
    verify(&tree, &map);
    // Churn until each leaf has been full again.
    for round in 0..20 {
        for (&key, value) in &mut map {
            *value = round;
            assert!(tree.update(key, round).unwrap());
        }
    }
    verify(&tree, &map);
    assert!(tree.leaf_count() < full / 2, "{} of {full}", tree.leaf_count());
    let region = tree.pool.region();
    let shared = map.keys().filter(|&&key| block.run(region, key).unwrap().len() > 1).count();
    assert!(shared > 0);
    for key in 0..200 {
        map.entry(key).or_insert_with(|| {
            tree.insert(key, 7).unwrap();
            7
        });
        assert_eq!(tree.get(key).unwrap(), Some(map[&key]));
    }
    for (&key, value) in &map {
        tree.update(key, *value).unwrap();
    }
    verify(&tree, &map);
}

/// Section 4.5: after a rebuild each PLN has exactly one leaf, and nothing else has changed.
#[test]
fn a_rebuild_leaves_one_leaf_in_each_pln() {
    for keys in [1, 5, 40, 1000] {
        let (mut tree, map) = run(keys, keys, 2000, &TINY);
        tree.rebuild().unwrap();
        verify(&tree, &map);
        let Some(block) = tree.block else { continue };
        assert_eq!(block.shape.units, tree.leaf_count());
        for id in block.shape.first..block.shape.first + block.shape.units {
            let pln = block.pln(tree.pool.region(), id).unwrap();
            assert_eq!((pln.count, pln.units), (0, 1));
        }
    }
}

/// Children are found by arithmetic: node `id` has the children from `id * (2m + 1) + 1` on.
#[test]
fn the_ids_of_a_level_begin_where_arithmetic_says() {
    let (tree, map) = run(1, 1 << 40, 3000, &TINY);
    let block = tree.block.unwrap();
    assert_eq!(block.shape.fan_out(), 7);
    assert!(block.shape.first > 8, "three levels at least");
    for &key in map.keys() {
        let Place { pln, .. } = block.find(tree.pool.region(), key).unwrap();
        assert!((block.shape.first..block.shape.first + block.shape.units).contains(&pln));
        assert_eq!(block.offset(pln) % 64, 0, "nodes begin at lines");
    }
}
