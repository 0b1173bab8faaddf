//! What a group has asked about the slots of a leaf: each is looked for once, and no answer outlives what changes the leaf.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use tembo_pool::{Geometry, Pool, PoolOptions};

use crate::nvtree::change::SEARCHED;
use crate::nvtree::leaf::Leaf;
use crate::nvtree::{How, NvTree};
use crate::{
    DeadInterval, DeadIntervals, Error, Forest, Op, Place, Retained, Retired, Stamp,
    VersionedIndex, View, Writer,
};

type Map = BTreeMap<u64, u64>;

struct Bed {
    tree: NvTree,
    /// The last version, and the last one that was committed.
    version: u64,
    visible: u64,
    dead: Arc<DeadIntervals>,
    pins: BTreeMap<u64, Map>,
    now: Map,
    retired: Vec<Retired>,
    seed: u64,
}

impl Bed {
    fn new() -> Result<Bed, Error> {
        let geometry = Geometry { chunk_size: 4096, node_size: 1024 };
        let options = PoolOptions { size: 32 << 20, geometry, ..PoolOptions::default() };
        let pool = Arc::new(Pool::volatile(&options)?);
        let forest = Arc::new(Forest::new(pool, 1 << 30)?);
        let (retained, mut retired) = (Retained::default(), Vec::new());
        let (stamp, dead) = (Stamp::grouped(1, 0), &DeadIntervals::NONE);
        let writer = Writer { stamp, dead, retained: &retained, retired: &mut retired };
        let (tree, _) = NvTree::create(forest, &writer)?;
        let (dead, pins, now) = (Arc::default(), BTreeMap::new(), Map::new());
        Ok(Bed { tree, version: 1, visible: 1, dead, pins, now, retired, seed: 1 })
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.seed = self.seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767);
        (self.seed >> 33) % limit
    }

    fn pin(&mut self) {
        self.pins.insert(self.visible, self.now.clone());
    }

    /// Forgets pins but for so many, which may be any.
    fn unpin(&mut self, left: usize) {
        while self.pins.len() > left {
            let at = self.below(self.pins.len() as u64) as usize;
            let version = self.pins.keys().copied().nth(at);
            version.and_then(|version| self.pins.remove(&version));
        }
    }

    /// Values for so many keys, each another one.
    fn some(&mut self, keys: u64, count: u64) -> Vec<(u64, Option<u64>)> {
        let mut all: Vec<u64> = (0..keys).collect();
        (0..count)
            .map(|_| {
                let at = self.below(all.len() as u64) as usize;
                (all.swap_remove(at), Some(self.below(1 << 30)))
            })
            .collect()
    }

    /// Values for all keys that are there, in some order.
    fn left(&mut self) -> Vec<(u64, Option<u64>)> {
        let mut left: Vec<u64> = self.now.keys().copied().collect();
        (0..left.len())
            .map(|_| {
                let at = self.below(left.len() as u64) as usize;
                (left.swap_remove(at), Some(self.below(1 << 30)))
            })
            .collect()
    }

    /// Changes keys in one group, which is committed or dies; before the change of that number all leaves are collected.
    fn group(
        &mut self,
        changes: &[(u64, Option<u64>)],
        collects_at: Option<usize>,
        commits: bool,
    ) -> Result<(), Error> {
        self.batch(&[changes], collects_at, commits)
    }

    /// Changes keys in several groups, which are committed together or die; collects as [`Bed::group`] does.
    fn batch(
        &mut self,
        groups: &[&[(u64, Option<u64>)]],
        collects_at: Option<usize>,
        commits: bool,
    ) -> Result<(), Error> {
        let retained = Retained::new(self.visible, self.pins.keys().copied().collect());
        let mut now = self.now.clone();
        let mut number = 0;
        for changes in groups {
            self.version += 1;
            for &change in *changes {
                self.change(change, collects_at == Some(number), &retained, &mut now)?;
                number += 1;
            }
        }
        if commits {
            (self.visible, self.now) = (self.version, now);
            return Ok(());
        }
        let mut intervals = self.dead.intervals().to_vec();
        intervals.push(DeadInterval { from: self.visible, to: self.version, lane: Some(0) });
        self.dead = Arc::new(DeadIntervals::new(intervals));
        self.tree.leaves.forest.set_dead(self.dead.clone());
        Ok(())
    }

    /// Puts or removes a key in the group of the last version.
    fn change(
        &mut self,
        (key, value): (u64, Option<u64>),
        collects: bool,
        retained: &Retained,
        now: &mut Map,
    ) -> Result<(), Error> {
        let (stamp, dead) = (Stamp::grouped(self.version, 0), self.dead.clone());
        let mut writer = Writer { stamp, dead: &dead, retained, retired: &mut self.retired };
        let mut from = collects.then(Vec::new);
        while let Some(start) = from {
            from = self.tree.collect(Some(&start), &mut writer)?;
        }
        let (key_bytes, value_bytes) = (key.to_be_bytes(), value.unwrap_or(0).to_le_bytes());
        let value_bytes: [&[u8]; 1] = [&value_bytes];
        let (op, before) = match value {
            Some(value) => {
                (Op::Put { key: &key_bytes, value: &value_bytes }, now.insert(key, value))
            }
            None => (Op::Remove { key: &key_bytes }, now.remove(&key)),
        };
        let existed = self.tree.change::<false>(Place::default(), op, How::Grouped, &mut writer)?;
        assert_eq!(existed, before.is_some(), "{key} in {}", self.version);
        Ok(())
    }

    /// Whether each version that is kept has what it had.
    fn check(&self, keys: u64) -> Result<(), Error> {
        for (&version, expected) in self.pins.iter().chain([(&self.visible, &self.now)]) {
            let view = View { version, dead: &self.dead };
            for key in 0..keys {
                let found = self.tree.find::<false>(&key.to_be_bytes(), view)?;
                let found = found.map(|value| value.to_vec());
                let expected = expected.get(&key).map(|value| value.to_le_bytes().to_vec());
                assert_eq!(found, expected, "{key} of {version} in {}", self.version);
            }
        }
        Ok(())
    }
}

