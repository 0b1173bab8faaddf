//! The paper's own counts: FLUSHes, each a flush and a fence.

use tembo_pmem::Counters;

use super::*;
use crate::bplus::{BplusTree, Design};
use crate::cdds_paper::{CddsTree, LeafOrder};

fn cost<T>(act: impl FnOnce() -> T) -> (Counters, T) {
    let before = Counters::thread();
    let result = act();
    (Counters::thread() - before, result)
}

/// Algorithm 2: FLUSH(newElement), FLUSH(leaf.number). An element lies in a line or across two.
#[test]
fn insert_update_and_remove_cost_two_flushes_each() {
    let options = Options { leaf_size: 4096, ..TINY };
    let mut tree = NvTree::create(pool(), &options).unwrap();
    tree.insert(0, 0).unwrap();
    let capacity = (4096 - 64) / 24;
    let (mut elements, mut lines) = (1, 0);
    for key in 1..40 {
        let (insert, ()) = cost(|| tree.insert(key, key).unwrap());
        let (update, there) = cost(|| tree.update(key, key + 1).unwrap());
        let (remove, was_there) = cost(|| tree.remove(key).unwrap());
        assert!(there && was_there);
        elements += 4;
        assert!(elements < capacity, "no leaf becomes full");
        for cost in [insert, update, remove] {
            assert_eq!(cost.fences, 2);
            assert!((2..=3).contains(&cost.lines), "{cost:?}");
        }
        lines += insert.lines;
        // Flag, key and value, and the count.
        assert_eq!([insert.bytes, update.bytes, remove.bytes], [32, 56, 32]);
    }
    assert!(lines > 2 * 39, "some elements lie across two lines");
}

#[test]
fn what_changes_nothing_costs_nothing() {
    let (mut tree, _) = run(1, 100, 1000, &TINY);
    let (found, there) = cost(|| tree.remove(1 << 50).unwrap() || tree.update(1 << 50, 1).unwrap());
    assert!(!there);
    assert_eq!((found.fences, found.lines, found.stores), (0, 0, 0));
}

/// Section 4.4: fresh leaves are FLUSHed, and then the one pointer that shows them. What is appended is
/// in them already.
#[test]
fn a_full_leaf_costs_two_fences_too() {
    let mut tree = NvTree::create(pool(), &TINY).unwrap();
    let (mut splits, mut replacements) = (0, 0);
    for at in 0..5000 {
        let before = (tree.pool().usage().frontier, tree.rebuilds().count);
        let leaves = tree.leaf_count();
        let key = at * 7919 % 5003;
        let (insert, ()) = cost(|| tree.insert(key, at).unwrap());
        // What the allocator and a rebuild take is counted with them.
        let alone = before == (tree.pool().usage().frontier, tree.rebuilds().count);
        if alone && tree.leaf_count() > leaves {
            splits += 1;
            assert_eq!(insert.fences, 2);
            // Two leaves of at most three lines each, and the pointer.
            assert!(insert.lines <= 2 * 3 + 1, "{insert:?}");
        }
    }
    // An only leaf, of which little is valid, has no sibling to merge with.
    let mut tree = NvTree::create(pool(), &TINY).unwrap();
    tree.insert(1, 0).unwrap();
    for value in 1..100 {
        let head = tree.head().unwrap();
        let (update, there) = cost(|| tree.update(1, value).unwrap());
        assert!(there);
        assert_eq!(update.fences, 2);
        replacements += u64::from(head != tree.head().unwrap());
    }
    assert!(splits > 100 && replacements > 20, "{splits} {replacements}");
}

/// Insertions that are counted.
const INSERTIONS: u32 = 20_000;

fn large_pool() -> Arc<Pool> {
    let mut options = PoolOptions { size: 64 << 20, ..PoolOptions::default() };
    options.region.size_max = 64 << 20;
    Arc::new(Pool::volatile(&options).unwrap())
}

/// Lines an insertion of random keys, all that the operations flush.
fn lines_an_insertion(mut insert: impl FnMut(u64)) -> f64 {
    let mut random = Random::new(3);
    let (all, ()) = cost(|| (0..INSERTIONS).for_each(|_| insert(random.next())));
    all.lines as f64 / f64::from(INSERTIONS)
}

/// Section 6.2, figure 5b: the NV-Tree flushes 80 to 97 % fewer lines than the LCB+-Tree and 76 to 96 % fewer than
/// CDDS, by the size of nodes. Two points of percent either way: both rivals here flush up to a fifth less than the
/// paper's own (figure 1c, tested beside them), of which the NV-Tree's 2.8 lines are a point or two more.
#[test]
fn insertions_flush_as_much_less_than_the_rivals_as_the_paper_says() {
    const TOLERANCE: f64 = 0.02;
    for node_size in [512, 1024, 2048, 4096] {
        let options = Options {
            leaf_size: node_size.into(),
            strategy: Some(Strategy::Balanced),
            ..Options::default()
        };
        let mut own = NvTree::create(large_pool(), &options).unwrap();
        let own = lines_an_insertion(|key| own.insert(key, key).unwrap());
        let mut lcb = BplusTree::new(large_pool(), Design::Lcb, node_size).unwrap();
        let lcb = lines_an_insertion(|key| lcb.insert(key, key).unwrap());
        let mut cdds = CddsTree::create(large_pool(), LeafOrder::Sorted, node_size).unwrap();
        let cdds = lines_an_insertion(|key| cdds.insert(key, key).unwrap());
        for (rival, low, high) in [(lcb, 0.80, 0.97), (cdds, 0.76, 0.96)] {
            let fewer = 1.0 - own / rival;
            let is_near = (low - TOLERANCE..=high + TOLERANCE).contains(&fewer);
            assert!(is_near, "{node_size}: {own} and {rival}, {fewer} fewer");
        }
    }
}
