//! The inner nodes: which leaf covers a key. Volatile; rebuilt from the leaves' low keys.
//!
//! A B+-tree whose separators are the low keys of leaves. A node has up to 64 children; child `i`
//! covers the keys at or above separator `i`, and separator 0 equals the separator by which the
//! parent knows the node, so a search that comes to a node never looks at it. (On the leftmost path
//! separator 0 is below every key.)
//!
//! **A node holds no keys, only heads**: the eight bytes of each separator behind the node's prefix,
//! which all separators but the first share. A search that a head cannot decide reads the separator
//! where it lies, in the leaf whose low key it is ([`Lows`]). The prefix is empty until two heads are
//! equal; then it becomes as long as it can be, and shrinks when a separator without it comes.
//!
//! **Readers take no lock** (optimistic lock coupling: Leis, Scheibner, Kemper, Neumann, *The ART of
//! practical synchronization*, DaMoN 2016). Each node has a sequence, odd while it changes. A reader notes it, reads,
//! and believes what it read when the sequence is still the same; before it trusts a child it has
//! read the child's sequence and found the parent unchanged. What it reads meanwhile may be torn, so
//! nothing of it is followed without a check. A node that is unlinked is used again: its sequence
//! goes on, so the thread that is still in it finds out.
//!
//! **Writers** take one lock for the whole tree, for they come once in some twenty inserts into
//! leaves. They compute all nodes that they change beside the tree, where errors leave it as it is,
//! then make all their sequences odd, copy, and make them even: a reader sees every one of
//! these nodes as it was, or every one as it is.
//!
//! **The token** that a search returns is the bottom node and its sequence. A leaf's range changes
//! only with its bottom node: the thread that splits or merges leaves does it while it holds their locks, and
//! tells the inner nodes before it lets go. So a reader that has (1) found a leaf, (2) read the leaf's
//! sequence, even, and (3) found the token [still](Token::still) good, knows that at that sequence the
//! leaf covered the key.

mod abreast;
mod arena;
mod change;
mod content;
mod load;
mod node;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) use arena::Arena;
use arena::NodeId;
use change::Changer;
use node::{Node, Sought, State};

use crate::Error;
use crate::head::head;
use crate::key::KeyBytes;
use crate::simd::{AllAtOnce, Count, OneByOne};

/// What a leaf is known by: its place on media, in units of the leaves' size.
pub(crate) type LeafId = u32;

/// What knows the low keys of leaves, which never change while the leaf lives.
pub(crate) trait Lows {
    /// The low key of `leaf`. A reader without a lock may ask for one that has been removed, or for a
    /// leaf that never was: any bytes will do then, and so will an error.
    ///
    /// # Errors
    /// What stands there cannot be a leaf; the search ends with it unless it asked in vain.
    fn low(&self, leaf: LeafId) -> Result<KeyBytes<'_>, Error>;
}

/// Tells whether the leaf that was found still covers the key.
#[derive(Clone, Copy)]
pub(crate) struct Token<'t> {
    node: &'t Node,
    state: State,
}

impl Token<'_> {
    /// True if no leaf below the node was split, merged or removed since.
    #[inline]
    pub(crate) fn still(self) -> bool {
        self.node.still(self.state)
    }
}

/// The volatile part of an NV-Tree above its leaves.
pub(crate) struct Inner {
    root: AtomicU32,
    arena: Arc<Arena>,
    /// How heads are compared, if the processor can do it.
    all_at_once: Option<AllAtOnce>,
    changer: Mutex<Changer>,
}

impl Drop for Inner {
    /// Gives its nodes back: nothing reads it any more.
    fn drop(&mut self) {
        let changer = self.changer.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut ids = std::mem::take(&mut changer.free);
        let mut below = vec![*self.root.get_mut()];
        while let Some(id) = below.pop() {
            ids.push(id);
            if let Some(node) = self.arena.get(id).filter(|node| node.level() > 0) {
                below.extend(node.children_from(0));
            }
        }
        self.arena.give(ids);
    }
}

/// Where a search is.
#[derive(Clone, Copy)]
struct Descent<'t> {
    node: &'t Node,
    /// The node's, when it was found linked.
    state: State,
}

impl Inner {
    /// The leaf that covers `key`, and the ticket by which to ask later whether that is still so.
    ///
    /// # Errors
    /// Those of `lows`.
    #[inline]
    pub(crate) fn find(&self, key: &[u8], lows: &impl Lows) -> Result<(LeafId, Token<'_>), Error> {
        match self.find_by_heads(head(key, 0)) {
            Some(found) => Ok(found),
            None => self.seek(Sought::At(key), lows),
        }
    }

    /// As `find`, of a key with that head, if nothing changes the nodes on the way and heads alone tell it.
    #[inline(always)]
    pub(crate) fn find_by_heads(&self, wanted: u64) -> Option<(LeafId, Token<'_>)> {
        match self.all_at_once {
            Some(all) => self.find_among_heads(wanted, all),
            None => self.find_among_heads(wanted, OneByOne),
        }
    }

