//! Of a simple leaf, one sort of numbers finds what lists of elements find of any leaf. And the directory of scattered keys is
//! right at every time, and mostly there.
#![allow(clippy::unwrap_used)]

mod alike;
mod asked;
mod ranges;

use std::sync::Arc;

use tembo_pool::{Geometry, Pool, PoolOptions};

use super::image::{make, make_general, make_simple};
use super::leaf::Leaf;
use super::upkeep::{reach_once, reach_simple};
use super::{How, NvTree, Sorted};
use crate::head::head;
use crate::{
    Clock, DeadInterval, DeadIntervals, Error, Forest, Op, Place, Retained, Retired, Stamp,
    VersionedIndex, View, Writer,
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

/// A hash index without what scatters keys: they are spread evenly.
struct Spread {
    tree: NvTree,
    pool: Arc<Pool>,
    clock: Clock,
    retired: Vec<Retired>,
    seed: u64,
    keys: Vec<[u8; 8]>,
}

impl Spread {
    fn new() -> Result<Spread, Error> {
        let geometry = Geometry { chunk_size: 4096, node_size: 512 };
        let options = PoolOptions { size: 16 << 20, geometry, ..PoolOptions::default() };
        let pool = Arc::new(Pool::volatile(&options)?);
        let forest = Arc::new(Forest::new(pool.clone(), 1 << 30)?);
        let (clock, stamp, mut retired) = (Clock::new(1), Stamp::grouped(1, 0), Vec::new());
        let retained = Retained::new(1, Vec::new());
        let dead = &DeadIntervals::NONE;
        let writer = Writer { stamp, dead, retained: &retained, retired: &mut retired };
        let (tree, _) = NvTree::create_sorted(forest, Sorted::ByHash, &writer)?;
        Ok(Spread { tree, pool, clock, retired, seed: 1, keys: Vec::new() })
    }

    fn random(&mut self) -> u64 {
        self.seed = self.seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (self.seed ^ self.seed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    fn with_writer<T>(&mut self, with: impl FnOnce(&NvTree, &Clock, &mut Writer<'_>) -> T) -> T {
        let retained = Retained::new(self.clock.last(), Vec::new());
        let (stamp, dead) = (Stamp::grouped(self.clock.last(), 0), &DeadIntervals::NONE);
        let mut writer = Writer { stamp, dead, retained: &retained, retired: &mut self.retired };
        with(&self.tree, &self.clock, &mut writer)
    }

    /// Puts a key, or removes one of those that are there.
    fn change(&mut self, grows: bool) -> Result<(), Error> {
        let number = self.random();
        let key = match grows {
            true => number.to_be_bytes(),
            false if self.keys.is_empty() => return Ok(()),
            false => self.keys.swap_remove(number as usize % self.keys.len()),
        };
        self.with_writer(|tree, clock, writer| {
            let op = match grows {
                true => Op::Put { key: &key, value: &[&key] },
                false => Op::Remove { key: &key },
            };
            tree.change::<true>(Place::default(), op, How::Single(&clock.ticket()), writer)
        })?;
        self.keys.extend(grows.then_some(key));
        Ok(())
    }

    fn collect(&mut self) -> Result<(), Error> {
        let mut from = None;
        loop {
            from = self.with_writer(|tree, _, writer| tree.collect(from.as_deref(), writer))?;
            if from.is_none() {
                break;
            }
        }
        self.clock.draw();
        self.retired.drain(..).for_each(|retired| self.pool.free(retired.object));
        Ok(())
    }

    /// Looks for every key, and asks of slots whether the leaf that is named for each has all of its keys; how many
    /// leaves there are.
    fn check(&mut self) -> Result<u64, Error> {
        let (visible, dead) = (self.clock.last(), &DeadIntervals::NONE);
        let view = View { version: visible, dead };
        for key in &self.keys {
            let found = self.tree.find::<true>(key, view)?;
            assert_eq!(found.map(|value| value.to_vec()), Some(key.to_vec()));
        }
        let leaves = &self.tree.leaves;
        let is_listed = |key: &&[u8; 8]| leaves.listed(head(*key, 0)).is_some();
        // Of these all slots were asked for, and hardly any has keys of two leaves.
        assert!(self.keys.iter().filter(is_listed).count() * 100 >= self.keys.len() * 95);
        let report = self.tree.check(&Retained::new(visible, Vec::new()), dead)?;
        assert_eq!(report.entry_count, self.keys.len() as u64);
        for _ in 0..4000 {
            let word = self.random();
            let leaves = &self.tree.leaves;
            let Some((id, slot)) = leaves.listed(word) else { continue };
            let range = Leaf::at(&leaves.forest, id)?.range()?;
            for inside in [word, *slot.start(), *slot.end()] {
                assert!(range.covers(&inside.to_be_bytes()), "{inside:x}");
            }
        }
        Ok(report.leaf_count)
    }
}

#[test]
fn a_leaf_that_the_directory_names_has_all_keys_of_the_slot() -> Result<(), Error> {
    let (mut spread, mut leaves_max) = (Spread::new()?, 0);
    for round in 0..40 {
        // Grows, shrinks to nothing, and grows again.
        let grows = !(15..30).contains(&round);
        (0..600).try_for_each(|_| spread.change(grows))?;
        spread.collect()?;
        leaves_max = leaves_max.max(spread.check()?);
    }
    assert!(leaves_max > 400);
    Ok(())
}