#[test]
fn a_group_looks_once_for_what_ends_a_slot() -> Result<(), Error> {
    let mut bed = Bed::new()?;
    let first = Leaf::of(&bed.tree.leaves.forest, bed.tree.leaves.first()?)?;
    let keys = first.slots() as u64 / 4;
    let rest = first.slots() as u64 % 4;
    // Of each key three elements, the first and the third of which are pinned; the leaf is full.
    for round in 0..4 {
        let more = if round == 0 { rest } else { 0 };
        let changes: Vec<_> = (0..keys + more).map(|key| (key, Some(key + round))).collect();
        bed.group(&changes, None, true)?;
        if round % 2 == 0 {
            bed.pin();
        }
    }
    SEARCHED.take();
    let changes: Vec<_> = (0..keys).map(|key| (key, Some(key + 100))).collect();
    bed.group(&changes, None, true)?;
    let searched = SEARCHED.take();
    let slots: HashSet<_> = searched.iter().collect();
    // Those of three elements of each key that are ended, of which one was taken for each change.
    assert!(slots.len() as u64 >= keys, "{} of {keys} keys", slots.len());
    assert_eq!(searched.len(), slots.len());
    assert_eq!(bed.tree.leaves.leaf_count_known(), Some(1));
    bed.check(keys + rest)
}

