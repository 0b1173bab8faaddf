//! New nodes for old ones: split, copy, merge and promotion by one rule. The live entries of a node,
//! and of a sibling if they are too few, move into one or two new nodes; the old ones stay as they
//! are, for the readers of older versions.

use std::sync::atomic::Ordering;

use tembo_pmem::{LINE, prefetch};
use tembo_pool::Object;

use super::Cdds;
use super::bounds::Bounds;
use super::change::{Change, Fresh, Item, leaf_of, retire};
use super::few::Few;
use super::format::{CAPACITY_MAX, NODE_HEADER, UNBOUNDED_HEAD, shape};
use super::node::{Node, compare_high};
use super::path::Step;
use super::side::Order;
use crate::error::damaged;
use crate::key::KeyBytes;
use crate::record::{common, read_key};
use crate::{Error, Stamp, Writer};

/// Words of the largest node, and of a line.
const NODE_WORDS: usize = 128;
const LINE_WORDS: usize = 8;

/// What the header of a root says of the chain of roots: since which stamp it is the root, and the one before.
/// Zeros: it is none.
#[derive(Clone, Copy, Default)]
struct RootLink {
    since: u64,
    older: u64,
}

impl Cdds {
    /// Replaces the last node of `path`, changed by `change`, and lets its parent know.
    pub(crate) fn reshape(
        &self,
        path: &[Step<'_>],
        change: Change<'_>,
        writer: &mut Writer<'_>,
        fresh: &mut Fresh,
    ) -> Result<(), Error> {
        let step = leaf_of(path)?;
        let level = step.order.level;
        let mut items = self.live_items(step, change.ended, writer)?;
        for item in change.added.iter() {
            let position = items.partition_point(|other| compare_high(other.key, item.key).is_lt());
            items.insert(position, item);
        }
        let mut bounds = step.node.bounds()?;
        let mut replaced = vec![step.node];
        let mut ended = Few::none();
        if let [.., parent, _] = path {
            let own = parent.order.slot(parent.position);
            ended = Few::one(own);
            if items.len() <= self.live_min()
                && let Some((position, sibling)) = self.sibling(parent, writer)?
            {
                let taken = self.live_items(&sibling, Few::none(), writer)?;
                let other = sibling.node.bounds()?;
                if position > parent.position {
                    items.extend(taken);
                    bounds.high = other.high;
                } else {
                    items.splice(0..0, taken);
                    bounds.low = other.low;
                }
                ended = Few::and(own, Some(parent.order.slot(position)));
                replaced.push(sibling.node);
            }
        }
        let is_root = path.len() == 1;
        let link = if is_root { self.root_link(writer)? } else { RootLink::default() };
        let nodes = self.pack((level, link), &items, &bounds, writer, fresh)?;
        if !is_root {
            let change = Change { ended, added: nodes };
            self.apply_change(&path[..path.len() - 1], change, writer, fresh)?;
        } else if let Some(only) = nodes.only() {
            self.publish_root(Object::from_bits(only.target))?;
        } else {
            let (level, nodes) = (level + 1, nodes.iter().collect::<Vec<_>>());
            let root = self.new_node((level, link), &nodes, &Bounds::default(), writer, fresh)?;
            self.publish_root(root)?;
        }
        // Only now, as what comes before may find no room, and must then have changed nothing.
        replaced.into_iter().try_for_each(|node| self.retire_node(node, is_root, writer))
    }

    /// What the header of the root of the writer's version, and those after it, says of the chain of roots.
    fn root_link(&self, writer: &Writer<'_>) -> Result<RootLink, Error> {
        let before = self.root(writer.view())?;
        let same_version = Stamp::from_bits(before.header()?.root_since.load()).version()
            == writer.stamp.version();
        let older =
            if same_version { before.header()?.older_root.load() } else { before.object.to_bits() };
        Ok(RootLink { since: writer.stamp.to_bits(), older })
    }

    /// Gives the tree another root, which leads to the ones before.
    fn publish_root(&self, root: Object) -> Result<(), Error> {
        let region = self.forest.region();
        // ORDER: new nodes and the chain before the cell: a root must lead to its older ones.
        region.fence("cdds.root.fence");
        let cell = self.cell()?;
        // ORDER: after the chain, which leads back if the version does not commit.
        region.commit("cdds.root.publish", &cell.root, root.to_bits());
        // ORDER: the new root is durable before the commit of its version.
        region.flush("cdds.root.flush", region.offset_of(&cell.root), 8);
        Ok(())
    }

    /// A root with one child is that child.
    pub(crate) fn promote(
        &self,
        step: &Step<'_>,
        change: &Change<'_>,
        writer: &mut Writer<'_>,
    ) -> Result<(), Error> {
        let mut child = change.added.iter().next().map(|item| item.target);
        for slot in step.order.iter().filter(|&slot| change.ended.iter().all(|ended| ended != slot))
        {
            let seen = step.node.seen(slot)?;
            if writer.view().sees(seen.start, seen.end) {
                child = Some(seen.target);
            }
        }
        let Some(child) = child else {
            return damaged(step.node.object.offset(), "a root with a live child");
        };
        let (region, link) = (self.forest.region(), self.root_link(writer)?);
        let root = Node::new(&self.forest, Object::from_bits(child))?;
        let header = root.header()?;
        region.store(&header.older_root, link.older);
        region.store(&header.root_since, link.since);
        // ORDER: the root chain is durable before the cell names its new head.
        region.flush("cdds.root.chain", root.object.offset(), NODE_HEADER);
        self.publish_root(root.object)?;
        self.retire_node(step.node, true, writer)
    }

    /// Marks a replaced node and retires it. Its entries' ends are implied, so that their records
    /// need not wait for it. A root is a link of the root chain, and so stays while any older
    /// version is pinned.
    fn retire_node(
        &self,
        node: Node<'_>,
        is_root: bool,
        writer: &mut Writer<'_>,
    ) -> Result<(), Error> {
        let (region, header) = (self.forest.region(), node.header()?);
        self.replacements.fetch_add(1, Ordering::Relaxed);
        // ORDER: after the limit of its version; commits with its stamp, as the parent's end.
        region.commit("cdds.node.death", &header.death, writer.stamp.to_bits());
        // ORDER: the death is durable before the commit of its version: what ends later in the
        // node's successors may be reused, and this node's entries must not claim it.
        region.flush("cdds.node.death.flush", region.offset_of(&header.death), 8);
        let birth = if is_root { Stamp::NONE } else { node.birth()? };
        retire(writer, node.object, birth);
        retire(writer, Object::from_bits(header.bounds.load()), birth);
        Ok(())
    }

    /// The live entries of a node, in order, without those in `except`.
    fn live_items<'f>(
        &'f self,
        step: &Step<'f>,
        except: Few<usize>,
        writer: &Writer<'_>,
    ) -> Result<Vec<Item<'f>>, Error> {
        let mut items = Vec::with_capacity(step.order.len() + 1);
        for slot in step.order.iter() {
            let object = Object::from_bits(step.node.entry(slot)?.target.load());
            prefetch(self.forest.region().get::<tembo_pmem::Word>(object.offset())?);
        }
        for slot in step.order.iter().filter(|&slot| except.iter().all(|other| other != slot)) {
            let seen = step.node.seen(slot)?;
            if writer.view().sees(seen.start, seen.end) {
                let object = Object::from_bits(seen.target);
                let key = match step.order.level {
                    0 => Some(read_key(&self.forest, object)?.into()),
                    _ => step.node.high_of(object)?,
                };
                items.push(Item { key, target: seen.target, start: seen.start });
            }
        }
        Ok(items)
    }

    /// The next living child of the parent, to the right if there is one.
    fn sibling<'f>(
        &'f self,
        parent: &Step<'f>,
        writer: &Writer<'_>,
    ) -> Result<Option<(usize, Step<'f>)>, Error> {
        let right = parent.position + 1..parent.order.len();
        for position in right.chain((0..parent.position).rev()) {
            let seen = parent.node.seen(parent.order.slot(position))?;
            if writer.view().sees(seen.start, seen.end) {
                let node = Node::new(&self.forest, Object::from_bits(seen.target))?;
                let (order, sequence) = node.order()?;
                return Ok(Some((position, Step { node, order, sequence, position: 0 })));
            }
        }
        Ok(None)
    }

    /// Algorithm 3's choice: one new node, or two if one would be left with too little room.
    fn pack<'k>(
        &self,
        (level, link): (u8, RootLink),
        items: &[Item<'k>],
        bounds: &Bounds<'k>,
        writer: &Writer<'_>,
        fresh: &mut Fresh,
    ) -> Result<Few<Item<'k>>, Error> {
        let begin =
            |high, node: Object| Item { key: high, target: node.to_bits(), start: writer.stamp };
        if items.len() <= self.forest.capacity - self.live_min() {
            let node = self.new_node((level, link), items, bounds, writer, fresh)?;
            return Ok(Few::one(begin(bounds.high, node)));
        }
        let (left, right) = items.split_at(items.len() / 2);
        let middle = match (left.last().and_then(|item| item.key), right.first().map(|i| i.key)) {
            (Some(last), Some(Some(first))) if level == 0 => super::bounds::separator(last, first),
            (Some(last), _) => last,
            _ => return damaged(self.cell, "keys on both sides of a split"),
        };
        let left_bounds = Bounds::new(bounds.low, Some(middle));
        let right_bounds = Bounds::new(Some(middle), bounds.high);
        let below = (level, RootLink::default());
        let left = self.new_node(below, left, &left_bounds, writer, fresh)?;
        let right = self.new_node(below, right, &right_bounds, writer, fresh)?;
        Ok(Few::and(begin(Some(middle), left), Some(begin(bounds.high, right))))
    }

    /// Writes a node to which nothing refers yet, every slot of it, and flushes what was otherwise there.
    fn new_node(
        &self,
        (level, link): (u8, RootLink),
        items: &[Item<'_>],
        bounds: &Bounds<'_>,
        writer: &Writer<'_>,
        fresh: &mut Fresh,
    ) -> Result<Object, Error> {
        let (pool, region) = (self.forest.pool(), self.forest.region());
        let size = u64::from(pool.geometry().node_size);
        let object = pool.alloc(size)?;
        fresh.objects.push(object);
        let mut bounds_bits = 0;
        let bounds = &guard(bounds, items);
        if *bounds != Bounds::default() {
            // In lines of its own: one that it shared could be flushed for another record again.
            let record = pool.alloc(bounds.size().max(LINE))?;
            fresh.objects.push(record);
            bounds.write(region, record)?;
            bounds_bits = record.to_bits();
        }
        let guarded = !bounds.prefix.is_empty();
        let prefix_len = if guarded { bounds.prefix.len() as u16 } else { bounds.prefix_len() };
        let mut image = [0u64; NODE_WORDS];
        image[0] = shape(level, self.forest.capacity, prefix_len, guarded);
        image[1] = writer.stamp.to_bits();
        (image[2], image[3], image[4]) = (bounds_bits, link.since, link.older);
        let mut order = Order { level, prefix_len, guarded, ..Order::default() };
        let node = Node::new(&self.forest, object)?;
        let guard = node.side.lock();
        for (slot, item) in items.iter().enumerate() {
            let head = item.key.map_or(UNBOUNDED_HEAD, |key| key.head(prefix_len.into()));
            image[8 + 4 * slot..12 + 4 * slot].copy_from_slice(&[
                head,
                item.target,
                0,
                item.start.to_bits(),
            ]);
            guard.set_head(slot, head);
            order.insert(slot, slot);
        }
        (items.len()..CAPACITY_MAX).for_each(|slot| guard.free_head(slot));
        let words = region.words(object.offset(), (size / 8) as usize)?;
        for (words, values) in words.chunks(LINE_WORDS).zip(image.chunks(LINE_WORDS)) {
            let mut changed = None;
            for (word, &value) in
                words.iter().zip(values).filter(|(word, value)| word.load() != **value)
            {
                region.store(word, value);
                changed = Some(word);
            }
            if let Some(word) = changed {
                // ORDER: every line of the node that was another is durable before the commit that links it.
                region.flush("cdds.node.flush", region.offset_of(word), 8);
            }
        }
        guard.set(self.forest.dead_epoch(), &order);
        Ok(object)
    }
}

/// Prefix bytes that the keys of a guarded node have in common and that are left to their heads, so
/// that not every next key in a row lacks the prefix.
const GUARD_SLACK: u16 = 3;

/// The bounds of a node of these entries, with a guard if that gives it a longer prefix.
fn guard<'k>(bounds: &Bounds<'k>, items: &[Item<'k>]) -> Bounds<'k> {
    let bare = Bounds::new(bounds.low, bounds.high);
    if bounds.low.is_some() && bounds.high.is_some() {
        return bare;
    }
    let mut keys = items.iter().filter_map(|item| item.key);
    let Some(first) = keys.next() else { return bare };
    let last = match keys.next_back() {
        Some(last) => last,
        // A root of two children.
        None if items.len() > 1 => first,
        None => return bare,
    };
    let prefix_len = last.with(|last| common(first, last)).saturating_sub(GUARD_SLACK);
    let prefix = first.slice(0..prefix_len.into()).unwrap_or(KeyBytes::EMPTY);
    Bounds { prefix, ..bare }
}
