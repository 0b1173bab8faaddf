//! The memory of inner nodes. They never move, so that a reader needs no lock to come to one. All trees of a forest
//! share it, because each tree would have to reserve as much.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tembo_pmem::Table;

use super::node::Node;
use crate::Error;

/// The place of a node.
pub(super) type NodeId = u32;

/// There is one node for so many leaves that a pool has room for. Nodes with more leaves make up for those with fewer.
const LEAVES_PER_NODE: usize = 8;
/// Nodes for which there is room in the smallest pool.
const NODES_MIN: usize = 4096;

/// All nodes that were ever used, and room for more.
pub(crate) struct Arena {
    nodes: Table<Node>,
    len: usize,
    space: Mutex<Space>,
}

#[derive(Default)]
struct Space {
    /// Nodes from here on were never used.
    frontier: usize,
    /// Nodes of trees that were dropped.
    free: Vec<NodeId>,
}

impl Arena {
    /// An arena for the nodes above so many leaves, of which `old` may exist already.
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

    /// All nodes by their ids, including those that no tree uses.
    #[inline]
    pub(super) fn nodes(&self) -> &[Node] {
        self.nodes.as_slice()
    }

    /// The node of that id. `None`: no node can have it.
    #[inline]
    pub(super) fn get(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id as usize)
    }

    /// The id of a node of this arena.
    #[inline]
    pub(super) fn id_of(&self, node: &Node) -> NodeId {
        let bytes = std::ptr::from_ref(node).addr() - self.nodes().as_ptr().addr();
        (bytes / size_of::<Node>()) as NodeId
    }

    /// Takes a node that no tree uses.
    ///
    /// # Errors
    /// [`Error::Pool`]: there is no room for more nodes.
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

    /// Prefaults memory for them.
    pub(crate) fn prefault(&self) {
        self.nodes.prefault(Node::touch);
    }

    /// Takes back nodes that no tree uses any more.
    pub(super) fn give(&self, ids: impl IntoIterator<Item = NodeId>) {
        self.space().free.extend(ids);
    }
}
