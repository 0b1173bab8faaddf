//! Makes the inner nodes of leaves that are there already, from the bottom up.

use super::arena::{Arena, NodeId};
use super::change::Changer;
use super::content::Content;
use super::low::{LeafId, Lows};
use super::node::WIDTH;

use crate::Error;
use crate::error::damaged;
use crate::key::KeyBytes;

/// Children that a node gets. It has room for some more before it is split.
const FILL: usize = WIDTH * 3 / 4;

/// A child that is to be put into a node, and the leaf that has its separator.
#[derive(Clone, Copy)]
struct Child<'l> {
    id: u32,
    leaf: LeafId,
    low: KeyBytes<'l>,
}

/// The children that the next node of each level will have, from level 0 up.
struct Loader<'a, 'l> {
    arena: &'a Arena,
    changer: Changer,
    levels: Vec<Vec<Child<'l>>>,
    made: Vec<NodeId>,
}

/// Makes the inner nodes of these leaves, which come with their low keys, in order. Returns the root, and the state of
/// the nodes' writer.
///
/// # Errors
/// Those of the iterator; [`Error::Damaged`] if the leaves are not in order or if there is none.
pub(super) fn load<'l>(
    arena: &Arena,
    leaves: impl Iterator<Item = Result<(LeafId, impl Into<KeyBytes<'l>>), Error>>,
) -> Result<(NodeId, Changer), Error> {
    let (changer, levels, made) = (Changer::default(), Vec::new(), Vec::new());
    let mut loader = Loader { arena, changer, levels, made };
    match loader.load(leaves) {
        Ok(root) => Ok((root, loader.changer)),
        Err(error) => {
            arena.give(loader.made);
            Err(error)
        }
    }
}

impl<'l> Loader<'_, 'l> {
    fn load(
        &mut self,
        leaves: impl Iterator<Item = Result<(LeafId, impl Into<KeyBytes<'l>>), Error>>,
    ) -> Result<NodeId, Error> {
        let mut before: Option<KeyBytes<'_>> = None;
        for leaf in leaves {
            let (leaf, low) = leaf?;
            let low = low.into();
            if before.is_some_and(|before| before >= low) {
                return damaged(u64::from(leaf), "a leaf above the one before it");
            }
            before = Some(low);
            self.changer.leaves += 1;
            self.push(0, Child { id: leaf, leaf, low })?;
        }
        match before {
            Some(_) => self.finish(),
            None => damaged(0, "a leaf"),
        }
    }

    fn push(&mut self, level: usize, child: Child<'l>) -> Result<(), Error> {
        if level == self.levels.len() {
            self.levels.push(Vec::with_capacity(FILL));
        }
        self.levels[level].push(child);
        if self.levels[level].len() == FILL { self.fill_node(level) } else { Ok(()) }
    }

    /// Makes a node of the children that wait on `level`.
    fn fill_node(&mut self, level: usize) -> Result<(), Error> {
        let mut children = std::mem::take(&mut self.levels[level]);
        let Some(&first) = children.first() else { return Ok(()) };
        let mut content = Content::new(level as u8, first.id, first.leaf);
        for (place, child) in children.iter().enumerate().skip(1) {
            content.insert(place, child.id, child.leaf, child.low);
        }
        content.fit(&Children(&children))?;
        let id: NodeId = self.arena.take()?;
        self.made.push(id);
        if let Some(node) = self.arena.get(id) {
            node.store(&content);
        }
        self.changer.nodes += 1;
        children.clear();
        self.levels[level] = children;
        self.push(level + 1, Child { id, ..first })
    }

    /// Makes nodes of all children that wait, and the root.
    fn finish(&mut self) -> Result<NodeId, Error> {
        let mut level = 0;
        loop {
            self.fill_node(level)?;
            level += 1;
            match self.levels.get(level).map(Vec::as_slice) {
                Some([only]) if level + 1 == self.levels.len() => return Ok(only.id),
                _ => {}
            }
        }
    }
}

/// The low keys of the leaves in one node.
struct Children<'c, 'l>(&'c [Child<'l>]);

impl Lows for Children<'_, '_> {
    fn low(&self, leaf: LeafId) -> Result<KeyBytes<'_>, Error> {
        match self.0.iter().find(|child| child.leaf == leaf) {
            Some(child) => Ok(child.low),
            None => damaged(u64::from(leaf), "a leaf among those of its node"),
        }
    }
}
