//! The tree as a struct: its cell and its nodes, and each single step that is made durable.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use tembo_pmem::{Counters, Region, Word};
use tembo_pool::{Object, Pool};

use super::format::{
    CELL_BYTES, CELL_MAGIC, ENTRY_WORDS, FIRST_VERSION, LIVE, MAGIC, NODE_SIZE, ROOT, VERSION,
};
use super::node::Node;
use crate::{Error, Flushed};

/// Whether keys of a leaf are sorted (section 4.4.1 names both implementations).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeafOrder {
    Sorted,
    Unordered,
}

/// The pool's root slot that names the cell.
const ROOT_SLOT: usize = 0;

/// Lines that making a node may flush: a section's size, which costs nothing in the `flush` domain.
const LINES: u64 = 1024;

/// No fewer retired nodes start a collection.
const RETIRED_MIN: usize = 16;

/// The inner nodes above a node, from the root, and where the way went on in each.
pub(super) type Path<'t> = Vec<(Node<'t>, usize)>;

/// The tree.
pub(super) struct Tree {
    pool: Arc<Pool>,
    order: LeafOrder,
    node_size: u64,
    /// Offset of the cell.
    cell: u64,
    /// All nodes that are allocated.
    nodes: RefCell<Vec<Object>>,
    /// Nodes that were replaced since the last collection.
    retired: Cell<usize>,
    flushed: Cell<Flushed>,
}

impl Tree {
    pub(super) fn create(pool: Arc<Pool>, order: LeafOrder, size: u64) -> Result<Tree, Error> {
        let mut tree = Tree::new(pool, order, size, 0);
        let root = tree.make(0, &[])?;
        let section = tree.pool.reserve(CELL_BYTES, 2)?;
        let slot = tree.pool.root(ROOT_SLOT)?;
        let cell = tree.pool.alloc_into::<Error>(slot, CELL_BYTES, |region, object| {
            let words = region.words(object.offset(), (CELL_BYTES / 8) as usize)?;
            for word in words {
                region.store(word, 0);
            }
            region.store(&words[VERSION], FIRST_VERSION);
            region.store(&words[ROOT], root.to_bits());
            region.store(&words[NODE_SIZE], size);
            region.store(&words[MAGIC], CELL_MAGIC);
            // ORDER: the cell is durable before the pool's slot names it.
            region.flush("bench.cdds.create.cell", object.offset(), CELL_BYTES);
            Ok(())
        })?;
        drop(section);
        tree.cell = cell.offset();
        tree.flushed.take();
        Ok(tree)
    }

    fn new(pool: Arc<Pool>, order: LeafOrder, node_size: u64, cell: u64) -> Tree {
        let (nodes, retired, flushed) = Default::default();
        Tree { pool, order, node_size, cell, nodes, retired, flushed }
    }

    /// The tree of a pool as it lies there: to be recovered.
    #[cfg(test)]
    pub(super) fn open(pool: Arc<Pool>, order: LeafOrder) -> Result<Tree, Error> {
        let object = Object::from_bits(pool.root(ROOT_SLOT)?.load());
        pool.valid(object)?;
        let offset = object.offset();
        let words = pool.region().words(offset, (CELL_BYTES / 8) as usize)?;
        let (magic, size) = (words[MAGIC].load(), words[NODE_SIZE].load());
        let sound = size.is_multiple_of(CELL_BYTES) && (2 * CELL_BYTES..1 << 20).contains(&size);
        if magic != CELL_MAGIC || !sound {
            return Err(Error::Damaged { offset, what: "the cell of a CDDS" });
        }
        Ok(Tree::new(pool, order, size, offset))
    }

    /// All that the tree has taken, after what a crash left over: the rest of the pool is free.
    #[cfg(test)]
    pub(super) fn adopt(&self, nodes: Vec<Object>) -> Result<(), Error> {
        let mut sweep = self.pool.begin_sweep()?;
        sweep.mark(Object::from_bits(self.pool.root(ROOT_SLOT)?.load()))?;
        for node in &nodes {
            sweep.mark(*node)?;
        }
        sweep.finish([])?;
        *self.nodes.borrow_mut() = nodes;
        Ok(())
    }

    pub(super) fn flushed(&self) -> Flushed {
        self.flushed.get()
    }

    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(super) fn region(&self) -> &Region {
        self.pool.region()
    }

    fn cell_word(&self, word: usize) -> Result<&Word, Error> {
        Ok(&self.region().words(self.cell, (CELL_BYTES / 8) as usize)?[word])
    }

