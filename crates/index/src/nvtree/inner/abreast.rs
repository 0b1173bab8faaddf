//! Several searches side by side, one level at a time, so that memory is waited for once for all of them.

use super::arena::NodeId;
use super::low::{LeafId, Lows};
use super::node::Sought;
use super::nodes::{Descent, Nodes, Token};
use crate::Error;
use crate::head::head;
use crate::simd::{Count, OneByOne};

/// Searches that are walked side by side. Processors wait for about so many lines at once.
const ABREAST: usize = 16;

/// How far one of the searches is.
#[derive(Clone, Copy)]
enum Way<'t> {
    In(Descent<'t>),
    Leaf(LeafId, Token<'t>),
    /// The tree has changed meanwhile: this search is done alone, from the root.
    Lost,
}

/// Appends to `found` what [`Nodes::find`] says of each of the `keys`, which are looked for side
/// by side.
///
/// # Errors
/// Those of `lows`.
pub(super) fn find_abreast<'t>(
    nodes: &'t Nodes,
    keys: &[&[u8]],
    lows: &impl Lows,
    found: &mut Vec<(LeafId, Token<'t>)>,
) -> Result<(), Error> {
    for keys in keys.chunks(ABREAST) {
        let ways = match nodes.all_at_once {
            Some(all) => descend_abreast(nodes, keys, lows, all)?,
            None => descend_abreast(nodes, keys, lows, OneByOne)?,
        };
        for (key, way) in keys.iter().zip(ways) {
            found.push(match way {
                Way::Leaf(leaf, token) => (leaf, token),
                _ => nodes.find(key, lows)?,
            });
        }
    }
    Ok(())
}

fn descend_abreast<'t>(
    nodes: &'t Nodes,
    keys: &[&[u8]],
    lows: &impl Lows,
    count: impl Count,
) -> Result<[Way<'t>; ABREAST], Error> {
    let mut ways = [Way::Lost; ABREAST];
    let Some(root) = nodes.enter() else { return Ok(ways) };
    ways[..keys.len()].fill(Way::In(root));
    let mut heads = [0; ABREAST];
    heads.iter_mut().zip(keys).for_each(|(front, key)| *front = head(key, 0));
    let mut children = [0; ABREAST];
    for _ in 0..root.node.level() {
        for (at, key) in keys.iter().enumerate() {
            let Way::In(descent) = ways[at] else { continue };
            match child(nodes, descent, (key, heads[at]), lows, count)? {
                Some(child) => {
                    prefetch(nodes, child);
                    children[at] = child;
                }
                None => ways[at] = Way::Lost,
            }
        }
        for (way, &child) in ways.iter_mut().zip(&children) {
            let Way::In(Descent { node, state }) = *way else { continue };
            *way = nodes.descend(node, state, child).map_or(Way::Lost, Way::In);
        }
    }
    // The nodes so many levels below the root have leaves as their children: the root was found unchanged since its level
    // was read.
    for (at, key) in keys.iter().enumerate() {
        let Way::In(Descent { node, state }) = ways[at] else { continue };
        let leaf = child(nodes, Descent { node, state }, (key, heads[at]), lows, count)?;
        ways[at] = match leaf.filter(|_| node.still(state)) {
            Some(leaf) => Way::Leaf(leaf, Token { node, state }),
            None => Way::Lost,
        };
    }
    Ok(ways)
}

/// The child that covers the key, whose first eight bytes are `front`. `None`: the node has changed.
#[inline(always)]
fn child(
    nodes: &Nodes,
    Descent { node, state }: Descent<'_>,
    (key, front): (&[u8], u64),
    lows: &impl Lows,
    count: impl Count,
) -> Result<Option<u32>, Error> {
    let wanted = if state.is_simple() { Some(front) } else { node.head_of(state, key) };
    match wanted.and_then(|wanted| node.place_by_heads(wanted, count)) {
        Some(place) => Ok(Some(node.child(place))),
        // Heads do not decide.
        None => nodes.child((node, state), front, Sought::At(key), lows),
    }
}

fn prefetch(nodes: &Nodes, id: NodeId) {
    if let Some(node) = nodes.arena.get(id) {
        node.prefetch();
    }
}
