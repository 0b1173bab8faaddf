//! Deletion, and what keeps nodes from having too few live entries (algorithm 4).

use tembo_pool::Object;

use super::insert::{Added, add, put_in, started};
use super::node::{Node, Pair};
use super::tree::{Path, Tree};
use crate::Error;

/// Ends a key in a version that is not committed yet; false: it is not there.
pub(super) fn delete(tree: &Tree, key: u64, version: u64) -> Result<bool, Error> {
    let (leaf, path) = tree.path_to(key)?;
    let Some(at) = tree.find(&leaf, key) else { return Ok(false) };
    tree.end(&leaf, at, version);
    underflow(tree, path, &leaf, version)?;
    Ok(true)
}

/// A node and a sibling of it, in their parent.
struct Siblings<'t, 'n> {
    parent: Node<'t>,
    node: &'n Node<'t>,
    slot: usize,
    sibling: Node<'t>,
    sibling_slot: usize,
}

/// A change of the parent.
struct Change {
    ends: Vec<usize>,
    starts: Vec<Pair>,
}

/// Gives a node with `m` live entries or fewer some of its sibling's, or all it has to the sibling.
fn underflow(tree: &Tree, mut path: Path<'_>, node: &Node<'_>, version: u64) -> Result<(), Error> {
    let least = tree.min_live(node);
    if node.live_count() > least {
        return Ok(());
    }
    // The root may have as few as it likes.
    let Some((parent, slot)) = path.pop() else { return Ok(()) };
    let right = (slot + 1..parent.count()).find(|at| parent.is_live(*at));
    let left = || (0..slot).rev().find(|at| parent.is_live(*at));
    let Some(sibling_slot) = right.or_else(left) else { return Ok(()) };
    let sibling = tree.node(Object::from_bits(parent.value(sibling_slot)))?;
    let siblings = Siblings { parent, node, slot, sibling, sibling_slot };
    let change = if sibling.live_count() > 3 * least {
        siblings.copy_from_sibling(tree, version)?
    } else if sibling.count() < 4 * least {
        siblings.merge_into_sibling(tree, version)
    } else {
        siblings.merge_into_fresh(tree, version)?
    };
    for slot in &change.ends {
        tree.end(&parent, *slot, version);
    }
    match add(tree, path.clone(), &parent, &change.starts, version)? {
        Added::InPlace => underflow(tree, path, &parent, version),
        Added::Replaced => Ok(()),
    }
}

impl Siblings<'_, '_> {
    fn is_right(&self) -> bool {
        self.sibling_slot > self.slot
    }

    fn key(&self) -> u64 {
        self.parent.key(self.slot)
    }

    /// A fresh node has what the node had, and `m` of the sibling's.
    fn copy_from_sibling(&self, tree: &Tree, version: u64) -> Result<Change, Error> {
        let least = tree.min_live(self.node);
        let theirs = self.sibling.live_entries();
        let (low, high) =
            theirs.split_at(if self.is_right() { least } else { theirs.len() - least });
        let moved = if self.is_right() { low } else { high };
        let (first, last) = (moved[0].0, moved[moved.len() - 1].0);
        let object = self.fresh(tree, moved, version)?;
        tree.end_all(self.node, version, |_| true);
        tree.end_all(&self.sibling, version, |key| (first..=last).contains(&key));
        tree.retire();
        Ok(if self.is_right() {
            Change { ends: vec![self.slot], starts: vec![(last, object)] }
        } else {
            let theirs = (low[low.len() - 1].0, self.parent.value(self.sibling_slot));
            let ends = vec![self.slot, self.sibling_slot];
            Change { ends, starts: vec![theirs, (self.key(), object)] }
        })
    }

    /// The sibling has room: it takes all.
    fn merge_into_sibling(&self, tree: &Tree, version: u64) -> Change {
        for entry in self.node.live_entries() {
            put_in(tree, &self.sibling, entry, version);
        }
        tree.end_all(self.node, version, |_| true);
        tree.retire();
        if self.is_right() {
            return Change { ends: vec![self.slot], starts: Vec::new() };
        }
        let theirs = (self.key(), self.parent.value(self.sibling_slot));
        Change { ends: vec![self.slot, self.sibling_slot], starts: vec![theirs] }
    }

    /// A fresh node has what both had.
    fn merge_into_fresh(&self, tree: &Tree, version: u64) -> Result<Change, Error> {
        let object = self.fresh(tree, &self.sibling.live_entries(), version)?;
        for node in [self.node, &self.sibling] {
            tree.end_all(node, version, |_| true);
            tree.retire();
        }
        let last = self.key().max(self.parent.key(self.sibling_slot));
        Ok(Change { ends: vec![self.slot, self.sibling_slot], starts: vec![(last, object)] })
    }

    fn fresh(&self, tree: &Tree, others: &[Pair], version: u64) -> Result<u64, Error> {
        let mut all = [&self.node.live_entries()[..], others].concat();
        all.sort_unstable();
        Ok(tree.make(self.node.level(), &started(&all, version))?.to_bits())
    }
}
