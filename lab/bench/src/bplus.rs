//! One B+-Tree with switches: the baselines of the NV-Tree's paper.
//!
//! - [`Design::Plain`]: nothing is flushed. The "standard B+-Tree without consistency guarantee".
//! - [`Design::Lcb`]: before a node is changed, its used part is copied to a log and flushed; then what was
//!   changed, shifted entries included, is flushed (LCB+-Tree, NV-Tree section 3.1).
//! - [`Design::NvtA`]: leaves as the NV-Tree has them, unsorted and append-only, under inner nodes that
//!   are logged and flushed as the LCB+-Tree's are (NV-Tree section 6.2).
//!
//! They do what an operation writes, flushes and fences, which is what they are here for. They are not
//! recovered after a crash, do not merge leaves, and take one thread.

mod format;
mod node;

use std::sync::Arc;

use tembo_pmem::{Counters, LINE, Region};
use tembo_pool::Pool;

use self::format::{FLAG, LOG_WORDS, NEGATIVE, VALUE};
use self::node::{Entry, Node};
use crate::Error;

/// What a crash leaves consistent, and by which means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Design {
    Plain,
    Lcb,
    NvtA,
}

/// Lines flushed, by what for (NV-Tree, figures 1d and 5c).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flushed {
    /// Shifted entries of leaves, and their log.
    pub sort_leaf: u64,
    /// Shifted entries of inner nodes, and their log.
    pub sort_inner: u64,
    /// Leaves otherwise.
    pub leaf: u64,
    /// Inner nodes otherwise.
    pub inner: u64,
}

/// Lines that an operation may flush: a section's size, which costs nothing in the `flush` domain.
const LINES: u64 = 1024;

/// Levels beyond any tree that fits.
const HEIGHT_MAX: usize = 24;

/// The kind of a node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Leaf,
    Inner,
}

/// The tree. See the [module](self).
pub(crate) struct BplusTree {
    pool: Arc<Pool>,
    design: Design,
    node_size: u64,
    /// Offset of the root node.
    root: u64,
    /// Levels of inner nodes.
    height: usize,
    /// Offset of the log.
    log: u64,
    flushed: Flushed,
}

/// The inner nodes above a leaf, from the root, and where the way went on in each.
type Path = Vec<(u64, usize)>;

impl BplusTree {
    pub(crate) fn new(pool: Arc<Pool>, design: Design, node_size: u32) -> Result<BplusTree, Error> {
        let node_size = u64::from(node_size);
        let section = pool.reserve(4 * node_size, LINES)?;
        let log = pool.alloc(node_size + 8 * LOG_WORDS as u64)?.offset();
        let root = pool.alloc(node_size)?.offset();
        drop(section);
        let flushed = Flushed::default();
        let tree = BplusTree { pool, design, node_size, root, height: 0, log, flushed };
        tree.node(root, Level::Leaf)?.fill(tree.region(), &[], 0);
        Ok(tree)
    }

    pub(crate) fn flushed(&self) -> Flushed {
        self.flushed
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    fn region(&self) -> &Region {
        self.pool.region()
    }

    fn node(&self, offset: u64, level: Level) -> Result<Node<'_>, Error> {
        let width = match (self.design, level) {
            (Design::Plain | Design::Lcb, _) | (Design::NvtA, Level::Inner) => 2,
            (Design::NvtA, Level::Leaf) => 3,
        };
        Node::at(self.region(), offset, self.node_size, width)
    }

