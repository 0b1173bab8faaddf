#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use tembo_pool::{Pool, PoolOptions};

use super::*;
use crate::keys::Random;

const ALL: [Design; 3] = [Design::Plain, Design::Lcb, Design::NvtA];

fn tree(design: Design, node_size: u32) -> BplusTree {
    let mut options = PoolOptions { size: 64 << 20, ..PoolOptions::default() };
    options.region.size_max = 64 << 20;
    BplusTree::new(Arc::new(Pool::volatile(&options).unwrap()), design, node_size).unwrap()
}

/// Every design answers as the standard library's map does.
#[test]
fn every_design_is_a_map() {
    for design in ALL {
        for node_size in [512, 1024] {
            let (mut tree, mut model) = (tree(design, node_size), BTreeMap::new());
            let mut random = Random::new(11);
            for step in 0..20_000_u64 {
                let key = random.below(2_000);
                match random.below(4) {
                    0 => assert_eq!(tree.remove(key).unwrap(), model.remove(&key).is_some()),
                    1 => {
                        let existed = tree.update(key, step).unwrap();
                        assert_eq!(existed, model.contains_key(&key), "{design:?}");
                        if existed {
                            model.insert(key, step);
                        }
                    }
                    2 if !model.contains_key(&key) => {
                        tree.insert(key, step).unwrap();
                        model.insert(key, step);
                    }
                    _ => assert_eq!(tree.get(key).unwrap(), model.get(&key).copied(), "{design:?}"),
                }
            }
            let mut seen = Vec::new();
            tree.scan(0, &mut |key, value| {
                seen.push((key, value));
                true
            })
            .unwrap();
            assert!(seen.into_iter().eq(model), "{design:?}");
        }
    }
}

fn lines_an_insert(design: Design, node_size: u32) -> f64 {
    let mut tree = tree(design, node_size);
    let mut random = Random::new(3);
    let count = 20_000;
    for _ in 0..count {
        let key = random.next();
        tree.insert(key, key).unwrap();
    }
    let Flushed { sort_leaf, sort_inner, leaf, inner } = tree.flushed();
    (sort_leaf + sort_inner + leaf + inner) as f64 / f64::from(count)
}

/// NV-Tree, figure 1c: 14.8 and 85.26 lines an insert of the LCB+-Tree, with nodes of 512 bytes and of
/// 4 KiB.
#[test]
fn baselines_flush_about_what_the_paper_counted() {
    for (node_size, document) in [(512, 14.8), (4096, 85.26)] {
        let lines = lines_an_insert(Design::Lcb, node_size);
        assert!((0.5..1.3).contains(&(lines / document)), "{node_size}: {lines}");
    }
    assert!(lines_an_insert(Design::NvtA, 4096) < 6.0);
    assert_eq!(lines_an_insert(Design::Plain, 512), 0.0);
}