#[test]
fn no_answer_outlives_a_collection_within_the_group() -> Result<(), Error> {
    const KEYS: u64 = 64;
    let (mut bed, mut leaves_max) = (Bed::new()?, 0);
    for round in 0..400 {
        // Several leaves, of which little is left, with elements that something needs and others.
        let all = bed.some(KEYS, KEYS);
        bed.group(&all, None, true)?;
        leaves_max = leaves_max.max(bed.tree.leaves.leaf_count_known().unwrap_or(0));
        bed.unpin(2);
        let kept = 4 + bed.below(12);
        let removed: Vec<_> =
            bed.some(KEYS, KEYS - kept).iter().map(|&(key, _)| (key, None)).collect();
        bed.group(&removed, None, true)?;
        for _ in 0..4 + bed.below(8) {
            let left = bed.left();
            bed.group(&left, None, true)?;
            if bed.below(4) == 0 {
                bed.pin();
            }
        }
        // The group asks in the first leaf, which takes in the next one, and asks again.
        let mut changes = bed.left();
        changes.sort_unstable();
        let before = bed.below(6).min(changes.len() as u64 - 1);
        let more = bed.below(12);
        changes.extend(bed.some(KEYS, more));
        bed.group(&changes, Some(before as usize), round % 2 == 0)?;
        bed.check(KEYS)?;
    }
    assert!(leaves_max > 2, "{leaves_max} leaves");
    Ok(())
}

#[test]
fn groups_that_commit_together_look_for_nothing_that_one_of_them_knew() -> Result<(), Error> {
    const KEYS: u64 = 12;
    let mut bed = Bed::new()?;
    for round in 0..8 {
        let changes: Vec<_> = (0..KEYS).map(|key| (key, Some(key + round))).collect();
        bed.group(&changes, None, true)?;
    }
    assert_eq!(bed.tree.leaves.leaf_count_known(), Some(1));
    SEARCHED.take();
    for _ in 0..64 {
        // Each of the groups changes some keys, and all but the first find the leaf changed by one that is not committed.
        let changes = bed.some(KEYS, KEYS);
        let groups: Vec<_> = changes.chunks(3).collect();
        bed.batch(&groups, None, true)?;
        bed.check(KEYS)?;
    }
    assert_eq!(SEARCHED.take(), Vec::new());
    Ok(())
}

#[test]
fn groups_that_commit_or_die_together_take_no_slot_that_is_needed() -> Result<(), Error> {
    const KEYS: u64 = 64;
    let mut bed = Bed::new()?;
    let all = bed.some(KEYS, KEYS);
    bed.group(&all, None, true)?;
    for round in 0..600 {
        let count = 1 + bed.below(KEYS);
        let mut changes = bed.some(KEYS, count);
        for change in &mut changes {
            if bed.below(5) == 0 {
                change.1 = None;
            }
        }
        let one = 1 + bed.below(changes.len() as u64) as usize;
        let again = bed.some(KEYS, 4);
        let mut groups: Vec<_> = changes.chunks(one).collect();
        groups.push(&again);
        let collects_at = (round % 7 == 0).then_some(one);
        bed.batch(&groups, collects_at, round % 3 != 0)?;
        if bed.below(6) == 0 {
            bed.pin();
        }
        bed.unpin(2);
        bed.check(KEYS)?;
    }
    Ok(())
}

#[test]
fn a_leaf_that_is_swept_before_the_commit_keeps_what_is_needed() -> Result<(), Error> {
    const KEYS: u64 = 1024;
    let mut bed = Bed::new()?;
    let all = bed.some(KEYS, 30);
    bed.group(&all, None, true)?;
    for round in 0..600 {
        // Keys are removed, others come, and some change: removals are most of what fills the leaves.
        let mut changes = bed.left();
        changes.truncate(12);
        changes.iter_mut().step_by(3).for_each(|change| change.1 = None);
        let others = bed.some(KEYS, 4);
        changes.extend(others);
        let one = 1 + bed.below(8) as usize;
        let groups: Vec<_> = changes.chunks(one).collect();
        bed.batch(&groups, None, round % 3 != 0)?;
        if bed.below(30) == 0 {
            bed.pin();
        }
        bed.unpin(1);
        bed.check(KEYS)?;
    }
    Ok(())
}