    /// The leaf that a key belongs to; `step` sees each inner node on the way.
    #[inline]
    fn descend(&self, key: u64, mut step: impl FnMut(u64, usize)) -> Result<Node<'_>, Error> {
        let mut offset = self.root;
        for _ in 0..self.height {
            let node = self.node(offset, Level::Inner)?;
            let slot = node.after(key).saturating_sub(1);
            step(offset, slot);
            offset = node.word(slot, VALUE).load();
        }
        self.node(offset, Level::Leaf)
    }

    /// The entry of a key that counts.
    #[inline]
    fn find(&self, leaf: &Node<'_>, key: u64) -> Option<usize> {
        match self.design {
            Design::Plain | Design::Lcb => {
                leaf.after(key).checked_sub(1).filter(|at| leaf.key(*at) == key)
            }
            Design::NvtA => (0..leaf.count())
                .rev()
                .find(|at| leaf.key(*at) == key)
                .filter(|at| leaf.word(*at, FLAG).load() != NEGATIVE),
        }
    }

    pub(crate) fn get(&self, key: u64) -> Result<Option<u64>, Error> {
        let leaf = self.descend(key, |_, _| {})?;
        Ok(self.find(&leaf, key).map(|at| leaf.word(at, VALUE).load()))
    }

    /// Durable when it returns, but in [`Design::Plain`]. The key is not there.
    pub(crate) fn insert(&mut self, key: u64, value: u64) -> Result<(), Error> {
        self.put(key, value)
    }

    fn put(&mut self, key: u64, value: u64) -> Result<(), Error> {
        let mut path = Path::with_capacity(HEIGHT_MAX);
        let leaf = self.descend(key, |node, slot| path.push((node, slot)))?;
        let offset = leaf.offset;
        if leaf.count() < leaf.capacity() {
            return self.enter(offset, Level::Leaf, (key, value));
        }
        self.split_leaf(offset, path)?;
        self.put(key, value)
    }

    /// Durable when it returns, but in [`Design::Plain`]; false: the key is not there.
    pub(crate) fn update(&mut self, key: u64, value: u64) -> Result<bool, Error> {
        let leaf = self.descend(key, |_, _| {})?;
        let Some(at) = self.find(&leaf, key) else { return Ok(false) };
        let offset = leaf.offset;
        match self.design {
            Design::Plain | Design::Lcb => {
                self.log(offset, Level::Leaf)?;
                let leaf = self.node(offset, Level::Leaf)?;
                let region = self.region();
                region.store(leaf.word(at, VALUE), value);
                let flushed = self.persist(leaf.entry_offset(at), leaf.bytes(1));
                self.flushed.leaf += flushed;
            }
            // A NEGATIVE element, and then a POSITIVE one.
            Design::NvtA => {
                self.take(key)?;
                self.put(key, value)?;
            }
        }
        Ok(true)
    }

    /// Durable when it returns, but in [`Design::Plain`]; false: the key is not there.
    pub(crate) fn remove(&mut self, key: u64) -> Result<bool, Error> {
        let leaf = self.descend(key, |_, _| {})?;
        let Some(at) = self.find(&leaf, key) else { return Ok(false) };
        let offset = leaf.offset;
        match self.design {
            Design::Plain | Design::Lcb => self.close_gap(offset, at)?,
            Design::NvtA => self.take(key)?,
        }
        Ok(true)
    }

    /// Visits entries from a key on until `visit` returns false.
    pub(crate) fn scan(
        &self,
        key: u64,
        visit: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<(), Error> {
        let mut leaf = self.descend(key, |_, _| {})?;
        loop {
            for (found, value) in self.contents(&leaf) {
                if found >= key && !visit(found, value) {
                    return Ok(());
                }
            }
            match leaf.next().load() {
                0 => return Ok(()),
                next => leaf = self.node(next, Level::Leaf)?,
            }
        }
    }

    /// The entries of a leaf that count, in order.
    fn contents(&self, leaf: &Node<'_>) -> Vec<Entry> {
        let all = 0..leaf.count();
        let entry = |at| (leaf.key(at), leaf.word(at, VALUE).load());
        let mut entries: Vec<Entry> = match self.design {
            Design::Plain | Design::Lcb => return all.map(entry).collect(),
            Design::NvtA => {
                let newest = all.filter(|at| self.find(leaf, leaf.key(*at)) == Some(*at));
                newest.map(entry).collect()
            }
        };
        entries.sort_unstable();
        entries
    }

    /// Puts an entry into a node that has room.
    fn enter(&mut self, offset: u64, level: Level, entry: Entry) -> Result<(), Error> {
        match (self.design, level) {
            (Design::NvtA, Level::Leaf) => self.append(offset, entry),
            _ => self.shift_in(offset, level, entry),
        }
    }

    /// Makes room among sorted entries and flushes all that moved at once, behind a log.
    fn shift_in(&mut self, offset: u64, level: Level, entry: Entry) -> Result<(), Error> {
        self.log(offset, level)?;
        let node = self.node(offset, level)?;
        let (region, at, count) = (self.region(), node.after(entry.0), node.count());
        for from in (at..count).rev() {
            node.copy(region, from, from + 1);
        }
        node.set(region, at, entry);
        region.store(node.count_word(), count as u64 + 1);
        let moved = (node.entry_offset(at), node.bytes(count + 1 - at));
        let lines = self.persist(moved.0, moved.1) + self.persist(offset, LINE);
        self.note_sorted(level, lines);
        Ok(())
    }

    /// Appends an element to an unsorted leaf, and persists the count behind it.
    fn append(&mut self, offset: u64, entry: Entry) -> Result<(), Error> {
        let node = self.node(offset, Level::Leaf)?;
        let (region, count) = (self.region(), node.count());
        node.set(region, count, entry);
        let mut lines = self.persist(node.entry_offset(count), node.bytes(1));
        region.store(node.count_word(), count as u64 + 1);
        lines += self.persist(offset, 8);
        self.note(Level::Leaf, lines);
        Ok(())
    }

    /// Appends a NEGATIVE element.
    fn take(&mut self, key: u64) -> Result<(), Error> {
        let mut path = Path::new();
        let leaf = self.descend(key, |node, slot| path.push((node, slot)))?;
        let (offset, count) = (leaf.offset, leaf.count());
        if count == leaf.capacity() {
            self.split_leaf(offset, path)?;
            return self.take(key);
        }
        let region = self.region();
        leaf.set(region, count, (key, 0));
        region.store(leaf.word(count, FLAG), NEGATIVE);
        let mut lines = self.persist(leaf.entry_offset(count), leaf.bytes(1));
        region.store(leaf.count_word(), count as u64 + 1);
        lines += self.persist(offset, 8);
        self.note(Level::Leaf, lines);
        Ok(())
    }

    /// Takes an entry out of the sorted ones.
    fn close_gap(&mut self, offset: u64, at: usize) -> Result<(), Error> {
        self.log(offset, Level::Leaf)?;
        let leaf = self.node(offset, Level::Leaf)?;
        let (region, count) = (self.region(), leaf.count());
        for from in at + 1..count {
            leaf.copy(region, from, from - 1);
        }
        region.store(leaf.count_word(), count as u64 - 1);
        let moved = (leaf.entry_offset(at), leaf.bytes(count - 1 - at));
        let lines = self.persist(moved.0, moved.1) + self.persist(offset, LINE);
        self.note_sorted(Level::Leaf, lines);
        Ok(())
    }

    /// Splits a full leaf: what counts goes on in two, or in one if it is little.
    fn split_leaf(&mut self, offset: u64, path: Path) -> Result<(), Error> {
        let leaf = self.node(offset, Level::Leaf)?;
        let (entries, next, capacity) = (self.contents(&leaf), leaf.next().load(), leaf.capacity());
        if entries.len() <= capacity / 2 {
            return self.refill(offset, Level::Leaf, &entries, next);
        }
        let (left, right) = entries.split_at(entries.len() / 2);
        let object = self.make(Level::Leaf, right, next)?;
        self.refill(offset, Level::Leaf, left, object)?;
        self.link(path, right[0].0, object)
    }

    /// A fresh node, durable before anything names it.
    fn make(&mut self, level: Level, entries: &[Entry], next: u64) -> Result<u64, Error> {
        let section = self.pool.reserve(self.node_size, LINES)?;
        let object = self.pool.alloc(self.node_size)?.offset();
        drop(section);
        let node = self.node(object, level)?;
        node.fill(self.region(), entries, next);
        let bytes = LINE + node.bytes(entries.len());
        let lines = self.persist(object, bytes);
        self.note(level, lines);
        Ok(object)
    }

    /// Writes a node again, behind a log. With appended elements a fresh node would take its place, which
    /// writes and flushes the same and then changes one pointer.
    fn refill(
        &mut self,
        offset: u64,
        level: Level,
        entries: &[Entry],
        next: u64,
    ) -> Result<(), Error> {
        self.log(offset, level)?;
        let node = self.node(offset, level)?;
        node.fill(self.region(), entries, next);
        let bytes = LINE + node.bytes(entries.len());
        let lines = self.persist(offset, bytes);
        self.note(level, lines);
        Ok(())
    }

    /// Names a fresh right node in the parents of its left one.
    fn link(&mut self, mut path: Path, key: u64, child: u64) -> Result<(), Error> {
        let Some((parent, _)) = path.pop() else {
            let root = self.make(Level::Inner, &[(0, self.root), (key, child)], 0)?;
            (self.root, self.height) = (root, self.height + 1);
            return Ok(());
        };
        let node = self.node(parent, Level::Inner)?;
        if node.count() < node.capacity() {
            return self.enter(parent, Level::Inner, (key, child));
        }
        let all = (0..node.count()).map(|at| (node.key(at), node.word(at, VALUE).load()));
        let all: Vec<Entry> = all.collect();
        let (left, right) = all.split_at(all.len() / 2);
        let (middle, fresh) = (right[0].0, self.make(Level::Inner, right, 0)?);
        self.refill(parent, Level::Inner, left, 0)?;
        self.enter(if key < middle { parent } else { fresh }, Level::Inner, (key, child))?;
        self.link(path, middle, fresh)
    }

    /// Keeps the used part of a node before it is changed, if the design has a log for it.
    fn log(&mut self, offset: u64, level: Level) -> Result<(), Error> {
        let logged =
            self.design == Design::Lcb || self.design == Design::NvtA && level == Level::Inner;
        if !logged {
            return Ok(());
        }
        let node = self.node(offset, level)?;
        let words = (LINE + node.bytes(node.count())) as usize / 8;
        let region = self.region();
        let (from, to) = (region.words(offset, words)?, region.words(self.log, words + LOG_WORDS)?);
        for (from, to) in from.iter().zip(&to[LOG_WORDS..]) {
            region.store(to, from.load());
        }
        let mut lines = self.persist(self.log + 8 * LOG_WORDS as u64, 8 * words as u64);
        region.store(&to[0], 8 * words as u64);
        region.store(&to[1], offset);
        lines += self.persist(self.log, 16);
        self.note_sorted(level, lines);
        Ok(())
    }

    /// The documents' FLUSH: lines, and a fence. How many lines.
    fn persist(&self, offset: u64, bytes: u64) -> u64 {
        if self.design == Design::Plain || bytes == 0 {
            return 0;
        }
        let before = Counters::thread();
        let region = self.region();
        // ORDER: each step of an operation is durable before the next.
        region.flush("bench.bplus.flush", offset, bytes);
        // ORDER: as above.
        region.fence("bench.bplus.fence");
        (Counters::thread() - before).lines
    }

    fn note_sorted(&mut self, level: Level, lines: u64) {
        match level {
            Level::Leaf => self.flushed.sort_leaf += lines,
            Level::Inner => self.flushed.sort_inner += lines,
        }
    }

    fn note(&mut self, level: Level, lines: u64) {
        match level {
            Level::Leaf => self.flushed.leaf += lines,
            Level::Inner => self.flushed.inner += lines,
        }
    }
}

#[cfg(test)]
mod tests;
