//! A tree of a single version, as a transaction has for itself, is changed while a marking walks through it: the marking misses no
//! object that was there when it began and that the tree has still.
#![allow(clippy::unwrap_used)]

use std::collections::HashSet;
use std::sync::Arc;

use tembo_index::{
    DeadIntervals, Error, Forest, Index, IndexKind, Op, Retained, Retired, Stamp, TreeMarker,
    VersionedIndex, Writer,
};
use tembo_pool::{Geometry, Object, Pool, PoolOptions};

const KEYS: u32 = 120;

/// What a marking has reached. Calls `before` with the number of each step.
struct Found<F>(HashSet<u64>, F);

impl<F: FnMut(usize)> TreeMarker for Found<F> {
    fn reachable(&mut self, object: Object) -> Result<bool, Error> {
        (self.1)(self.0.len());
        Ok(self.0.insert(object.to_bits()))
    }

    fn unclean(&mut self, _node: Object) {}

    fn live_entry(&mut self) {}
}

fn mark(tree: &Index, before: impl FnMut(usize)) -> HashSet<u64> {
    let (retained, dead) = (Retained::new(9, vec![9]), DeadIntervals::default());
    let mut found = Found(HashSet::new(), before);
    tree.mark(&retained, &dead, &mut found).unwrap();
    found.0
}

fn change(tree: &Index, op: Op<'_>) {
    let (dead, retained, mut retired) = (DeadIntervals::default(), Retained::default(), Vec::new());
    let stamp = Stamp::grouped(1, 0);
    let mut writer = Writer { stamp, dead: &dead, retained: &retained, retired: &mut retired };
    tree.apply(op, &mut writer).unwrap();
    // Its space is not given back while a marking runs.
    drop::<Vec<Retired>>(retired);
}

fn put(tree: &Index, number: u32) {
    let key = number.to_be_bytes();
    change(tree, Op::Put { key: &key, value: &[b"a value that is a record of its own"] });
}

fn remove(tree: &Index, number: u32) {
    change(tree, Op::Remove { key: &number.to_be_bytes() });
}

/// A tree of every fourth number.
fn tree(kind: IndexKind) -> Index {
    let geometry = Geometry { chunk_size: 16 << 10, node_size: 192 };
    let options = PoolOptions { size: 4 << 20, geometry, ..PoolOptions::default() };
    let pool = Arc::new(Pool::volatile(&options).unwrap());
    let forest = Arc::new(Forest::new(pool, 1 << 30).unwrap());
    let (dead, retained, mut retired) = (DeadIntervals::default(), Retained::default(), Vec::new());
    let stamp = Stamp::grouped(1, 0);
    let writer = Writer { stamp, dead: &dead, retained: &retained, retired: &mut retired };
    let (tree, _) = Index::create(forest, kind, &writer).unwrap();
    (0..KEYS).for_each(|number| put(&tree, number * 4));
    tree
}

fn splits(tree: &Index) {
    (0..KEYS).for_each(|number| put(tree, number * 4 + 2));
}

fn merges(tree: &Index) {
    (0..KEYS).filter(|number| number % 8 != 0).for_each(|number| remove(tree, number * 4));
}

fn misses_nothing(kind: IndexKind, changes: fn(&Index)) {
    let steps = mark(&tree(kind), |_| ()).len();
    for step in 0..steps {
        let tree = tree(kind);
        let there = mark(&tree, |_| ());
        let mut is_changed = false;
        let found = mark(&tree, |count| {
            if count == step && !std::mem::replace(&mut is_changed, true) {
                changes(&tree);
            }
        });
        let has_still = mark(&tree, |_| ());
        let missed = has_still.iter().filter(|bits| there.contains(bits) && !found.contains(bits));
        assert!(is_changed && missed.count() == 0, "{kind:?}, changed at step {step} of {steps}");
    }
}

#[test]
fn nodes_that_are_split_while_a_marking_runs_hide_nothing_from_it() {
    [IndexKind::Cdds, IndexKind::Nvtree].into_iter().for_each(|kind| misses_nothing(kind, splits));
}

#[test]
fn nodes_that_are_merged_while_a_marking_runs_hide_nothing_from_it() {
    [IndexKind::Cdds, IndexKind::Nvtree].into_iter().for_each(|kind| misses_nothing(kind, merges));
}
