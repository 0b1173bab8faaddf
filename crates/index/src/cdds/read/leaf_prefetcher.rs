//! Asks for leaves, and their bounds, before a scan comes to them, where pages come from a disk one by one.

use tembo_pool::Object;

use crate::cdds::node::Node;
use crate::cdds::roots::Roots;
use crate::{Direction, Error, View};

/// Leaves that a scan asks for when it begins. It asks for twice as many each time after that.
const FIRST: usize = 2;

/// Leaves that are asked for at most at once: half of what most inner nodes have.
const MOST: usize = 16;

/// The leaves that come next. They are only a hint: a leaf that was replaced meanwhile was read for nothing, and the scan
/// itself reports damage.
pub(super) struct LeafPrefetcher {
    direction: Direction,
    /// The leaves that were asked for, in the order of the scan, the last one first.
    asked: Vec<Object>,
    window: usize,
}

impl LeafPrefetcher {
    pub(super) fn new(direction: Direction) -> LeafPrefetcher {
        LeafPrefetcher { direction, asked: Vec::new(), window: FIRST }
    }

    /// Notes that the scan is in the leaf that covers the key. `None`: in the last leaf.
    pub(super) fn come_to(&mut self, roots: &Roots, key: Option<&[u8]>, view: View<'_>) {
        if !roots.forest.region().reads_alone() {
            return;
        }
        self.asked.pop();
        if self.asked.is_empty() {
            // The scan meets the error itself.
            let _ = self.ask(roots, key, view);
        }
        // Its page was asked for when the scan was a leaf before, so that its header is there, or about to come.
        if let Some(next) = self.asked.last() {
            let _ = ask_bounds(roots, *next);
        }
    }

    /// Asks for the leaves behind the one that covers the key, as far as they have the same parent.
    fn ask(&mut self, roots: &Roots, key: Option<&[u8]>, view: View<'_>) -> Result<(), Error> {
        let path = roots.path(key, view)?;
        let [.., parent, _] = &path[..] else { return Ok(()) };
        let (order, position) = (&parent.order, parent.position);
        let count = match self.direction {
            Direction::Forward => order.len().saturating_sub(position + 1),
            Direction::Backward => position,
        };
        for distance in 1..=count.min(self.window) {
            let at = match self.direction {
                Direction::Forward => position + distance,
                Direction::Backward => position - distance,
            };
            let seen = parent.node.seen(order.slot(at))?;
            if view.sees(seen.start, seen.end) {
                let leaf = Object::from_bits(seen.target);
                roots.forest.region().will_read(leaf.offset(), leaf.size());
                self.asked.push(leaf);
            }
        }
        self.window = (self.window * 2).min(MOST);
        self.asked.reverse();
        Ok(())
    }
}

fn ask_bounds(roots: &Roots, leaf: Object) -> Result<(), Error> {
    let bounds = Object::from_bits(Node::new(&roots.forest, leaf)?.header()?.bounds.load());
    if bounds.to_bits() != 0 {
        roots.forest.region().will_read(bounds.offset(), bounds.size());
    }
    Ok(())
}
