//! Searches through the nodes, from the root down. They take no lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::arena::{Arena, NodeId};
use super::low::{LeafId, Lows};
use super::node::{Node, Sought, State};
use crate::head::head;
use crate::simd::{AllAtOnce, Count, OneByOne};
use crate::{Error, Place};

/// Finds out later whether the leaf that was found still covers the key.
#[derive(Clone, Copy)]
pub(crate) struct Token<'t> {
    pub(super) node: &'t Node,
    pub(super) state: State,
}

impl Token<'_> {
    /// True if no leaf below the node was split, merged or removed since.
    #[inline]
    pub(crate) fn still(self) -> bool {
        self.node.still(self.state)
    }
}

/// The nodes of a tree: what readers need of them.
pub(super) struct Nodes {
    pub(super) root: AtomicU32,
    pub(super) arena: Arc<Arena>,
    /// Compares eight heads at once, if the processor can.
    pub(super) all_at_once: Option<AllAtOnce>,
}

/// The place of a search on its way down.
#[derive(Clone, Copy)]
pub(super) struct Descent<'t> {
    pub(super) node: &'t Node,
    /// The state of the node when it was found linked.
    pub(super) state: State,
}

impl Nodes {
    pub(super) fn new(arena: Arc<Arena>, root: NodeId) -> Nodes {
        Nodes { root: AtomicU32::new(root), arena, all_at_once: AllAtOnce::new() }
    }

    /// The place that a search has found.
    #[inline]
    pub(super) fn place(&self, leaf: LeafId, token: Token<'_>) -> Place {
        let id = u64::from(self.arena.id_of(token.node));
        Place { node: (id + 1) << LeafId::BITS | u64::from(leaf), since: token.state.to_bits() }
    }

    /// The leaf of a place, and the token of the search that has found it.
    #[inline]
    pub(super) fn found(&self, place: Place) -> Option<(LeafId, Token<'_>)> {
        let id = (place.node >> LeafId::BITS).checked_sub(1)?;
        let node = self.arena.nodes().get(id as usize)?;
        Some((place.node as LeafId, Token { node, state: State::from_bits(place.since) }))
    }

    /// All linked nodes, for a caller that knows that no thread reads them any more.
    pub(super) fn ids(&mut self) -> Vec<NodeId> {
        let (mut ids, mut below) = (Vec::new(), vec![*self.root.get_mut()]);
        while let Some(id) = below.pop() {
            ids.push(id);
            if let Some(node) = self.arena.get(id).filter(|node| node.level() > 0) {
                below.extend(node.children_from(0));
            }
        }
        ids
    }

    /// The leaf that covers `key`, and the token by which to ask later whether that is still so.
    ///
    /// # Errors
    /// Those of `lows`.
    #[inline]
    pub(crate) fn find(&self, key: &[u8], lows: &impl Lows) -> Result<(LeafId, Token<'_>), Error> {
        match self.find_by_heads(key, head(key, 0)) {
            Some(found) => Ok(found),
            None => self.seek(Sought::At(key), lows),
        }
    }

    /// As `find`, for a key whose first eight bytes are `front`. `None`: a writer changes a node on the way, or heads alone
    /// do not decide.
    #[inline(always)]
    pub(crate) fn find_by_heads(&self, key: &[u8], front: u64) -> Option<(LeafId, Token<'_>)> {
        match self.all_at_once {
            Some(all) => self.find_among_heads(Some(key), front, all),
            None => self.find_among_heads(Some(key), front, OneByOne),
        }
    }

    /// As `find_by_heads`; also `None` if a node on the way has a prefix.
    #[inline(always)]
    pub(crate) fn find_by_front(&self, front: u64) -> Option<(LeafId, Token<'_>)> {
        match self.all_at_once {
            Some(all) => self.find_among_heads(None, front, all),
            None => self.find_among_heads(None, front, OneByOne),
        }
    }

    /// `key`: the whole key, if nodes with a prefix are to be passed.
    #[inline(always)]
    fn find_among_heads(
        &self,
        key: Option<&[u8]>,
        front: u64,
        count: impl Count,
    ) -> Option<(LeafId, Token<'_>)> {
        let nodes = self.arena.nodes();
        let id = self.root.load(Ordering::Acquire);
        let mut node = nodes.get(id as usize)?;
        let mut state = node.begin_now()?;
        if self.root.load(Ordering::Relaxed) != id {
            return None;
        }
        loop {
            let wanted = if state.is_simple() { front } else { node.head_of(state, key?)? };
            let child = node.child(node.place_by_heads(wanted, count)?);
            if state.level() == 0 {
                return node.still(state).then_some((child, Token { node, state }));
            }
            let below = nodes.get(child as usize)?;
            let below_state = below.begin_now()?;
            if !node.still(state) {
                return None;
            }
            (node, state) = (below, below_state);
        }
    }

    /// Some of the leaves behind the one that covers `key`, as far as the same node knows them: a hint, which may be
    /// outdated.
    pub(crate) fn behind<const COUNT: usize>(
        &self,
        key: &[u8],
        lows: &impl Lows,
    ) -> [Option<LeafId>; COUNT] {
        let by_heads = self.find_by_heads(key, head(key, 0)).and_then(|(_, token)| {
            let wanted = token.node.head_of(token.state, key)?;
            Some((token.node, token.node.place_by_heads(wanted, OneByOne)?))
        });
        // Where heads do not decide, whole keys are compared.
        let by_keys = || {
            let (found, token) = self.find(key, lows).ok()?;
            Some((token.node, token.node.children_from(0).position(|child| child == found)?))
        };
        let mut behind = [None; COUNT];
        if let Some((node, place)) = by_heads.or_else(by_keys) {
            let leaves = node.children_from(place + 1);
            behind.iter_mut().zip(leaves).for_each(|(to, leaf)| *to = Some(leaf));
        }
        behind
    }

    /// The last leaf whose low key is below `key`. It comes next in a backward scan that has read
    /// the leaf with the low key `key`.
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

    /// Levels of inner nodes, at least one.
    pub(crate) fn height(&self) -> usize {
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

    /// Begins a search at the root. `None`, here and below: the tree has changed meanwhile.
    #[inline]
    pub(super) fn enter(&self) -> Option<Descent<'_>> {
        let (id, node) = self.root_node()?;
        let state = node.begin();
        // This is checked after the sequence was read: the sequence of an unlinked node may belong to its next use.
        (self.root.load(Ordering::Relaxed) == id).then_some(Descent { node, state })
    }

    /// Goes one level down from `node`, which is in that state, to its child `id`.
    #[inline]
    pub(super) fn descend(&self, node: &Node, state: State, id: NodeId) -> Option<Descent<'_>> {
        let below = self.arena.get(id)?;
        let descent = Descent { node: below, state: below.begin() };
        node.still(state).then_some(descent)
    }

    /// The child of `node` that covers what is sought; its head is `wanted`.
    #[inline]
    pub(super) fn child(
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
