//! Algorithms 2 to 4 as one change that climbs the path until a node can take it in place. On the way, new nodes
//! come for old ones: split, copy, merge and promotion by one rule. The live entries of a node, and of a
//! sibling if they are too few, move into one or two new nodes; the old ones stay as they are, for the
//! readers of older versions.

use tembo_pmem::prefetch;
use tembo_pool::Object;

use super::edit::{Item, NodeChange, change_in_place, fits_prefix, has_room};
use super::few::Few;
use super::nodes::{Fresh, RootLink, new_node, pack};
use crate::cdds::format::NODE_HEADER;
use crate::cdds::node::{Bounds, Node, compare_high};
use crate::cdds::roots::{Roots, Step, leaf_of};
use crate::error::damaged;
use crate::record::read_key;
use crate::{Error, Retired, Stamp, Writer};

/// Applies `change` to the last node of `path`: in place if it has room and keeps enough live
/// entries, else by new nodes and a change of its parent.
pub(crate) fn apply_change(
    roots: &Roots,
    path: &[Step<'_>],
    change: NodeChange<'_>,
    writer: &mut Writer<'_>,
    fresh: &mut Fresh,
) -> Result<(), Error> {
    let step = leaf_of(path)?;
    let live = step.order.live() + change.added.len() - change.ended.len();
    let is_root = path.len() == 1;
    if is_root && step.order.level > 0 && live == 1 {
        return promote(roots, step, &change, writer);
    }
    let starved = !is_root && live <= roots.live_min() && path[path.len() - 2].order.live() > 1;
    if !starved && fits_prefix(step, &change)? && has_room(step, &change, writer)? {
        return change_in_place(step, &change, writer);
    }
    reshape(roots, path, change, writer, fresh)
}

/// Replaces the last node of `path`, changed by `change`, and lets its parent know.
fn reshape(
    roots: &Roots,
    path: &[Step<'_>],
    change: NodeChange<'_>,
    writer: &mut Writer<'_>,
    fresh: &mut Fresh,
) -> Result<(), Error> {
    let step = leaf_of(path)?;
    let level = step.order.level;
    let mut items = live_items(roots, step, change.ended, writer)?;
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
        if items.len() <= roots.live_min()
            && let Some((position, sibling)) = sibling(roots, parent, writer)?
        {
            let taken = live_items(roots, &sibling, Few::none(), writer)?;
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
    let link = if is_root { root_link(roots, writer)? } else { RootLink::default() };
    let nodes = pack(roots, (level, link), &items, &bounds, writer, fresh)?;
    if !is_root {
        let change = NodeChange { ended, added: nodes };
        apply_change(roots, &path[..path.len() - 1], change, writer, fresh)?;
    } else if let Some(only) = nodes.only() {
        publish_root(roots, Object::from_bits(only.target))?;
    } else {
        let (level, nodes) = (level + 1, nodes.iter().collect::<Vec<_>>());
        let root = new_node(roots, (level, link), &nodes, &Bounds::default(), writer, fresh)?;
        publish_root(roots, root)?;
    }
    // This comes last: what comes before may find no room, and then nothing may have changed.
    replaced.into_iter().try_for_each(|node| retire_node(roots, node, is_root, writer))
}

/// What the header of a new root says of the chain of roots. The new root is that of the writer's version and of later
/// ones.
fn root_link(roots: &Roots, writer: &Writer<'_>) -> Result<RootLink, Error> {
    let before = roots.root(writer.view())?;
    let same_version =
        Stamp::from_bits(before.header()?.root_since.load()).version() == writer.stamp.version();
    let older =
        if same_version { before.header()?.older_root.load() } else { before.object.to_bits() };
    Ok(RootLink { since: writer.stamp.to_bits(), older })
}

/// Gives the tree another root, which leads to the ones before.
fn publish_root(roots: &Roots, root: Object) -> Result<(), Error> {
    let region = roots.forest.region();
    // ORDER: new nodes and the chain before the cell: a root must lead to its older ones.
    region.fence("cdds.root.fence");
    let cell = roots.cell()?;
    // ORDER: after the chain, which leads back if the version does not commit.
    region.commit("cdds.root.publish", &cell.root, root.to_bits());
    // ORDER: the new root is durable before the commit of its version.
    region.flush("cdds.root.flush", region.offset_of(&cell.root), 8);
    Ok(())
}

/// Replaces a root with one child by that child.
fn promote(
    roots: &Roots,
    step: &Step<'_>,
    change: &NodeChange<'_>,
    writer: &mut Writer<'_>,
) -> Result<(), Error> {
    let mut child = change.added.iter().next().map(|item| item.target);
    for slot in step.order.iter().filter(|&slot| change.ended.iter().all(|ended| ended != slot)) {
        let seen = step.node.seen(slot)?;
        if writer.view().sees(seen.start, seen.end) {
            child = Some(seen.target);
        }
    }
    let Some(child) = child else {
        return damaged(step.node.object.offset(), "a root with a live child");
    };
    let (region, link) = (roots.forest.region(), root_link(roots, writer)?);
    let root = Node::new(&roots.forest, Object::from_bits(child))?;
    let header = root.header()?;
    region.store(&header.older_root, link.older);
    region.store(&header.root_since, link.since);
    // ORDER: the root chain is durable before the cell names its new head.
    region.flush("cdds.root.chain", root.object.offset(), NODE_HEADER);
    publish_root(roots, root.object)?;
    retire_node(roots, step.node, true, writer)
}

/// Marks a replaced node and retires it. The mark ends its entries, so that their records need not wait for the node. A
/// root is a link of the root chain, and so stays while any older version is pinned.
fn retire_node(
    roots: &Roots,
    node: Node<'_>,
    is_root: bool,
    writer: &mut Writer<'_>,
) -> Result<(), Error> {
    let (region, header) = (roots.forest.region(), node.header()?);
    roots.note_replacement();
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
    roots: &'f Roots,
    step: &Step<'f>,
    except: Few<usize>,
    writer: &Writer<'_>,
) -> Result<Vec<Item<'f>>, Error> {
    let mut items = Vec::with_capacity(step.order.len() + 1);
    for slot in step.order.iter() {
        let object = Object::from_bits(step.node.entry(slot)?.target.load());
        prefetch(roots.forest.region().get::<tembo_pmem::Word>(object.offset())?);
    }
    for slot in step.order.iter().filter(|&slot| except.iter().all(|other| other != slot)) {
        let seen = step.node.seen(slot)?;
        if writer.view().sees(seen.start, seen.end) {
            let object = Object::from_bits(seen.target);
            let key = match step.order.level {
                0 => Some(read_key(&roots.forest, object)?.into()),
                _ => step.node.high_of(object)?,
            };
            items.push(Item { key, target: seen.target, start: seen.start });
        }
    }
    Ok(items)
}

/// The next living child of the parent, to the right if there is one.
fn sibling<'f>(
    roots: &'f Roots,
    parent: &Step<'f>,
    writer: &Writer<'_>,
) -> Result<Option<(usize, Step<'f>)>, Error> {
    let right = parent.position + 1..parent.order.len();
    for position in right.chain((0..parent.position).rev()) {
        let seen = parent.node.seen(parent.order.slot(position))?;
        if writer.view().sees(seen.start, seen.end) {
            let node = Node::new(&roots.forest, Object::from_bits(seen.target))?;
            let (order, sequence) = node.order()?;
            return Ok(Some((position, Step { node, order, sequence, position: 0 })));
        }
    }
    Ok(None)
}

pub(crate) fn retire(writer: &mut Writer<'_>, object: Object, start: Stamp) {
    if object.to_bits() == 0 {
        return;
    }
    let end = writer.stamp.version();
    writer.retired.push(Retired { object, start: start.version(), end });
}
