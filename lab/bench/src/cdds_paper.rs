//! CDDS as its thesis has it: Venkataraman, "Storage system design for non-volatile byte-addressable
//! memory using consistent and durable data structures", 2011, chapters 4.1 to 4.5, algorithms 1 to 6.
//! A rival, kept so that the documents' experiments can be repeated; the store's own CDDS
//! (`tembo-index`) does better, and is measured beside it.
//!
//! # The idea
//! An entry carries the version that started it and the version that ended it. An operation changes what
//! belongs to the next version only, and one store then makes that version the consistent one. What was
//! never committed is undone at recovery by its version. Keys of a node are sorted; an entry that is
//! shifted for that is flushed by itself (section 4.4.2), which is what the NV-Tree's paper measures.
//! A full node reuses an entry that is dead, or its live entries are copied to one or two nodes
//! (algorithm 3). A node with too few live entries is merged with a sibling or takes entries from it
//! (algorithm 4), again by copying. A pass over the tree forgets dead entries of inner nodes and frees
//! what nothing names (algorithm 5). FLUSH is here a flush of the lines and a fence.
//!
//! # Where the thesis is silent or wrong
//! - Algorithm 1: its binary search steps to `m − 1` past a possible hit. Here it keeps `m`.
//! - Algorithm 2 reuses an entry that ended before the consistent version; with readers of older versions
//!   it must be the oldest of those. There are no readers beside the writer here, so the two are the same.
//! - Algorithm 2 does not shift, its text does: an entry is removed and its place closed, and then room
//!   is made for the other one. Both are done here. An unordered leaf overwrites, as the algorithm has it.
//! - A shift can tear an entry into a hybrid. Here no entry lies across two lines, its start is set to a
//!   version that never comes first and to the true one last, so that a torn one is removed at recovery.
//! - Nothing persists the number of entries: it follows from slots that have no start, so a node is born
//!   with empty slots, flushed as a whole.
//! - Algorithm 3 with at most `4 m` live entries writes one node, which may have fewer than the `2 m`
//!   live entries that section 4.4.3 promises.
//! - Algorithm 4 asks the sibling for more than `3 m` live entries, its text for as many. The algorithm
//!   is followed. Neither says which sibling: the right one is taken, or the left one of the last child,
//!   whose greatest key then changes, so that it gets another entry in the parent. Inner nodes
//!   are merged in the same way, which the bound of section 4.4.6 needs and nothing says.
//! - Algorithm 5 makes the only child of any node take its place, which would leave leaves at different
//!   depths. Here only the root is replaced. How often it runs is not said: here when as many nodes were
//!   retired as there are in the tree.
//! - Algorithm 6 leaves dead entries. Here they go too, for a pass of algorithm 5 that was interrupted
//!   may have left them out of order. All of it is durable before an operation takes its version again.
//! - There is no update: here the old entry ends and another one begins in the same version.
//! - The greatest key must be inserted first (section 4.5): here the last entry of an inner node has it.
//!
//! Keys and values are of eight bytes. One thread. For the domains `flush`, `eadr` and `volatile`.

mod collect;
mod delete;
mod format;
mod insert;
mod node;
#[cfg(test)]
mod recover;
mod tree;

use std::sync::Arc;

use tembo_pool::Pool;

pub(crate) use self::tree::LeafOrder;
use self::tree::Tree;
use crate::{Error, Flushed};

/// The thesis's tree. See the [module](self).
pub(crate) struct CddsTree(Tree);

impl CddsTree {
    /// An empty tree in a pool that has none.
    pub(crate) fn create(
        pool: Arc<Pool>,
        order: LeafOrder,
        node_size: u32,
    ) -> Result<CddsTree, Error> {
        Ok(CddsTree(Tree::create(pool, order, node_size.into())?))
    }

    /// The tree of a pool, as the last committed version has it (algorithm 6).
    #[cfg(test)]
    pub(crate) fn open(pool: Arc<Pool>, order: LeafOrder) -> Result<CddsTree, Error> {
        let tree = Tree::open(pool, order)?;
        recover::recover(&tree)?;
        Ok(CddsTree(tree))
    }

    /// The value of a key (algorithm 1).
    pub(crate) fn get(&self, key: u64) -> Result<Option<u64>, Error> {
        let (leaf, _) = self.0.leaf_of(key)?;
        Ok(self.0.find(&leaf, key).map(|at| leaf.value(at)))
    }

    /// Durable when it returns. The key is not there (algorithms 2 and 3).
    pub(crate) fn insert(&mut self, key: u64, value: u64) -> Result<(), Error> {
        let version = self.0.next_version()?;
        insert::insert(&self.0, (key, value), version)?;
        self.commit(version)
    }

    /// Durable when it returns; false: the key is not there.
    pub(crate) fn update(&mut self, key: u64, value: u64) -> Result<bool, Error> {
        let version = self.0.next_version()?;
        let (leaf, _) = self.0.leaf_of(key)?;
        let Some(at) = self.0.find(&leaf, key) else { return Ok(false) };
        self.0.end(&leaf, at, version);
        insert::insert(&self.0, (key, value), version)?;
        self.commit(version)?;
        Ok(true)
    }

    /// Durable when it returns; false: the key is not there (algorithm 4).
    pub(crate) fn remove(&mut self, key: u64) -> Result<bool, Error> {
        let version = self.0.next_version()?;
        if !delete::delete(&self.0, key, version)? {
            return Ok(false);
        }
        self.commit(version)?;
        Ok(true)
    }

    fn commit(&mut self, version: u64) -> Result<(), Error> {
        self.0.commit(version)?;
        if self.0.is_collection_due() { collect::collect(&self.0) } else { Ok(()) }
    }

    /// Visits entries from a key on until `visit` returns false.
    pub(crate) fn scan(
        &self,
        key: u64,
        visit: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<(), Error> {
        let mut from = key;
        loop {
            let (leaf, last) = self.0.leaf_of(from)?;
            for (found, value) in leaf.live_entries() {
                if found >= from && !visit(found, value) {
                    return Ok(());
                }
            }
            // Leaves are copied, so none can name the next: the way begins at the root again.
            match last.checked_add(1) {
                Some(next) => from = next,
                None => return Ok(()),
            }
        }
    }

    /// Lines flushed so far, by what for.
    pub(crate) fn flushed(&self) -> Flushed {
        self.0.flushed()
    }

    pub(crate) fn pool(&self) -> &Pool {
        self.0.pool()
    }
}

#[cfg(test)]
mod tests;
