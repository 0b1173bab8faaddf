//! The thesis's tree against a map, its counts beside the documents', and what a crash can leave of it.
#![allow(clippy::unwrap_used)]

mod counts;
mod crash;

use std::collections::BTreeMap;

use tembo_pmem::{Region, RegionOptions};
use tembo_pool::{Geometry, Object, PoolOptions};

use super::node::Node;
use super::*;
use crate::keys::Random;

type Map = BTreeMap<u64, u64>;

const ORDERS: [LeafOrder; 2] = [LeafOrder::Sorted, LeafOrder::Unordered];

/// Ten entries in a node, so that `m` is two.
const TINY: u32 = 384;

fn tree(order: LeafOrder, node_size: u32) -> CddsTree {
    let mut options = PoolOptions { size: 64 << 20, ..PoolOptions::default() };
    options.region.size_max = 64 << 20;
    CddsTree::create(Arc::new(Pool::volatile(&options).unwrap()), order, node_size).unwrap()
}

/// Nodes below an object, and what the thesis promises of each that is alive: its keys are in order and
/// within the bound of its parent's entry.
fn live_nodes(tree: &Tree, object: Object, range: (u64, u64), count: &mut u64) {
    let node: Node<'_> = tree.node(object).unwrap();
    *count += 1;
    let keys: Vec<u64> = node.live_entries().iter().map(|(key, _)| *key).collect();
    assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
    assert!(keys.iter().all(|key| (range.0..=range.1).contains(key)), "{keys:?} {range:?}");
    if node.is_leaf() {
        return;
    }
    assert_eq!(keys.last(), Some(&range.1), "the greatest key of an inner node is its bound");
    let mut low = range.0;
    for (key, child) in node.live_entries() {
        live_nodes(tree, Object::from_bits(child), (low, key), count);
        low = key.saturating_add(1);
    }
}

fn shown(tree: &CddsTree) -> Map {
    let mut map = Map::new();
    tree.scan(0, &mut |key, value| map.insert(key, value).is_none()).unwrap();
    map
}

/// Either order of leaves answers as the standard library's map does, while keys come and go.
#[test]
fn it_is_a_map_whose_nodes_keep_their_bounds() {
    for order in ORDERS {
        for node_size in [TINY, 512, 1024] {
            let (mut tree, mut model) = (tree(order, node_size), Map::new());
            let mut random = Random::new(11);
            for step in 0..30_000_u64 {
                let key = random.below(2_000);
                // First it grows, in the end it shrinks.
                match random.below(4) + u64::from(step > 20_000) {
                    0 if step < 10_000 => {}
                    0 | 4 => assert_eq!(tree.remove(key).unwrap(), model.remove(&key).is_some()),
                    1 => {
                        let existed = tree.update(key, step).unwrap();
                        assert_eq!(existed, model.contains_key(&key), "{order:?}");
                        if existed {
                            model.insert(key, step);
                        }
                    }
                    2 if !model.contains_key(&key) => {
                        tree.insert(key, step).unwrap();
                        model.insert(key, step);
                    }
                    _ => assert_eq!(tree.get(key).unwrap(), model.get(&key).copied(), "{order:?}"),
                }
            }
            assert_eq!(shown(&tree), model, "{order:?}");
            let mut count = 0;
            live_nodes(&tree.0, tree.0.root().unwrap(), (0, u64::MAX), &mut count);
            for key in 0..2_000 {
                assert_eq!(tree.remove(key).unwrap(), model.remove(&key).is_some());
            }
            assert!(shown(&tree).is_empty());
        }
    }
}

/// Section 4.4.4: what nothing names is freed, so that rewriting the same keys for ever takes no space.
#[test]
fn replaced_nodes_are_freed() {
    let mut tree = tree(LeafOrder::Sorted, 512);
    let mut most = [0, 0];
    for round in 0..40_u64 {
        for key in 0..1_000 {
            if round == 0 {
                tree.insert(key, round).unwrap();
            } else {
                assert!(tree.update(key, round).unwrap());
            }
        }
        let used = tree.pool().usage().allocated_bytes;
        let most = &mut most[usize::from(round >= 20)];
        *most = used.max(*most);
    }
    assert!(most[1] <= most[0] * 5 / 4, "{most:?}");
}
