//! Tests of which thread prefaults memory.
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::os::unix::fs::FileExt;

use tembo_pool::{Geometry, PoolOptions};

use super::*;
use crate::nvtree::Side;
use crate::{Clock, NvTree, Op, Stamp, VersionedIndex, Writer};

const PAGE: usize = 4096;
const NODE_SIZE: u32 = 256;
/// Leaves whose side-cars fill a large page.
const IN_LARGE: usize = (2 << 20) / size_of::<Side>();

fn forest() -> Arc<Forest> {
    let geometry = Geometry { chunk_size: 4096, node_size: NODE_SIZE };
    let options = PoolOptions { size: 64 << 20, geometry, ..PoolOptions::default() };
    Arc::new(Forest::new(Arc::new(Pool::volatile(&options).unwrap()), 64 << 20).unwrap())
}

/// Elements in a leaf.
const IN_LEAF: usize = 9;

/// Puts keys in order into a tree, so many leaves of them. Gives the number of the leaf that would come next.
fn fill(forest: &Arc<Forest>, leaves: usize, mut after_each: impl FnMut()) -> usize {
    let (dead, retained, mut retired) = Default::default();
    let clock = Clock::new(0);
    let stamp = Stamp::grouped(clock.draw(), 0);
    let mut writer = Writer { stamp, dead: &dead, retained: &retained, retired: &mut retired };
    let (tree, _) = NvTree::create(forest.clone(), &writer).unwrap();
    for number in 0..(leaves * IN_LEAF) as u64 {
        writer.stamp = Stamp::single(clock.last(), 0);
        let op = Op::Put { key: &number.to_be_bytes(), value: &[&[1; 8]] };
        tree.apply_single(op, &clock.ticket(), &mut writer).unwrap();
        after_each();
    }
    let next = forest.pool().alloc(NODE_SIZE.into()).unwrap();
    forest.leaf_id(next).unwrap() as usize
}

/// How many pages of side-cars are in memory.
fn pages_there(forest: &Forest, leaves: std::ops::Range<usize>) -> usize {
    let pagemap = File::open("/proc/self/pagemap").unwrap();
    let is_there = |id: &usize| {
        let page = std::ptr::from_ref(forest.leaves.get(*id).unwrap()).addr() / PAGE;
        let mut entry = [0; 8];
        pagemap.read_exact_at(&mut entry, page as u64 * 8).unwrap();
        u64::from_le_bytes(entry) >> 63 == 1
    };
    leaves.step_by(PAGE / size_of::<Side>()).filter(is_there).count()
}

#[test]
fn a_new_leaf_finds_its_memory_ready() {
    let (forest, calls) = (forest(), Arc::new(AtomicUsize::new(0)));
    let called = calls.clone();
    forest.call_to_prefault(move || {
        called.fetch_add(1, Ordering::Relaxed);
    });
    let mut seen = 0;
    let next = fill(&forest, 3 * IN_LARGE, || {
        let calls = calls.load(Ordering::Relaxed);
        if calls > seen {
            forest.prefault();
            seen = calls;
        }
        assert!(!forest.leaves.is_short() && !forest.nodes.is_short());
    });
    // Once for each large page of side-cars, and for each of inner nodes: of those there are few.
    assert!((3..=5).contains(&seen), "{seen}");
    assert!(next > 3 * IN_LARGE);
    let prefetcher = next..next + IN_LARGE / 2;
    assert_eq!(
        pages_there(&forest, prefetcher.clone()),
        prefetcher.len() * size_of::<Side>() / PAGE
    );
}

#[test]
fn without_a_prefaulter_nothing_is_prefaulted() {
    let forest = forest();
    let next = fill(&forest, IN_LARGE * 5 / 4, || {});
    let behind = next + IN_LARGE / 8..next + IN_LARGE;
    assert_eq!(pages_there(&forest, behind), 0);
}

#[test]
fn a_call_is_not_repeated_before_it_is_answered() {
    let (forest, calls) = (forest(), Arc::new(AtomicUsize::new(0)));
    let called = calls.clone();
    forest.call_to_prefault(move || {
        called.fetch_add(1, Ordering::Relaxed);
    });
    fill(&forest, IN_LARGE * 5 / 4, || {});
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    forest.prefault();
    assert!(!forest.leaves.is_short());
}
