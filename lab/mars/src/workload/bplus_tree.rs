//! A B+tree whose nodes of 8 KB are kept in memory too, so that only changes go to the store.
//!
//! A change writes what it changes of a node, from the place of the entry on; a split writes nodes up to the root, in one
//! update. Threads lock as Bayer and Schkolnick have it ("Concurrency of operations on B-trees", 1977): a leaf that
//! is safe alone, and all of a path that will split. Leaves are not merged: with as many removals as insertions few
//! would be.

use super::KIND;
use crate::store::Store;

/// Bytes of a node.
const NODE: u64 = 8192;

/// Bytes of the head of a node: whether it is a leaf, and the count of its entries.
const HEAD: usize = 16;

/// Bytes of an entry: a key, and a child or the place of a value.
const ENTRY: usize = 16;

/// Entries of a node.
const ENTRIES: usize = (NODE as usize - HEAD) / ENTRY;

/// Bytes of a value, which has a place of its own.
const VALUE: u64 = 1024;

/// A node in memory.
#[derive(Clone, Debug, Default)]
struct Node {
    is_leaf: bool,
    entries: Vec<(u64, u64)>,
}

impl Node {
    /// Where a key is, or would be.
    fn find(&self, key: u64) -> Result<usize, usize> {
        self.entries.binary_search_by_key(&key, |entry| entry.0)
    }

    /// The child that a key belongs to.
    fn child(&self, key: u64) -> usize {
        self.find(key).unwrap_or_else(|at| at.saturating_sub(1))
    }

    fn head(&self) -> Vec<u8> {
        let words = [u64::from(self.is_leaf), self.entries.len() as u64];
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    fn bytes(&self, from: usize) -> Vec<u8> {
        let entries = self.entries[from..].iter().flat_map(|(key, to)| [*key, *to]);
        entries.flat_map(u64::to_le_bytes).collect()
    }
}

/// The tree. Its nodes lie behind its values.
pub struct BplusTree {
    nodes: Vec<Node>,
    nodes_max: usize,
    root: usize,
    values: u64,
    values_max: u64,
    /// Places of values that are free again.
    free: Vec<u64>,
}

type Writes = Vec<(u64, Vec<u8>)>;

impl BplusTree {
    /// An empty tree, with places for so many values.
    pub fn new(values: u64) -> BplusTree {
        let root = Node { is_leaf: true, entries: Vec::new() };
        let nodes_max = 16 + values as usize / (ENTRIES / 4);
        let (values_max, free) = (values, Vec::new());
        BplusTree { nodes: vec![root], nodes_max, root: 0, values: 0, values_max, free }
    }

    /// Bytes that it takes.
    pub fn size(&self) -> u64 {
        self.values_max * VALUE + self.nodes_max as u64 * NODE
    }

    fn at(&self, node: usize) -> u64 {
        self.values_max * VALUE + node as u64 * NODE
    }

    /// The head of a node, and its entries from one on.
    fn write(&self, node: usize, from: usize) -> Writes {
        let (at, bytes) = (self.at(node), self.nodes[node].bytes(from));
        let mut writes = vec![(at, self.nodes[node].head())];
        if !bytes.is_empty() {
            writes.push((at + (HEAD + from * ENTRY) as u64, bytes));
        }
        writes
    }

    /// The way to the leaf of a key.
    fn path(&self, key: u64) -> Vec<usize> {
        let mut path = vec![self.root];
        let mut node = &self.nodes[self.root];
        while !node.is_leaf {
            let child = node.entries[node.child(key)].1 as usize;
            path.push(child);
            node = &self.nodes[child];
        }
        path
    }

    /// Inserts a key that is not there, removes one that is; which, and nothing if there is no place for it.
    ///
    /// # Errors
    /// Those of the store.
    pub fn toggle<S: Store>(
        &mut self,
        store: &mut S,
        key: u64,
        fill: u8,
    ) -> Result<Option<bool>, S::Error> {
        let path = self.path(key);
        let leaf = path[path.len() - 1];
        let found = self.nodes[leaf].find(key);
        let is_safe = found.is_ok() || self.nodes[leaf].entries.len() < ENTRIES;
        let locked = if is_safe { &path[path.len() - 1..] } else { &path[..] };
        locked.iter().for_each(|node| store.lock((2 * KIND) | *node as u64));
        let (writes, done) = match found {
            Ok(at) => {
                let (_, value) = self.nodes[leaf].entries.remove(at);
                self.free.push(value);
                (self.write(leaf, at), Some(false))
            }
            Err(_) => match self.place() {
                Some(value) if self.nodes.len() + path.len() < self.nodes_max => {
                    let mut writes = vec![(value * VALUE, vec![fill; VALUE as usize])];
                    writes.extend(self.insert(&path, (key, value)));
                    (writes, Some(true))
                }
                _ => (Vec::new(), None),
            },
        };
        store.update(writes)?;
        locked.iter().for_each(|node| store.unlock((2 * KIND) | *node as u64));
        Ok(done)
    }

    /// A place for a value.
    fn place(&mut self) -> Option<u64> {
        self.free.pop().or_else(|| {
            (self.values < self.values_max).then(|| {
                self.values += 1;
                self.values - 1
            })
        })
    }

    /// Enters an entry into the last node of a path, and splits what is full.
    fn insert(&mut self, path: &[usize], entry: (u64, u64)) -> Writes {
        let Some((&node, above)) = path.split_last() else { return Vec::new() };
        if self.nodes[node].entries.len() < ENTRIES {
            let at = self.nodes[node].find(entry.0).unwrap_or_else(|at| at);
            self.nodes[node].entries.insert(at, entry);
            return self.write(node, at);
        }
        let (right, fresh) = (self.nodes[node].entries.split_off(ENTRIES / 2), self.nodes.len());
        let middle = right[0].0;
        self.nodes.push(Node { is_leaf: self.nodes[node].is_leaf, entries: right });
        let into = if entry.0 < middle { node } else { fresh };
        let at = self.nodes[into].find(entry.0).unwrap_or_else(|at| at);
        self.nodes[into].entries.insert(at, entry);
        // The left node: what it got, or only fewer entries.
        let left = if into == node { at } else { self.nodes[node].entries.len() };
        let mut writes = self.write(fresh, 0);
        writes.extend(self.write(node, left));
        if above.is_empty() {
            let root =
                Node { is_leaf: false, entries: vec![(0, node as u64), (middle, fresh as u64)] };
            self.root = self.nodes.len();
            self.nodes.push(root);
            writes.extend(self.write(self.root, 0));
        } else {
            writes.extend(self.insert(above, (middle, fresh as u64)));
        }
        writes
    }

    /// Whether the store holds the nodes that memory has; keys in order.
    ///
    /// # Errors
    /// Those of the store.
    pub fn check<S: Store>(&self, store: &mut S) -> Result<bool, S::Error> {
        for (number, node) in self.nodes.iter().enumerate() {
            let expected = [node.head(), node.bytes(0)].concat();
            let mut found = vec![0; expected.len()];
            store.read(self.at(number), &mut found)?;
            let is_sorted = node.entries.is_sorted_by(|one, other| one.0 < other.0);
            // A tree that was never written has an empty leaf that the store does not know.
            if !is_sorted || (found != expected && self.values > 0) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a key is there.
    pub fn contains(&self, key: u64) -> bool {
        let path = self.path(key);
        self.nodes[path[path.len() - 1]].find(key).is_ok()
    }
}
