//! The memory of inner nodes: chunks that never move, so that a reader needs no lock to come to a node.

use std::sync::OnceLock;

use super::node::Node;
use crate::Error;

/// A chunk, and in the low bits a place in it.
pub(super) type NodeId = u32;

const PLACE_BITS: u32 = 16;
const CHUNK_NODES_MIN: usize = 8;
const CHUNK_NODES_MAX: usize = 1 << PLACE_BITS;
/// A chunk has this part of the nodes that there are before it: to fill it takes long enough that the
/// making of the next one, whose pages are touched for the first time, is not felt by who makes it.
const GROWTH: usize = 16;
/// Enough for 20 million nodes.
const CHUNKS: usize = 512;

/// All nodes that ever were.
pub(super) struct Arena {
    chunks: Box<[OnceLock<Box<[Node]>>]>,
}

/// How far an arena is used; belongs to who may change the tree.
#[derive(Default)]
pub(super) struct Frontier {
    /// The chunk that is being used up, and how much of it is used.
    chunk: usize,
    used: usize,
    /// Nodes in the chunks before it.
    before: usize,
}

impl Arena {
    pub(super) fn new() -> Arena {
        Arena { chunks: (0..CHUNKS).map(|_| OnceLock::new()).collect() }
    }

    /// The node; `None` if there never was one of that id.
    #[inline]
    pub(super) fn get(&self, id: NodeId) -> Option<&Node> {
        let chunk = self.chunks.get((id >> PLACE_BITS) as usize)?.get()?;
        chunk.get(id as usize % CHUNK_NODES_MAX)
    }

    /// A node that was never used.
    ///
    /// # Errors
    /// There are as many as ids can tell apart.
    pub(super) fn grow(&self, frontier: &mut Frontier) -> Result<NodeId, Error> {
        let full =
            tembo_pool::Error::PoolFull { size: size_of::<Node>() as u64, recovering: false };
        let Some(chunk) = self.chunks.get(frontier.chunk) else { return Err(full.into()) };
        let count = (frontier.before / GROWTH).clamp(CHUNK_NODES_MIN, CHUNK_NODES_MAX);
        let chunk = chunk.get_or_init(|| (0..count).map(|_| Node::default()).collect());
        let id = (frontier.chunk << PLACE_BITS | frontier.used) as NodeId;
        frontier.used += 1;
        if frontier.used == chunk.len() {
            let before = frontier.before + chunk.len();
            *frontier = Frontier { chunk: frontier.chunk + 1, used: 0, before };
        }
        Ok(id)
    }
}
