//! Changes of inner nodes: the nodes are computed beside the tree, and then readers see all of them at once.

use std::sync::atomic::Ordering;

use super::arena::NodeId;
use super::content::Content;
use super::low::{LeafId, Lows};
use super::node::{Node, Sought, WIDTH};
use super::nodes::Nodes;

use crate::Error;
use crate::error::damaged;
use crate::head::head;
use crate::key::KeyBytes;
use crate::simd::{Count, OneByOne};

/// State that only the thread that may change the tree uses.
#[derive(Default)]
#[repr(align(64))]
pub(super) struct Changer {
    /// Nodes that were unlinked and can be used again.
    pub(super) free: Vec<NodeId>,
    pub(super) leaves: usize,
    pub(super) nodes: usize,
}

/// What a change will do to the tree.
#[derive(Default)]
struct Change {
    contents: Vec<(NodeId, Content)>,
    root: Option<NodeId>,
    /// Nodes among `contents` that were taken for the change.
    taken: Vec<NodeId>,
    /// Nodes that the change unlinks.
    freed: Vec<NodeId>,
    filling: Filling,
}

/// In which order leaves are inserted. The place at which a full node is split depends on it.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Filling {
    /// In any order: a full node is split in the middle.
    #[default]
    Anywhere,
    /// Each behind the one before: the left part of a split stays full.
    InOrder,
}

/// A node on the way from the root, and the place in it where the way goes on.
type Path = Vec<(NodeId, usize)>;

impl Changer {
    /// Inserts a leaf that was split off.
    pub(super) fn insert(
        &mut self,
        nodes: &Nodes,
        leaf: (&[u8], LeafId),
        lows: &impl Lows,
    ) -> Result<(), Error> {
        self.add(nodes, leaf, Filling::Anywhere, lows)
    }

    /// As `insert`, for leaves that were there before and are published in the order of their low keys.
    pub(super) fn learn(
        &mut self,
        nodes: &Nodes,
        leaf: (&[u8], LeafId),
        lows: &impl Lows,
    ) -> Result<(), Error> {
        self.add(nodes, leaf, Filling::InOrder, lows)
    }

    fn add(
        &mut self,
        nodes: &Nodes,
        (low, leaf): (&[u8], LeafId),
        filling: Filling,
        lows: &impl Lows,
    ) -> Result<(), Error> {
        let added = match nodes.all_at_once {
            Some(all) => add_in_place(nodes, low, leaf, all),
            None => add_in_place(nodes, low, leaf, OneByOne),
        };
        if added.is_some() {
            self.leaves += 1;
            return Ok(());
        }
        let mut change = Change { filling, ..Change::default() };
        let planned = self.plan_insert(nodes, &mut change, low, leaf, lows);
        // The change has no node if the leaf was known already.
        let leaves = usize::from(!change.contents.is_empty());
        self.finish(nodes, change, planned)?;
        self.leaves += leaves;
        Ok(())
    }

    /// Removes a leaf that was merged.
    pub(super) fn remove(
        &mut self,
        nodes: &Nodes,
        (low, leaf): (&[u8], LeafId),
        lows: &impl Lows,
    ) -> Result<(), Error> {
        let mut change = Change::default();
        let planned = plan_remove(nodes, &mut change, low, leaf, lows);
        self.finish(nodes, change, planned)?;
        self.leaves -= 1;
        Ok(())
    }

    fn plan_insert(
        &mut self,
        nodes: &Nodes,
        change: &mut Change,
        low: &[u8],
        leaf: LeafId,
        lows: &impl Lows,
    ) -> Result<(), Error> {
        let path = path(nodes, low, lows)?;
        // What the next node up gets: a child, and the leaf that has its separator.
        let (mut child, mut leaf, mut low) = (leaf, leaf, KeyBytes::from(low));
        for &(id, place) in path.iter().rev() {
            let mut content = content(nodes, id, lows)?;
            if content.level == 0 && content.is_separator(place, low, lows)? {
                if content.entries[place].child == leaf {
                    return Ok(());
                }
                return damaged(u64::from(leaf), "a leaf with a low key of its own");
            }
            content.insert(place + 1, child, leaf, low);
            if content.entries.len() <= WIDTH {
                content.fit(lows)?;
                change.contents.push((id, content));
                return Ok(());
            }
            // Where leaves are inserted in order, full nodes are left behind.
            let middle = match change.filling {
                _ if place + 1 == WIDTH => WIDTH,
                Filling::Anywhere => WIDTH / 2,
                Filling::InOrder => place + 2,
            };
            let mut right = content.split_off(middle);
            content.fit(lows)?;
            right.fit(lows)?;
            child = self.take(nodes, change)?;
            leaf = right.entries[0].low;
            low = lows.low(leaf)?;
            change.contents.push((id, content));
            change.contents.push((child, right));
        }
        self.plan_root(nodes, change, (child, leaf, low))
    }

