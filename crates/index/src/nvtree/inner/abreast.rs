//! Several searches side by side, one level at a time, so that what each would wait for in memory comes
//! for all of them at once.

use std::array::from_fn;

use super::arena::NodeId;
use super::node::Sought;
use super::{Inner, LeafId, Lows, Ticket, Walk};
use crate::Error;

/// Searches that are walked side by side. Processors wait for about so many lines at once.
const ABREAST: usize = 16;

/// How far one of them is.
#[derive(Clone, Copy)]
enum Way<'t> {
    In(Walk<'t>),
    /// From there to this child, whose lines have been asked for.
    To(Walk<'t>, NodeId),
    Leaf(LeafId, Ticket),
    /// The tree changed underneath: this one is walked alone, from the root.
    Lost,
}

impl Inner {
    /// Appends to `found` what [`find`](Self::find) says of each of the `keys`, which are looked for side
    /// by side.
    ///
    /// # Errors
    /// Those of `lows`.
    pub(crate) fn find_abreast(
        &self,
        keys: &[&[u8]],
        lows: &impl Lows,
        found: &mut Vec<(LeafId, Ticket)>,
    ) -> Result<(), Error> {
        for keys in keys.chunks(ABREAST) {
            let ways = self.walk_abreast(keys, lows)?;
            for (key, way) in keys.iter().zip(ways) {
                found.push(match way {
                    Way::Leaf(leaf, ticket) => (leaf, ticket),
                    _ => self.find(key, lows)?,
                });
            }
        }
        Ok(())
    }

    fn walk_abreast(&self, keys: &[&[u8]], lows: &impl Lows) -> Result<[Way<'_>; ABREAST], Error> {
        let mut ways = [Way::Lost; ABREAST];
        let Some(root) = self.enter() else { return Ok(ways) };
        let sought: [_; ABREAST] = from_fn(|at| {
            let key = Sought::At(keys.get(at).copied().unwrap_or_default());
            (key, key.head())
        });
        ways[..keys.len()].fill(Way::In(root));
        for _ in 0..=root.node.level() {
            for (way, &(sought, wanted)) in ways.iter_mut().zip(&sought) {
                let Way::In(walk) = *way else { continue };
                let Walk { id, node, sequence } = walk;
                let child = self.child(node, sequence, wanted, sought, lows)?;
                *way = match child {
                    Some(child) if node.level() > 0 => {
                        self.prefetch(child);
                        Way::To(walk, child)
                    }
                    Some(leaf) if node.still(sequence) => {
                        Way::Leaf(leaf, Ticket { node: id, sequence })
                    }
                    _ => Way::Lost,
                };
            }
            for way in &mut ways {
                let Way::To(walk, child) = *way else { continue };
                *way = self.descend(walk.node, walk.sequence, child).map_or(Way::Lost, Way::In);
            }
        }
        Ok(ways)
    }

    fn prefetch(&self, id: NodeId) {
        if let Some(node) = self.arena.get(id) {
            node.prefetch();
        }
    }
}
