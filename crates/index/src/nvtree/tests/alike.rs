//! Long keys of which the elements are alike: of one first word, and of one hash, as far as it is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use tembo_pool::{Geometry, Pool, PoolOptions};

use crate::nvtree::image::{LeafImage, Seen};
use crate::nvtree::leaf::{Leaf, hash};
use crate::nvtree::{How, NvTree, Sorted};
use crate::{
    Clock, DeadIntervals, Direction, Error, Forest, Op, Place, Retained, Stamp, Value, ValueRoom,
    VersionedIndex, View, Writer,
};

/// So many keys of which the elements do not differ.
fn alike(count: usize) -> Vec<Vec<u8>> {
    let mut by_hash: BTreeMap<u64, Vec<Vec<u8>>> = BTreeMap::new();
    for number in 0_u64.. {
        let key = [*b"oneword!", number.to_be_bytes()].concat();
        // An element keeps sixteen bits, and fingerprints are made of these.
        let group = by_hash.entry(hash(&key) & 0xffff).or_default();
        group.push(key);
        if group.len() == count {
            return group.clone();
        }
    }
    Vec::new()
}

struct Trial<const SCATTERED: bool> {
    tree: NvTree,
    clock: Clock,
    model: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl<const SCATTERED: bool> Trial<SCATTERED> {
    fn new() -> Result<Trial<SCATTERED>, Error> {
        let geometry = Geometry { chunk_size: 4096, node_size: 1024 };
        let options = PoolOptions { size: 16 << 20, geometry, ..PoolOptions::default() };
        let pool = Arc::new(Pool::volatile(&options)?);
        let forest = Arc::new(Forest::new(pool, 1 << 30)?);
        let (retained, mut retired) = (Retained::new(1, Vec::new()), Vec::new());
        let (stamp, dead) = (Stamp::grouped(1, 0), &DeadIntervals::NONE);
        let writer = Writer { stamp, dead, retained: &retained, retired: &mut retired };
        let sorted = if SCATTERED { Sorted::ByHash } else { Sorted::ByKey };
        let (tree, _) = NvTree::create_sorted(forest, sorted, &writer)?;
        Ok(Trial { tree, clock: Clock::new(1), model: BTreeMap::new() })
    }

    /// Changes the tree and the model, by itself or as a group of one. Of what is retired nothing is given back, so that
    /// a record of another key would be found.
    fn change(&mut self, key: &[u8], value: Option<&[u8]>, is_single: bool) -> Result<(), Error> {
        let (last, mut retired) = (self.clock.last(), Vec::new());
        let retained = Retained::new(last, Vec::new());
        let (stamp, dead) = (Stamp::single(last, 0), &DeadIntervals::NONE);
        let mut writer = Writer { stamp, dead, retained: &retained, retired: &mut retired };
        let value = value.as_slice();
        let op = match value {
            [_] => Op::Put { key, value },
            _ => Op::Remove { key },
        };
        let existed = if is_single {
            let place = if SCATTERED { Place::default() } else { self.tree.prefetch_single(op) };
            self.tree.change::<SCATTERED>(
                place,
                op,
                How::Single(&self.clock.ticket()),
                &mut writer,
            )?
        } else {
            writer.stamp = Stamp::grouped(self.clock.draw(), 0);
            self.tree.change::<SCATTERED>(Place::default(), op, How::Grouped, &mut writer)?
        };
        let before = match value {
            [value] => self.model.insert(key.to_vec(), value.to_vec()),
            _ => self.model.remove(key),
        };
        assert_eq!(existed, before.is_some(), "{key:x?}");
        Ok(())
    }

    /// Looks for a key in both ways: with a pin, and without one if that finds it.
    fn look(&self, key: &[u8]) -> Result<bool, Error> {
        let version = self.clock.last();
        let expected = self.model.get(key).cloned();
        let view = View { version, dead: &DeadIntervals::NONE };
        let found = self.tree.find::<SCATTERED>(key, view)?.map(|value| value.to_vec());
        assert_eq!(found, expected, "{key:x?}");
        let mut room = ValueRoom::new();
        let Some(found) = self.tree.copy_fast::<SCATTERED>(key, version, &mut room) else {
            return Ok(false);
        };
        assert_eq!(found.map(|value| value.to_vec()), expected, "{key:x?}");
        Ok(true)
    }

    /// Visits all of them in order.
    fn scan(&self) -> Result<(), Error> {
        let (mut found, ends) = (Vec::new(), Bound::Unbounded);
        let mut visit = |key: &[u8], value: Value<'_>| {
            found.push((key.to_vec(), value.to_vec()));
            true
        };
        let view = View { version: self.clock.last(), dead: &DeadIntervals::NONE };
        self.tree.range(ends, ends, Direction::Forward, view, &mut visit)?;
        assert_eq!(found, self.model.clone().into_iter().collect::<Vec<_>>());
        let retained = Retained::new(self.clock.last(), Vec::new());
        self.tree.check(&retained, view.dead)?;
        Ok(())
    }