    /// The most recent consistent version.
    pub(super) fn version(&self) -> Result<u64, Error> {
        Ok(self.cell_word(VERSION)?.load())
    }

    /// That of the next operation.
    pub(super) fn next_version(&self) -> Result<u64, Error> {
        Ok(self.version()? + 1)
    }

    pub(super) fn root(&self) -> Result<Object, Error> {
        Ok(Object::from_bits(self.cell_word(ROOT)?.load()))
    }

    /// The node of an object.
    pub(super) fn node(&self, object: Object) -> Result<Node<'_>, Error> {
        Node::at(self.region(), object.offset(), self.node_size)
    }

    /// The least number of live entries of a node, `m` (section 4.4.6).
    pub(super) fn min_live(&self, node: &Node<'_>) -> usize {
        (node.capacity() / 5).max(1)
    }

    pub(super) fn is_sorted(&self, node: &Node<'_>) -> bool {
        self.order == LeafOrder::Sorted || !node.is_leaf()
    }

    /// The leaf that a key belongs to, and its way (algorithm 1). Live entries are those of the consistent
    /// version, until an operation ends or begins some.
    pub(super) fn path_to(&self, key: u64) -> Result<(Node<'_>, Path<'_>), Error> {
        let mut path = Path::new();
        let (leaf, _) = self.descend(key, |node, slot| path.push((node, slot)))?;
        Ok((leaf, path))
    }

    /// The leaf that a key belongs to, and the greatest key that does.
    pub(super) fn leaf_of(&self, key: u64) -> Result<(Node<'_>, u64), Error> {
        self.descend(key, |_, _| {})
    }

    #[inline]
    fn descend<'t>(
        &'t self,
        key: u64,
        mut step: impl FnMut(Node<'t>, usize),
    ) -> Result<(Node<'t>, u64), Error> {
        let (mut node, mut last) = (self.node(self.root()?)?, u64::MAX);
        while !node.is_leaf() {
            let (offset, what) = (node.offset, "a child for every key");
            let slot = node.find_from(key).ok_or(Error::Damaged { offset, what })?;
            step(node, slot);
            last = node.key(slot);
            node = self.node(Object::from_bits(node.value(slot)))?;
        }
        Ok((node, last))
    }

    /// The live entry of a key in its leaf.
    #[inline]
    pub(super) fn find(&self, leaf: &Node<'_>, key: u64) -> Option<usize> {
        if self.is_sorted(leaf) {
            return leaf.find_from(key).filter(|at| leaf.key(*at) == key);
        }
        (0..leaf.count()).rev().find(|at| leaf.key(*at) == key && leaf.is_live(*at))
    }

    /// A fresh node, durable before anything names it.
    pub(super) fn make(&self, level: u64, entries: &[[u64; ENTRY_WORDS]]) -> Result<Object, Error> {
        let section = self.pool.reserve(self.node_size, LINES)?;
        let object = self.pool.alloc(self.node_size)?;
        drop(section);
        self.nodes.borrow_mut().push(object);
        let node = self.node(object)?;
        let region = self.region();
        node.fill(region, level, entries);
        let before = Counters::thread();
        // ORDER: the node, its empty slots too, is durable before a parent names it.
        region.flush("bench.cdds.node.flush", node.offset, self.node_size);
        // ORDER: as above.
        region.fence("bench.cdds.node.fence");
        self.note(level, false, before);
        Ok(object)
    }

    /// Copies an entry to another slot.
    pub(super) fn shift(&self, node: &Node<'_>, from: usize, to: usize) {
        let region = self.region();
        node.write(region, to, node.read(from));
        let before = Counters::thread();
        // ORDER: the copy is durable before the entry is overwritten.
        region.flush("bench.cdds.shift.flush", node.entry_offset(to), Node::ENTRY_BYTES);
        // ORDER: as above.
        region.fence("bench.cdds.shift.fence");
        self.note(node.level(), true, before);
    }

    /// Writes a live entry that `version` starts.
    pub(super) fn put(&self, node: &Node<'_>, at: usize, (key, value): (u64, u64), version: u64) {
        let region = self.region();
        node.write(region, at, [key, value, version, LIVE]);
        let before = Counters::thread();
        // ORDER: the entry is durable before its version is committed.
        region.flush("bench.cdds.entry.flush", node.entry_offset(at), Node::ENTRY_BYTES);
        // ORDER: as above.
        region.fence("bench.cdds.entry.fence");
        self.note(node.level(), false, before);
    }

    /// Ends an entry in its place.
    pub(super) fn end(&self, node: &Node<'_>, at: usize, version: u64) {
        let region = self.region();
        node.set_end(region, at, version);
        let before = Counters::thread();
        // ORDER: the end is durable before its version is committed.
        region.flush("bench.cdds.end.flush", node.entry_offset(at), Node::ENTRY_BYTES);
        // ORDER: as above.
        region.fence("bench.cdds.end.fence");
        self.note(node.level(), false, before);
    }

    /// Ends the live entries whose keys `are`, and flushes the node once (algorithms 3 and 4).
    pub(super) fn end_all(&self, node: &Node<'_>, version: u64, are: impl Fn(u64) -> bool) {
        let region = self.region();
        let slots: Vec<usize> = node.live_slots().filter(|at| are(node.key(*at))).collect();
        let (Some(first), Some(last)) = (slots.first(), slots.last()) else { return };
        for at in &slots {
            node.set_end(region, *at, version);
        }
        let bytes = node.entry_offset(last + 1) - node.entry_offset(*first);
        let before = Counters::thread();
        // ORDER: the ends are durable before their version is committed.
        region.flush("bench.cdds.end_all.flush", node.entry_offset(*first), bytes);
        // ORDER: as above.
        region.fence("bench.cdds.end_all.fence");
        self.note(node.level(), false, before);
    }

    /// Takes the last entries of a node away, down to `count`.
    pub(super) fn truncate(&self, node: &Node<'_>, count: usize) {
        let region = self.region();
        for at in (count..node.count()).rev() {
            node.clear(region, at);
            let before = Counters::thread();
            // ORDER: what was cleared is durable before its slot, or the one below, changes again:
            // slots with entries come first.
            region.flush("bench.cdds.clear.flush", node.entry_offset(at), Node::ENTRY_BYTES);
            // ORDER: as above.
            region.fence("bench.cdds.clear.fence");
            self.note(node.level(), true, before);
        }
        if count < node.count() {
            node.set_count(region, count);
        }
    }

    /// Another root.
    pub(super) fn set_root(&self, object: Object) -> Result<(), Error> {
        let (region, word) = (self.region(), self.cell_word(ROOT)?);
        // ORDER: the node is durable, which `make` has seen to.
        region.commit("bench.cdds.root.commit", word, object.to_bits());
        let before = Counters::thread();
        // ORDER: durable before the version that needs it is committed, and before the old root changes.
        region.flush("bench.cdds.root.flush", self.cell, CELL_BYTES);
        // ORDER: as above.
        region.fence("bench.cdds.root.fence");
        self.note(1, false, before);
        Ok(())
    }

    /// Makes a version the consistent one: durable when it returns (algorithm 2, lines 18 and 19).
    pub(super) fn commit(&self, version: u64) -> Result<(), Error> {
        let (region, word) = (self.region(), self.cell_word(VERSION)?);
        // ORDER: after all entries of the version, each of which was fenced.
        region.commit("bench.cdds.version.commit", word, version);
        let before = Counters::thread();
        // ORDER: the version is durable before the operation returns.
        region.flush("bench.cdds.version.flush", self.cell, CELL_BYTES);
        // ORDER: as above.
        region.fence("bench.cdds.version.fence");
        self.note(0, false, before);
        Ok(())
    }

    /// A node was replaced, and is named by ended entries only.
    pub(super) fn retire(&self) {
        self.retired.set(self.retired.get() + 1);
    }

    /// Whether half of all nodes, or more, were replaced since the last collection.
    pub(super) fn is_collection_due(&self) -> bool {
        let retired = self.retired.get();
        retired >= RETIRED_MIN && 2 * retired >= self.nodes.borrow().len()
    }

    /// Frees all nodes but those that `keeps` names.
    pub(super) fn free_others(&self, keeps: impl Fn(Object) -> bool) {
        self.nodes.borrow_mut().retain(|node| {
            let kept = keeps(*node);
            if !kept {
                self.pool.free(*node);
            }
            kept
        });
        self.retired.set(0);
    }

    fn note(&self, level: u64, is_shift: bool, before: Counters) {
        let lines = (Counters::thread() - before).lines;
        let mut flushed = self.flushed.get();
        *match (level, is_shift) {
            (0, true) => &mut flushed.sort_leaf,
            (0, false) => &mut flushed.leaf,
            (_, true) => &mut flushed.sort_inner,
            (_, false) => &mut flushed.inner,
        } += lines;
        self.flushed.set(flushed);
    }
}