    /// Plans a root above the old root and its right half.
    fn plan_root(
        &mut self,
        nodes: &Nodes,
        change: &mut Change,
        (child, leaf, low): (NodeId, LeafId, KeyBytes<'_>),
    ) -> Result<(), Error> {
        let Some((left, content)) = change.contents.iter().rev().nth(1) else {
            return damaged(u64::from(leaf), "a way through the inner nodes");
        };
        let first_low = content.first_low().unwrap_or_default();
        let mut root = Content::new(content.level + 1, *left, first_low);
        root.insert(1, child, leaf, low);
        let id = self.take(nodes, change)?;
        change.contents.push((id, root));
        change.root = Some(id);
        Ok(())
    }

    /// Lets readers see the change, or gives back the nodes that were taken for it.
    fn finish(
        &mut self,
        nodes: &Nodes,
        change: Change,
        planned: Result<(), Error>,
    ) -> Result<(), Error> {
        let Change { contents, root, taken, freed, .. } = change;
        if let Err(error) = planned {
            self.free.extend(taken);
            return Err(error);
        }
        let changed =
            || contents.iter().filter_map(|(id, content)| Some((nodes.arena.get(*id)?, content)));
        changed().for_each(|(node, _)| node.close());
        changed().for_each(|(node, content)| node.store(content));
        if let Some(root) = root {
            nodes.root.store(root, Ordering::Release);
        }
        changed().for_each(|(node, _)| node.open());
        self.nodes = self.nodes + taken.len() - freed.len();
        self.free.extend(freed);
        Ok(())
    }

    fn take(&mut self, nodes: &Nodes, change: &mut Change) -> Result<NodeId, Error> {
        let id = match self.free.pop() {
            Some(id) => id,
            None => nodes.arena.take()?,
        };
        change.taken.push(id);
        Ok(id)
    }
}

/// Adds a leaf, if its node has room and heads decide on the place. For writers.
fn add_in_place(nodes: &Nodes, low: &[u8], leaf: LeafId, count: impl Count) -> Option<()> {
    let front = head(low, 0);
    let mut id = nodes.root.load(Ordering::Relaxed);
    loop {
        let node = nodes.arena.get(id)?;
        let state = node.begin_now()?;
        let wanted = if state.is_simple() { front } else { node.head_of(state, low)? };
        let place = node.place_by_heads(wanted, count)?;
        if state.level() == 0 {
            return node.insert(place + 1, wanted, leaf).then_some(());
        }
        id = node.child(place);
    }
}

fn plan_remove(
    nodes: &Nodes,
    change: &mut Change,
    low: &[u8],
    leaf: LeafId,
    lows: &impl Lows,
) -> Result<(), Error> {
    let path = path(nodes, low, lows)?;
    if path.iter().all(|&(_, place)| place == 0) {
        return damaged(u64::from(leaf), "a leaf behind the first");
    }
    // What the next node up does with the child on the path: it removes the child, or gives it another separator.
    let mut separator = None;
    for &(id, place) in path.iter().rev() {
        let mut content = content(nodes, id, lows)?;
        if content.level == 0 && content.entries[place].child != leaf {
            return damaged(u64::from(leaf), "a leaf that the inner nodes know");
        }
        match separator {
            Some(leaf) if place == 0 => content.entries[0].low = leaf,
            Some(leaf) => {
                let child = content.entries[place].child;
                content.remove(place);
                content.insert(place, child, leaf, lows.low(leaf)?);
                content.fit(lows)?;
            }
            None => content.remove(place),
        }
        separator = content.first_low();
        if separator.is_none() {
            change.freed.push(id);
        }
        change.contents.push((id, content));
        if place > 0 {
            break;
        }
    }
    plan_lower_root(nodes, change);
    Ok(())
}

/// Plans to replace a root that has one child by that child.
fn plan_lower_root(nodes: &Nodes, change: &mut Change) {
    let Some((id, content)) = change.contents.last_mut() else { return };
    if *id == nodes.root.load(Ordering::Relaxed)
        && content.level > 0
        && let [only] = content.entries[..]
    {
        content.entries.clear();
        change.root = Some(only.child);
        change.freed.push(*id);
    }
}

/// The path from the root to the leaf that covers `key`. For writers: nothing changes meanwhile.
fn path(nodes: &Nodes, key: &[u8], lows: &impl Lows) -> Result<Path, Error> {
    let mut path = Path::new();
    let mut id = nodes.root.load(Ordering::Relaxed);
    loop {
        let node = node(nodes, id)?;
        let place = node.place(Sought::At(key), lows)?;
        path.push((id, place));
        if node.level() == 0 {
            return Ok(path);
        }
        id = node.child(place);
    }
}

fn content(nodes: &Nodes, id: NodeId, lows: &impl Lows) -> Result<Content, Error> {
    node(nodes, id)?.content(lows)
}

fn node(nodes: &Nodes, id: NodeId) -> Result<&Node, Error> {
    match nodes.arena.get(id) {
        Some(node) => Ok(node),
        None => damaged(u64::from(id), "an inner node"),
    }
}
