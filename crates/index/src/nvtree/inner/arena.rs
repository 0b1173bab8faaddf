//! The memory of inner nodes, which never move, so that a reader needs no lock to come to one: of all
//! trees of a forest, because each would reserve as much.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tembo_pmem::Table;

use super::node::Node;
use crate::Error;

/// The place of a node.
pub(super) type NodeId = u32;

/// Of so many leaves that a pool has room for, the least that a node is expected to know: those that know
/// fewer are paid for by those that know more.
const LEAVES_PER_NODE: usize = 8;
/// Nodes that there is room for in the smallest pool.
const NODES_MIN: usize = 4096;

/// All nodes that ever were.
pub(crate) struct Arena {
    nodes: Table<Node>,
    len: usize,
    space: Mutex<Space>,
}

#[derive(Default)]
struct Space {
    /// Nodes from here on were never used.
    frontier: usize,
    /// Of trees that are gone.
    free: Vec<NodeId>,
}

impl Arena {
    /// For the nodes above so many leaves, of which `old` may be there already.
    ///
    /// # Errors
    /// [`Error::Pool`]: the system has no such address space.
    pub(crate) fn new(leaf_count: usize, old: usize) -> Result<Arena, Error> {
        let len =
            (leaf_count / LEAVES_PER_NODE).saturating_add(NODES_MIN).min(NodeId::MAX as usize);
        let nodes = Table::new(len).map_err(tembo_pool::Error::from)?;
        nodes.expect(old / LEAVES_PER_NODE, old / LEAVES_PER_NODE);
        Ok(Arena { nodes, len, space: Mutex::default() })
    }

    fn space(&self) -> MutexGuard<'_, Space> {
        self.space.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All nodes by their ids, those that nothing uses included.
    #[inline]
    pub(super) fn nodes(&self) -> &[Node] {
        self.nodes.as_slice()
    }

    /// The node of that id; `None` if there can be none.
    #[inline]
    pub(super) fn get(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id as usize)
    }

    /// A node that nothing uses.
    ///
    /// # Errors
    /// [`Error::Pool`]: there are as many as there is room for.
    pub(super) fn take(&self) -> Result<NodeId, Error> {
        let mut space = self.space();
        if let Some(id) = space.free.pop() {
            return Ok(id);
        }
        if space.frontier == self.len {
            let size = size_of::<Node>() as u64;
            return Err(tembo_pool::Error::PoolFull { size, recovering: false }.into());
        }
        space.frontier += 1;
        self.nodes.reach(space.frontier);
        Ok((space.frontier - 1) as NodeId)
    }

    /// Whether too little memory is ready for the nodes that come next.
    #[inline]
    pub(crate) fn is_short(&self) -> bool {
        self.nodes.is_short()
    }

    /// Makes memory ready for them.
    pub(crate) fn prefault(&self) {
        self.nodes.prefault(Node::touch);
    }

    /// Nothing uses these any more.
    pub(super) fn give(&self, ids: impl IntoIterator<Item = NodeId>) {
        self.space().free.extend(ids);
    }
}
