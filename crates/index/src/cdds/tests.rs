//! Damaged trees: an error, whatever they are.
#![allow(clippy::unwrap_used)]

use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tembo_pool::{Geometry, Object, Pool, PoolOptions};

use super::Cdds;
use super::format::{capacity, shape};
use super::node::Node;
use crate::changes::Period;
use crate::{
    DeadIntervals, Direction, Error, Forest, Op, Retained, Stamp, VersionedIndex, View, Writer,
};

const GEOMETRY: Geometry = Geometry { chunk_size: 16 << 10, node_size: 192 };

/// A tree of one version that has these keys.
fn tree(geometry: Geometry, keys: impl Iterator<Item = Vec<u8>>) -> Cdds {
    let options = PoolOptions { size: 8 << 20, geometry, ..PoolOptions::default() };
    let pool = Arc::new(Pool::volatile(&options).unwrap());
    let forest = Arc::new(Forest::new(pool, 1 << 30).unwrap());
    let (dead, retained) = (DeadIntervals::default(), Retained::new(1, vec![1]));
    let (stamp, mut retired) = (Stamp::grouped(1, 0), Vec::new());
    let mut writer = Writer { stamp, dead: &dead, retained: &retained, retired: &mut retired };
    let (tree, _) = Cdds::create(forest, &writer).unwrap();
    for key in keys {
        tree.apply(Op::Put { key: &key, value: &[b"value"] }, &mut writer).unwrap();
    }
    tree
}

/// Gives a free slot of a node an entry that was begun in version 3 and ended in version 5.
fn add(forest: &Forest, node: Object, target: Object) -> bool {
    let node = Node::new(forest, node).unwrap();
    for slot in 0..node.capacity() {
        let entry = node.entry(slot).unwrap();
        if entry.start.load() == 0 {
            let region = forest.region();
            region.store(&entry.target, target.to_bits());
            region.store(&entry.end, Stamp::grouped(5, 0).to_bits());
            region.store(&entry.start, Stamp::grouped(3, 0).to_bits());
            return true;
        }
    }
    false
}

/// A node on the way from the root that has a free slot.
fn with_room(forest: &Forest, node: Object) -> Option<Object> {
    let here = Node::new(forest, node).unwrap();
    if here.check_shape().unwrap().level == 0 {
        return None;
    }
    let seen = here.all_seen().unwrap();
    if seen.iter().any(|seen| seen.start.is_none()) {
        return Some(node);
    }
    seen.iter().find_map(|seen| with_room(forest, Object::from_bits(seen.target)))
}

#[test]
fn a_chain_of_nodes_ends_a_search_of_changes() {
    let tree = tree(GEOMETRY, (0..200_u64).map(|number| number.to_be_bytes().to_vec()));
    let forest = tree.roots.forest.clone();
    let node_size = u64::from(GEOMETRY.node_size);
    // Each names the next, and all say that they are inner nodes.
    let mut last = None;
    for _ in 0..10_000 {
        let object = forest.pool().alloc(node_size).unwrap();
        let region = forest.region();
        for word in region.words(object.offset(), (node_size / 8) as usize).unwrap() {
            region.store(word, 0);
        }
        let header = Node::new(&forest, object).unwrap().header().unwrap();
        region.store(&header.birth, Stamp::grouped(3, 0).to_bits());
        region.store(&header.shape, shape(1, capacity(node_size), 0, false));
        if let Some(next) = last.replace(object) {
            assert!(add(&forest, object, next));
        }
    }
    let root = Object::from_bits(tree.roots.cell().unwrap().root.load());
    assert!(add(&forest, with_room(&forest, root).unwrap(), last.unwrap()));
    let search = move || {
        let dead = DeadIntervals::default();
        let period = Period { after: 2, until: 9, dead: &dead };
        tree.visit_changes(period, b"", &mut |_| true)
    };
    // Little room, so that it is found out without many nodes.
    let thread = std::thread::Builder::new().stack_size(512 << 10).spawn(search).unwrap();
    assert!(matches!(thread.join().unwrap(), Err(Error::Damaged { .. })));
}

#[test]
fn a_node_whose_keys_have_no_order_is_an_error() {
    // They differ behind the head, so their order is that of their records.
    let keys = || (0..30_u8).map(|number| [&b"the same bytes "[..], &[number * 7 % 30]].concat());
    let geometry = Geometry { chunk_size: 16 << 10, node_size: 1024 };
    let count = keys().count();
    for damaged in 0..count {
        let tree = tree(geometry, keys());
        let forest = tree.roots.forest.clone();
        let root = Object::from_bits(tree.roots.cell().unwrap().root.load());
        let mut leaves = Vec::new();
        collect(&forest, root, &mut leaves);
        let (leaf, slot) = leaves[damaged % leaves.len()];
        let target =
            Object::from_bits(Node::new(&forest, leaf).unwrap().seen(slot).unwrap().target);
        let head = forest.region().words(target.offset(), 1).unwrap();
        // The length of the key is as long as can be.
        forest.region().store(&head[0], head[0].load() | u64::from(u32::MAX));
        // Orders are made anew.
        forest.set_dead(Arc::new(DeadIntervals::default()));
        let dead = DeadIntervals::default();
        let view = View { version: 9, dead: &dead };
        let scan = || {
            let (from, to) = (Bound::Unbounded, Bound::Unbounded);
            tree.range(from, to, Direction::Forward, view, &mut |_, _| true)
        };
        let done = catch_unwind(AssertUnwindSafe(scan));
        assert!(matches!(done, Ok(Err(_))), "{damaged}");
    }
}

/// The leaves below a node, with their used slots.
fn collect(forest: &Forest, node: Object, leaves: &mut Vec<(Object, usize)>) {
    let here = Node::new(forest, node).unwrap();
    let level = here.check_shape().unwrap().level;
    for (slot, seen) in here.all_seen().unwrap().iter().enumerate() {
        match level {
            _ if seen.start.is_none() => {}
            0 => leaves.push((node, slot)),
            _ => collect(forest, Object::from_bits(seen.target), leaves),
        }
    }
}
