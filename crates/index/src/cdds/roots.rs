//! The roots of a tree, of which older versions have their own, and the ways from them to its leaves
//! (algorithm 1).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tembo_pmem::MediaBytes;
use tembo_pool::Object;

use super::format::RootCell;
use super::node::{Find, Node, Order, fingerprint};
use crate::error::damaged;
use crate::record::{ask_for_record, verify_once};
use crate::{Error, Forest, Place, Stamp, View};

/// The cell that names the root of a tree, and with it the tree.
pub(crate) struct Roots {
    pub(super) forest: Arc<Forest>,
    /// Offset of the cell.
    pub(super) cell: u64,
    pub(super) cell_object: Object,
    /// Nodes that were replaced since the tree was opened.
    replacements: AtomicU32,
}

/// One node of a path, with the order it had and the position that the path takes through it.
#[derive(Clone, Copy)]
pub(crate) struct Step<'f> {
    pub(crate) node: Node<'f>,
    pub(crate) order: Order,
    pub(crate) sequence: u32,
    /// The position in an inner node of the child that comes next on the path.
    pub(crate) position: usize,
}

/// A path from the root to a leaf: inner nodes first, the leaf last.
pub(crate) type Path<'f> = Vec<Step<'f>>;

/// What a lookup finds: the value, and the record that distinguishes it from others.
pub(crate) struct Found<'f> {
    pub(crate) record: Object,
    pub(crate) value: MediaBytes<'f>,
}

impl Roots {
    /// The roots of the tree whose cell is that object.
    pub(super) fn new(forest: Arc<Forest>, cell_object: Object) -> Roots {
        let (cell, replacements) = (cell_object.offset(), AtomicU32::new(0));
        Roots { forest, cell, cell_object, replacements }
    }

    pub(crate) fn cell(&self) -> Result<&RootCell, Error> {
        Ok(self.forest.region().get(self.cell)?)
    }

