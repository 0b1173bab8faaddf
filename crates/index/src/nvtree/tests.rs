//! Of a simple leaf, one sort of numbers finds what lists of elements find of any leaf.
#![allow(clippy::unwrap_used)]
use std::sync::Arc;

use tembo_pool::{Geometry, Pool, PoolOptions};

use super::NvTree;
use super::image::{make, make_general, make_simple};
use super::leaf::Leaf;
use super::upkeep::{reach_once, reach_simple};
use crate::{
    Clock, DeadInterval, DeadIntervals, Error, Forest, Op, Retained, Stamp, VersionedIndex, Writer,
};

/// Puts and removes short keys in two groups, the later of which dies.
fn tree() -> (NvTree, DeadIntervals) {
    let geometry = Geometry { chunk_size: 4096, node_size: 512 };
    let options = PoolOptions { size: 4 << 20, geometry, ..PoolOptions::default() };
    let pool = Arc::new(Pool::volatile(&options).unwrap());
    let forest = Arc::new(Forest::new(pool, 1 << 30).unwrap());
    let (dead, retained) = (DeadIntervals::default(), Retained::new(1, vec![1]));
    let mut retired = Vec::new();
    let clock = Clock::new(1);
    let stamp = Stamp::grouped(1, 0);
    let mut writer = Writer { stamp, dead: &dead, retained: &retained, retired: &mut retired };
    let (tree, _) = NvTree::create(forest.clone(), &writer).unwrap();
    let mut seed = 1_u64;
    for number in 0..4000 {
        seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let key = (seed >> 32).to_be_bytes();
        let key = &key[4..5 + seed as usize % 4];
        let value = [key; 3].concat();
        let len = number % value.len();
        let op = match number % 5 {
            4 => Op::Remove { key },
            _ => Op::Put { key, value: &[&value[..len]] },
        };
        if number < 3000 {
            tree.apply_single(op, &clock.ticket(), &mut writer).unwrap();
        } else {
            writer.stamp = Stamp::grouped(clock.draw(), 0);
            tree.apply(op, &mut writer).unwrap();
        }
    }
    let (from, to) = (3000, u64::MAX);
    (tree, DeadIntervals::new(vec![DeadInterval { from, to, lane: Some(0) }]))
}

#[test]
fn a_simple_leaf_is_made_as_any_other() -> Result<(), Error> {
    let (tree, dead) = tree();
    let mut leaf = Some(Leaf::of(&tree.leaves.forest, tree.leaves.first()?)?);
    let (mut simple, mut leaves) = (0, 0);
    while let Some(at) = leaf {
        for dead in [&DeadIntervals::NONE, &dead] {
            let guard = at.side.lock();
            make_general(&at, &guard, dead)?;
            let general = (guard.prints(), at.side.newest(), at.side.base());
            guard.forget();
            if make_simple(&at, &guard, dead)? {
                simple += 1;
                let made = (guard.prints(), at.side.newest(), at.side.base());
                assert_eq!(made.0.0.0, general.0.0.0);
                assert_eq!((made.0.1, made.1, made.2), (general.0.1, general.1, general.2));
            }
            guard.forget();
        }
        leaves += 1;
        leaf = at.next()?;
    }
    assert!(leaves > 100 && simple > leaves, "{simple} of {leaves}");
    Ok(())
}

#[test]
fn a_mark_of_a_simple_leaf_finds_the_same() -> Result<(), Error> {
    let (tree, dead) = tree();
    tree.leaves.forest.set_dead(Arc::new(dead.clone()));
    let mut leaf = Some(Leaf::of(&tree.leaves.forest, tree.leaves.first()?)?);
    let (mut simple, retained) = (0, Retained::new(1 << 40, Vec::new()));
    while let Some(at) = leaf {
        make(&at)?;
        let mut general = reach_once(&at, &retained, &dead)?;
        if let Some(mut found) = reach_simple(&at, &retained, &dead)? {
            simple += 1;
            for reached in [&mut found, &mut general] {
                reached.objects.sort_by_key(|object| object.to_bits());
            }
            assert_eq!(found, general);
        }
        leaf = at.next()?;
    }
    assert!(simple > 100);
    Ok(())
}