    #[inline(always)]
    fn find_among_heads(&self, wanted: u64, count: impl Count) -> Option<(LeafId, Token<'_>)> {
        let nodes = self.arena.nodes();
        let id = self.root.load(Ordering::Acquire);
        let mut node = nodes.get(id as usize)?;
        let mut state = node.begin_simple()?;
        if self.root.load(Ordering::Relaxed) != id {
            return None;
        }
        loop {
            let child = node.child(node.place_by_heads(wanted, count)?);
            if state.level() == 0 {
                return node.still(state).then_some((child, Token { node, state }));
            }
            let below = nodes.get(child as usize)?;
            let below_state = below.begin_simple()?;
            if !node.still(state) {
                return None;
            }
            (node, state) = (below, below_state);
        }
    }

    /// Some of the leaves behind the one that covers `key`, as far as the same node knows them and heads
    /// tell: a hint, which may be outdated.
    pub(crate) fn behind<const COUNT: usize>(&self, key: &[u8]) -> [Option<LeafId>; COUNT] {
        let mut behind = [None; COUNT];
        if let Some((_, token)) = self.find_by_heads(head(key, 0))
            && let Some(place) = token.node.place_by_heads(head(key, 0), OneByOne)
        {
            let leaves = token.node.children_from(place + 1);
            behind.iter_mut().zip(leaves).for_each(|(to, leaf)| *to = Some(leaf));
        }
        behind
    }

    /// The last leaf whose low key is below `key`: what comes next in a backward scan that has read
    /// the leaf whose low key is `key`.
    ///
    /// # Errors
    /// Those of `lows`.
    pub(crate) fn before(
        &self,
        key: &[u8],
        lows: &impl Lows,
    ) -> Result<Option<(LeafId, Token<'_>)>, Error> {
        if key.is_empty() {
            return Ok(None);
        }
        self.seek(Sought::Below(key), lows).map(Some)
    }

    /// The last leaf.
    ///
    /// # Errors
    /// Those of `lows`.
    pub(crate) fn last(&self, lows: &impl Lows) -> Result<(LeafId, Token<'_>), Error> {
        self.seek(Sought::Last, lows)
    }

    /// How many leaves there are.
    pub(crate) fn leaf_count(&self) -> usize {
        self.changer().leaves
    }

    /// How many inner nodes there are.
    pub(crate) fn node_count(&self) -> usize {
        self.changer().nodes
    }

    /// Levels of inner nodes, at least one.
    pub(crate) fn height(&self) -> usize {
        let _changer = self.changer();
        self.root_node().map_or(0, |(_, node)| usize::from(node.level()) + 1)
    }

    #[inline]
    fn root_node(&self) -> Option<(NodeId, &Node)> {
        let id = self.root.load(Ordering::Acquire);
        Some((id, self.arena.get(id)?))
    }

    #[inline(never)]
    fn seek(&self, sought: Sought<'_>, lows: &impl Lows) -> Result<(LeafId, Token<'_>), Error> {
        let wanted = sought.head();
        loop {
            let mut descent = self.enter();
            while let Some(Descent { node, state }) = descent {
                let Some(child) = self.child((node, state), wanted, sought, lows)? else { break };
                if state.level() > 0 {
                    descent = self.descend(node, state, child);
                } else if node.still(state) {
                    return Ok((child, Token { node, state }));
                } else {
                    break;
                }
            }
        }
    }

    /// Where a search begins; `None` if the tree changes underneath, here and in what follows.
    #[inline]
    fn enter(&self) -> Option<Descent<'_>> {
        let (id, node) = self.root_node()?;
        let state = node.begin();
        // Only when the sequence is known: that of an unlinked node is one of another use of it.
        (self.root.load(Ordering::Relaxed) == id).then_some(Descent { node, state })
    }

    /// One level down from `node`, which is in that state, to its child `id`.
    #[inline]
    fn descend(&self, node: &Node, state: State, id: NodeId) -> Option<Descent<'_>> {
        let below = self.arena.get(id)?;
        let descent = Descent { node: below, state: below.begin() };
        node.still(state).then_some(descent)
    }

    /// The child of `node` where what is sought is, whose head is `wanted`.
    #[inline]
    fn child(
        &self,
        (node, state): (&Node, State),
        wanted: u64,
        sought: Sought<'_>,
        lows: &impl Lows,
    ) -> Result<Option<u32>, Error> {
        if state.is_simple()
            && let Some(place) = node.place_by_heads(wanted, OneByOne)
        {
            return Ok(Some(node.child(place)));
        }
        match node.place(sought, lows) {
            Ok(place) => Ok(Some(node.child(place))),
            Err(error) if node.still(state) => Err(error),
            Err(_) => Ok(None),
        }
    }
}