    /// The root of the tree in the view: the newest of the chain that is not younger than the view
    /// and not dead.
    #[inline]
    pub(crate) fn root(&self, view: View<'_>) -> Result<Node<'_>, Error> {
        let mut object = Object::from_bits(self.cell()?.root.load());
        let mut younger = u64::MAX;
        loop {
            let node = Node::new(&self.forest, object)?;
            let header = node.header()?;
            let since = Stamp::from_bits(header.root_since.load());
            if since.is_none() || view.sees(since, Stamp::NONE) {
                return Ok(node);
            }
            let older = Object::from_bits(header.older_root.load());
            if older.to_bits() == 0 || since.version() >= younger {
                return damaged(object.offset(), "a root for every retained version");
            }
            self.forest.pool().valid(older)?;
            (object, younger) = (older, since.version());
        }
    }

    /// The leaf that covers `key` in the view (`None`: the last leaf), its order and sequence.
    #[inline]
    pub(crate) fn leaf(
        &self,
        key: Option<&[u8]>,
        view: View<'_>,
    ) -> Result<(Node<'_>, Order, u32), Error> {
        let mut node = self.root(view)?;
        let (mut order, mut sequence) = node.order()?;
        while order.level > 0 {
            let (child, _) = self.child(node, &mut order, &mut sequence, key, view)?;
            (order, sequence) = child.order_below(order.level)?;
            node = child;
        }
        Ok((node, order, sequence))
    }

    /// The writer's path to the leaf that covers `key`.
    pub(crate) fn path(&self, key: Option<&[u8]>, view: View<'_>) -> Result<Path<'_>, Error> {
        let mut path = Path::with_capacity(8);
        let mut node = self.root(view)?;
        let (mut order, mut sequence) = node.order()?;
        while order.level > 0 {
            let (child, position) = self.child(node, &mut order, &mut sequence, key, view)?;
            path.push(Step { node, order, sequence, position });
            (order, sequence) = child.order_below(order.level)?;
            node = child;
        }
        path.push(Step { node, order, sequence, position: 0 });
        Ok(path)
    }

    /// The leaf that covers `key` in the writer's view. Uses the place if that is still valid.
    #[inline]
    pub(crate) fn leaf_step(
        &self,
        key: &[u8],
        place: Place,
        view: View<'_>,
    ) -> Result<Step<'_>, Error> {
        let (node, order, sequence) = self.leaf_near(key, place, view)?;
        Ok(Step { node, order, sequence, position: 0 })
    }

    #[inline]
    fn leaf_near(
        &self,
        key: &[u8],
        place: Place,
        view: View<'_>,
    ) -> Result<(Node<'_>, Order, u32), Error> {
        if place.is_known() && place.since == self.since() {
            let node = Node::new(&self.forest, Object::from_bits(place.node))?;
            let (order, sequence) = node.order()?;
            return Ok((node, order, sequence));
        }
        self.leaf(Some(key), view)
    }

    /// Notes that a node was replaced.
    pub(super) fn note_replacement(&self) {
        self.replacements.fetch_add(1, Ordering::Relaxed);
    }

    /// Live entries at which a node that is not the root is merged with a sibling: the thesis's m_l.
    pub(super) fn live_min(&self) -> usize {
        (self.forest.capacity / 5).max(1)
    }

    /// A number that changes whenever a key may have got another leaf in the writer's view.
    #[inline]
    pub(crate) fn since(&self) -> u64 {
        let replacements = self.replacements.load(Ordering::Relaxed);
        u64::from(self.forest.dead_epoch()) << 32 | u64::from(replacements)
    }

    /// Goes down to the leaf. It is inlined so that an order stays in registers from one node to the next.
    #[inline(always)]
    fn child<'f>(
        &'f self,
        node: Node<'f>,
        order: &mut Order,
        sequence: &mut u32,
        key: Option<&[u8]>,
        view: View<'_>,
    ) -> Result<(Node<'f>, usize), Error> {
        loop {
            if let Some(position) = node.child_position(order, *sequence, key, view)? {
                let child = Object::from_bits(node.seen(order.slot(position))?.target);
                if node.side.still(*sequence) {
                    let child = Node::new(&self.forest, child)?;
                    child.side.prefetch();
                    return Ok((child, position));
                }
            } else if node.side.still(*sequence) {
                return damaged(node.object.offset(), "an inner node that covers its range");
            }
            (*order, *sequence) = node.order()?;
        }
    }

    /// The value under `key`.
    pub(crate) fn lookup(
        &self,
        key: &[u8],
        place: Place,
        view: View<'_>,
    ) -> Result<Option<MediaBytes<'_>>, Error> {
        let Some(Found { record, value }) = self.find(key, place, view)? else { return Ok(None) };
        ask_for_record(self.forest.region(), record);
        verify_once(&self.forest, record)?;
        Ok(Some(value))
    }

    /// The record of `key`; its value is not verified.
    #[inline]
    pub(crate) fn find(
        &self,
        key: &[u8],
        place: Place,
        view: View<'_>,
    ) -> Result<Option<Found<'_>>, Error> {
        let print = fingerprint(key);
        let (leaf, mut order, mut sequence) = self.leaf_near(key, place, view)?;
        loop {
            match leaf.find(&order, sequence, (key, print), view)? {
                Find::At { record, value, .. } => return Ok(Some(Found { record, value })),
                Find::Absent => return Ok(None),
                Find::Changed => (order, sequence) = leaf.order()?,
            }
        }
    }
}

impl Node<'_> {
    /// The order of a child, which must lie one level below its parent.
    #[inline(always)]
    fn order_below(&self, level: u8) -> Result<(Order, u32), Error> {
        let (order, sequence) = self.order()?;
        if order.level + 1 == level {
            Ok((order, sequence))
        } else {
            damaged(self.object.offset(), "a node one level below its parent")
        }
    }
}

/// The last node of a path.
pub(crate) fn leaf_of<'p, 'f>(path: &'p [Step<'f>]) -> Result<&'p Step<'f>, Error> {
    match path.last() {
        Some(step) => Ok(step),
        None => damaged(0, "a path that ends in a node"),
    }
}
