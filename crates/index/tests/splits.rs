//! Splits of leaves whose keys have little in their words to distinguish them: every key is found afterwards, in order, and
//! the check finds it.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use tembo_index::{
    Clock, DeadIntervals, Direction, Forest, Index, IndexKind, Op, Retained, Stamp, VersionedIndex,
    View, Writer,
};
use tembo_pool::{Geometry, Pool, PoolOptions};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (self.0 >> 33) as usize % bound
    }
}

/// Puts and removes keys, each change by itself; the tree and a map of it agree. How many leaves there are.
fn agree(
    node_size: u32,
    changes: usize,
    mut next: impl FnMut(usize) -> (Vec<u8>, Option<Vec<u8>>),
) -> u64 {
    let geometry = Geometry { chunk_size: 4096, node_size };
    let options = PoolOptions { size: 16 << 20, geometry, ..PoolOptions::default() };
    let pool = Arc::new(Pool::volatile(&options).unwrap());
    let forest = Arc::new(Forest::new(pool, 16 << 20).unwrap());
    let (dead, mut retired, clock) = (DeadIntervals::default(), Vec::new(), Clock::new(1));
    let mut map = Map::new();
    let mut retained = Retained::new(1, Vec::new());
    let stamp = Stamp::single(1, 0);
    let mut writer = Writer { stamp, dead: &dead, retained: &retained, retired: &mut retired };
    let (tree, _) = Index::create(forest, IndexKind::Nvtree, &writer).unwrap();
    for number in 0..changes {
        let (key, value) = next(number);
        let (value, existed) = match value {
            Some(value) => (vec![value.clone()], map.insert(key.clone(), value)),
            None => (Vec::new(), map.remove(&key)),
        };
        let parts: Vec<&[u8]> = value.iter().map(Vec::as_slice).collect();
        let op = match &parts[..] {
            [] => Op::Remove { key: &key },
            value => Op::Put { key: &key, value },
        };
        retained = Retained::new(clock.last(), Vec::new());
        writer = Writer { stamp, dead: &dead, retained: &retained, retired: &mut retired };
        let answer = tree.apply_single(op, &clock.ticket(), &mut writer).unwrap();
        assert_eq!(answer, Some(existed.is_some()), "{number}: {key:?}");
    }
    let view = View { version: clock.last(), dead: &dead };
    for (key, value) in &map {
        assert_eq!(tree.get(key, view).unwrap().unwrap(), *value, "{key:?}");
    }
    let (from, mut found) = (Bound::Included(&[][..]), Map::new());
    tree.range(from, Bound::Unbounded, Direction::Forward, view, &mut |key, value| {
        assert!(found.last_key_value().is_none_or(|(last, _)| **last < *key));
        found.insert(key.to_vec(), value.to_vec());
        true
    })
    .unwrap();
    assert_eq!(found, map);
    let report = tree.check(&Retained::new(clock.last(), Vec::new()), &dead).unwrap();
    assert_eq!(report.entry_count, map.len() as u64);
    report.leaf_count
}

/// Among such keys many have the same word, and not the same length.
#[test]
fn keys_that_end_in_zeros_are_on_the_right_side_of_each_split() {
    for seed in 0..200 {
        let mut random = Random(seed);
        let node_size = [192, 256, 512][seed as usize % 3];
        agree(node_size, 300, |_| {
            let zeros = random.below(12);
            let mut key = vec![b'a'; random.below(2)];
            key.extend((0..random.below(3)).map(|_| random.below(3) as u8));
            key.resize(key.len() + zeros, 0);
            (key, Some(vec![7; [3, 8, 30][random.below(3)]]))
        });
    }
}

/// Long keys, of which the words say little, a little or all.
#[test]
fn long_keys_with_records_are_found_after_splits() {
    for seed in 0..120 {
        let mut random = Random(seed);
        let (node_size, shared) = ([192, 512, 1024][seed as usize % 3], random.below(20));
        let (alphabet, len) = ([2, 4, 256][random.below(3)], 9 + random.below(20));
        agree(node_size, 1200, |number| {
            let mut key = vec![b'p'; shared];
            key.extend((0..len).map(|_| random.below(alphabet) as u8));
            key.truncate(key.len() - random.below(3));
            match number % 7 {
                6 => (key, None),
                _ => (key, Some(vec![number as u8; [100, 100, 100, 5, 300][random.below(5)]])),
            }
        });
    }
}

/// Each key is changed again and again, beside others that come and go.
#[test]
fn records_that_are_put_again_and_removed_are_those_of_their_keys() {
    for seed in 0..60 {
        let mut random = Random(seed);
        let node_size = [192, 512, 1024][seed as usize % 3];
        agree(node_size, 3000, |number| {
            let key = format!("the key of that number {:04}", random.below(90)).into_bytes();
            let value = vec![number as u8; [0, 8, 9, 100, 511, 512, 1100][random.below(7)]];
            (key, (random.below(3) > 0).then_some(value))
        });
    }
}

/// Keys that come in order fill their leaves but for a slot: without it the first change of a key would split its leaf.
#[test]
fn leaves_that_were_filled_in_order_are_not_split_by_changes_of_their_keys() {
    for (name, value_len) in [("", 8), ("", 100), ("a longer name/", 8), ("a longer name/", 100)] {
        for node_size in [512, 1024] {
            let key = |number: usize| match name {
                "" => (number as u64).to_be_bytes().to_vec(),
                _ => format!("{name}of that number {number:08}").into_bytes(),
            };
            let put = |count: usize| {
                agree(node_size, count, |at| {
                    let number = if at < 2003 { at } else { at * 7 % 2003 };
                    (key(number), Some(vec![at as u8; value_len]))
                })
            };
            let (filled, changed) = (put(2003), put(2 * 2003));
            // The first leaf has no prefix that its keys share.
            assert!(
                filled > 40 && changed <= filled + 1,
                "{filled}, {changed}: {name:?}, {value_len}"
            );
        }
    }
}
