//! A node of the ordered map's tree.

use crate::{Bytes, Error, Persist, Ptr, Ref};

#[derive(Persist)]
#[persist(name = "tembo.PMap.node")]
pub(crate) struct MapNode<'h, V> {
    pub(super) key: Ptr<'h, Bytes>,
    pub(super) value: V,
    pub(super) left: Link<'h, V>,
    pub(super) right: Link<'h, V>,
}

pub(crate) type Link<'h, V> = Option<Ptr<'h, MapNode<'h, V>>>;

pub(super) type NodeRef<'v, 'h, V> = Ref<'v, 'h, MapNode<'h, V>>;

/// How deep a tree can be. The expected depth of 2⁶⁴ keys is below 200; only a damaged tree, or keys that are made for it, are
/// deeper, and would take all of the thread's stack.
const DEPTH_MAX: u32 = 1024;

pub(super) fn deeper(depth: u32, offset: u64) -> Result<u32, Error> {
    let damaged = Error::Damaged { what: "the depth of a map", offset };
    if depth < DEPTH_MAX { Ok(depth + 1) } else { Err(damaged) }
}

pub(super) fn without_key<V>(node: NodeRef<'_, '_, V>) -> Error {
    Error::Damaged { what: "a key", offset: node.offset() }
}
