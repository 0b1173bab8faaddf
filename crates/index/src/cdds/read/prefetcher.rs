//! Prefetching: goes the ways to several keys side by side, one level at a time, so that memory is waited for
//! once for all of them.
//!
//! It is only a hint: whatever is met half-way, damage for example, ends the search for that key. The
//! thread that later looks for the key then meets it itself.

use std::array::from_fn;

use tembo_pmem::{LINE, prefetch};
use tembo_pool::Object;

use crate::cdds::node::Node;
use crate::cdds::roots::Roots;
use crate::{Error, Place, View};

/// Keys that are looked for side by side. Processors wait for about so many lines at once.
pub(crate) const ABREAST: usize = 16;
/// Lines of a record that are asked for. The processor fetches those that follow by itself.
const RECORD_LINES: u64 = 4;

/// How far the search for a key is.
struct Descent<'k, 'f> {
    key: &'k [u8],
    /// The node that the search has reached. `None`: the search has ended.
    node: Option<Node<'f>>,
    /// The head to look for in `node`, and the first position in its order that may have it.
    wanted: u64,
    first: usize,
}

pub(crate) fn prefetch_keys(
    roots: &Roots,
    keys: &[&[u8]],
    view: View<'_>,
    places: &mut Vec<Place>,
) {
    for keys in keys.chunks(ABREAST) {
        let before = places.len();
        // The thread that reads the key itself gets the error.
        let _ = descend_abreast(roots, keys, view, places);
        places.resize(before + keys.len(), Place::default());
    }
}

fn descend_abreast(
    roots: &Roots,
    keys: &[&[u8]],
    view: View<'_>,
    places: &mut Vec<Place>,
) -> Result<(), Error> {
    let (root, since) = (roots.root(view)?, roots.since());
    let mut descents: [Descent<'_, '_>; ABREAST] = from_fn(|at| {
        let key = keys.get(at).copied();
        Descent { key: key.unwrap_or_default(), node: key.map(|_| root), wanted: 0, first: 0 }
    });
    let descents = &mut descents[..keys.len()];
    for level in (0..=root.order()?.0.level).rev() {
        descents
            .iter_mut()
            .for_each(|descent| descent.go(|descent, node| descent.find_entry(node, level)));
        if level > 0 {
            descents
                .iter_mut()
                .for_each(|descent| descent.go(|descent, node| descent.descend(node, view)));
        }
    }
    descents
        .iter_mut()
        .for_each(|descent| descent.go(|descent, node| descent.find_record(node, view)));
    places.extend(descents.iter().map(|descent| match descent.node {
        Some(leaf) => Place { node: leaf.object.to_bits(), since },
        None => Place::default(),
    }));
    Ok(())
}

impl<'f> Descent<'_, 'f> {
    /// Takes one step, from the node that the search has reached to the next one.
    #[inline]
    fn go(&mut self, step: impl FnOnce(&mut Self, Node<'f>) -> Result<Option<Node<'f>>, Error>) {
        if let Some(node) = self.node {
            self.node = step(self, node).unwrap_or(None);
        }
    }

    /// Finds the entry in the node, and asks for it. `None`: the node is not of the level.
    #[inline]
    fn find_entry(&mut self, node: Node<'f>, level: u8) -> Result<Option<Node<'f>>, Error> {
        let (order, _) = node.order()?;
        if order.level != level {
            return Ok(None);
        }
        (self.wanted, _) = node.wanted(&order, self.key)?;
        self.first = node.lower_bound(self.wanted);
        let live = (self.first..order.len()).find(|&at| !order.is_over(order.slot(at), u64::MAX));
        if let Some(position) = live {
            prefetch(node.entry(order.slot(position))?);
        }
        if level == 0 {
            prefetch(node.entry(order.next_slot(node.capacity()))?);
        }
        Ok(Some(node))
    }

    /// Goes on to the child, and asks for its side-car. `None`: there is no child.
    #[inline]
    fn descend(&mut self, node: Node<'f>, view: View<'_>) -> Result<Option<Node<'f>>, Error> {
        let (order, sequence) = node.order()?;
        let sought = (Some(self.key), self.wanted);
        let found = node.child_from(self.first, (&order, sequence), sought, view)?;
        let Some(position) = found else { return Ok(None) };
        let child = Object::from_bits(node.seen(order.slot(position))?.target);
        node.forest.region().will_read(child.offset(), child.size());
        let child = Node::new(node.forest, child)?;
        child.side.prefetch();
        Ok(Some(child))
    }

    /// Asks for the record of the entry.
    #[inline]
    fn find_record(&mut self, node: Node<'f>, view: View<'_>) -> Result<Option<Node<'f>>, Error> {
        let (order, _) = node.order()?;
        for slot in (self.first..order.len()).map(|position| order.slot(position)) {
            if node.side.head(slot) != self.wanted {
                break;
            }
            if order.is_over(slot, view.version) {
                continue;
            }
            let record = Object::from_bits(node.seen(slot)?.target);
            node.forest.region().will_read(record.offset(), record.size());
            let lines = record.size().div_ceil(LINE).min(RECORD_LINES);
            (0..lines).for_each(|line| {
                node.forest.region().prefetch(record.offset() + line * LINE);
            });
        }
        Ok(Some(node))
    }
}
