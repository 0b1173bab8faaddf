//! A range shows the same of leaves whose elements are alike, which are copied as pairs of words, as of any others.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};

use super::*;
use crate::Direction;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

struct Ranges {
    tree: NvTree,
    clock: Clock,
    model: Model,
}

impl Ranges {
    fn new() -> Ranges {
        let geometry = Geometry { chunk_size: 4096, node_size: 512 };
        let options = PoolOptions { size: 4 << 20, geometry, ..PoolOptions::default() };
        let pool = Arc::new(Pool::volatile(&options).unwrap());
        let forest = Arc::new(Forest::new(pool, 1 << 30).unwrap());
        let (dead, retained, mut retired) = (DeadIntervals::default(), Retained::default(), vec![]);
        let (stamp, retired) = (Stamp::grouped(1, 0), &mut retired);
        let writer = Writer { stamp, dead: &dead, retained: &retained, retired };
        let (tree, _) = NvTree::create(forest, &writer).unwrap();
        Ranges { tree, clock: Clock::new(1), model: Model::new() }
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        let (dead, mut retired) = (DeadIntervals::default(), Vec::new());
        let retained = Retained::new(self.clock.last(), Vec::new());
        let (stamp, retired) = (Stamp::grouped(self.clock.draw(), 0), &mut retired);
        let mut writer = Writer { stamp, dead: &dead, retained: &retained, retired };
        self.tree.apply(Op::Put { key, value: &[value] }, &mut writer).unwrap();
        self.model.insert(key.to_vec(), value.to_vec());
    }

    /// What a walk shows, at most so much.
    fn shown(
        &self,
        (from, to): (Bound<&[u8]>, Bound<&[u8]>),
        direction: Direction,
        most: usize,
    ) -> Vec<(Vec<u8>, Vec<u8>)> {
        let (mut shown, dead) = (Vec::new(), DeadIntervals::default());
        let view = View { version: self.clock.last(), dead: &dead };
        let visit = &mut |key: &[u8], value: crate::Value<'_>| {
            shown.push((key.to_vec(), value.to_vec()));
            shown.len() < most
        };
        self.tree.range(from, to, direction, view, visit).unwrap();
        shown
    }

    /// Compares ranges between any two of these keys, both ways, whole and cut off, with the model.
    fn compare(&self, ends: &[Vec<u8>]) {
        let bounds =
            |key: &'_ Vec<u8>| [Bound::Included(key.clone()), Bound::Excluded(key.clone())];
        let mut all: Vec<Bound<Vec<u8>>> = ends.iter().flat_map(bounds).collect();
        all.push(Bound::Unbounded);
        for from in &all {
            for to in &all {
                let inside =
                    self.model.iter().filter(|(key, _)| (from.as_ref(), to.as_ref()).contains(key));
                let expected: Vec<_> =
                    inside.map(|(key, value)| (key.clone(), value.clone())).collect();
                let reversed: Vec<_> = expected.iter().rev().cloned().collect();
                let range = (from.as_ref().map(|key| &key[..]), to.as_ref().map(|key| &key[..]));
                for most in [usize::MAX, 1, 37] {
                    let most_of = |all: &[_]| all[..all.len().min(most)].to_vec();
                    let forward = self.shown(range, Direction::Forward, most);
                    assert_eq!(forward, most_of(&expected), "{range:?}");
                    let backward = self.shown(range, Direction::Backward, most);
                    assert_eq!(backward, most_of(&reversed), "{range:?}");
                }
            }
        }
    }

    /// How many leaves have elements that are alike, and others, as their side-cars say.
    fn alike(&self) -> (usize, usize) {
        let (mut alike, mut others) = (0, 0);
        let leaves = &self.tree.leaves;
        let mut leaf = Some(Leaf::of(&leaves.forest, leaves.first().unwrap()).unwrap());
        while let Some(at) = leaf {
            let moment = at.side.begin(leaves.forest.dead_epoch()).unwrap();
            match at.side.order(moment).unwrap().alike() {
                Some(_) => alike += 1,
                None => others += 1,
            }
            leaf = at.next().unwrap();
        }
        (alike, others)
    }
}

/// Keys with a prefix and `len` more bytes.
fn keys(prefix: &str, count: u32, len: usize) -> Vec<Vec<u8>> {
    let bytes = |number: u32| u64::from(number.wrapping_mul(0x9e37_79b1)).to_be_bytes();
    let key = |number: u32| [prefix.as_bytes(), &bytes(number)[4..], &[7; 8]].concat();
    (0..count).map(|number| key(number)[..prefix.len() + len].to_vec()).collect()
}

#[test]
fn ranges_over_leaves_whose_elements_are_alike_are_those_over_any() {
    // Keys of the last ones stand in records, for the first leaf has no prefix.
    for (prefix, len, value_len, least) in
        [("", 8, 8, 6), ("key/", 4, 0, 6), ("a-prefix/", 6, 3, 0)]
    {
        let mut ranges = Ranges::new();
        let keys = keys(prefix, 150, len);
        keys.iter().for_each(|key| ranges.put(key, &[5; 8][..value_len]));
        let some = || keys.iter().step_by(23);
        let shorter = some().map(|key| key[..key.len() - 1].to_vec());
        let longer = some().map(|key| [key, &[0][..]].concat());
        let mut ends: Vec<_> = some().cloned().chain(shorter).chain(longer).collect();
        ends.extend([vec![], vec![0xff; 12]]);
        ranges.compare(&ends);
        let (alike, others) = ranges.alike();
        assert!(alike >= least, "{prefix:?}: {alike} leaves are alike, {others} are not");
        // Another length in some, a record in others.
        for (number, key) in keys.iter().enumerate().step_by(40) {
            ranges.put(key, &[6; 40][..[1, 40][number / 40 % 2]]);
        }
        ranges.compare(&ends);
        assert!(ranges.alike().1 > 1);
    }
}