    /// Checks that an image of a leaf that is only grouped has the same elements of each key, and can be sorted. Returns how
    /// many leaves have their keys in another order then.
    fn group(&self) -> Result<usize, Error> {
        let slots = |image: &LeafImage| image.seen.iter().map(|seen| seen.slot).collect::<Vec<_>>();
        let first = Leaf::of(&self.tree.leaves.forest, self.tree.leaves.first()?)?;
        let (mut next, mut others) = (Some(first), 0);
        while let Some(leaf) = next {
            let image = LeafImage::read(&leaf, &DeadIntervals::NONE)?;
            let mut grouped = LeafImage::read_grouped(&leaf, &DeadIntervals::NONE)?;
            let keys = |image: &LeafImage| {
                let slots = |key: &[Seen]| key.iter().map(|seen| seen.slot).collect::<Vec<_>>();
                image.keys(&leaf).map(|key| key.map(slots)).collect::<Result<BTreeSet<_>, _>>()
            };
            assert_eq!(keys(&grouped)?, keys(&image)?);
            others += usize::from(slots(&grouped) != slots(&image));
            grouped.sort(&leaf)?;
            assert_eq!(slots(&grouped), slots(&image));
            next = leaf.next()?;
        }
        Ok(others)
    }
}

fn trial<const SCATTERED: bool>(others: u64) -> Result<(), Error> {
    let keys = alike(4);
    let mut trial = Trial::<SCATTERED>::new()?;
    let mut seed = 1 + others;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (seed >> 33) % below
    };
    // Others of the same first word, and of others.
    let other = |number: u64| [*b"oneword!", *b"anothers"][number as usize % 2];
    let others: Vec<Vec<u8>> =
        (0..others).map(|number| [other(number), (number << 40).to_be_bytes()].concat()).collect();
    let (mut copied, mut grouped) = (0, 0);
    for round in 0..3000_u64 {
        let key = match random(3) {
            0 if !others.is_empty() => &others[random(others.len() as u64) as usize],
            _ => &keys[random(keys.len() as u64) as usize],
        };
        let value = vec![round as u8; [0, 3, 8, 9, 30, 100, 400][random(7) as usize]];
        let value = (random(4) > 0).then_some(&value[..]);
        trial.change(key, value, random(2) == 0)?;
        for key in &keys {
            copied += u64::from(trial.look(key)?);
        }
        if round % 100 == 99 {
            for key in &others {
                trial.look(key)?;
            }
            if !SCATTERED {
                trial.scan()?;
                grouped += trial.group()?;
            }
        }
    }
    // One of them is found first; the others take another look.
    assert!(copied > 0);
    assert_eq!(grouped > 0, !SCATTERED && !others.is_empty());
    Ok(())
}

#[test]
fn keys_of_which_the_elements_are_alike_are_distinguished() -> Result<(), Error> {
    trial::<false>(0)?;
    trial::<false>(60)?;
    trial::<true>(0)?;
    trial::<true>(60)
}

#[test]
fn keys_that_differ_in_no_element_are_alike() {
    let keys = alike(4);
    assert_eq!(keys.len(), 4);
    assert!(keys.iter().all(|key| key.starts_with(b"oneword!") && key.len() == 16));
    assert!(keys.iter().all(|key| hash(key) & 0xffff == hash(&keys[0]) & 0xffff));
    assert!(keys.windows(2).all(|pair| pair[0] != pair[1]));
}
