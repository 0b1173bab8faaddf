//! Marks what can be reached: the marking half of physical collection, and the census of `check`.

use tembo_pool::Object;

use crate::cdds::node::Node;
use crate::cdds::roots::Roots;
use crate::error::damaged;
use crate::{DeadIntervals, Error, Retained, Stamp, TreeMarker, View};

/// A walk over everything that a retained version can reach.
struct Marking<'w> {
    retained: &'w Retained,
    dead: &'w DeadIntervals,
    marker: &'w mut dyn TreeMarker,
    /// Nodes that only older versions reach. They are visited after those of the visible version.
    later: Vec<Object>,
}

impl Marking<'_> {
    fn view(&self) -> View<'_> {
        View { version: self.retained.visible(), dead: self.dead }
    }
}

pub(crate) fn mark(
    roots: &Roots,
    retained: &Retained,
    dead: &DeadIntervals,
    marker: &mut dyn TreeMarker,
) -> Result<(), Error> {
    marker.reachable(roots.cell_object)?;
    let mut marking = Marking { retained, dead, marker, later: Vec::new() };
    let current = roots.root(marking.view())?.object;
    mark_node(roots, current, None, true, &mut marking)?;
    let links = mark_older_roots(roots, &mut marking)?;
    while let Some(node) = marking.later.pop() {
        mark_node(roots, node, None, false, &mut marking)?;
    }
    for link in links {
        marking.marker.reachable(link)?;
        mark_bounds(roots, Node::new(&roots.forest, link)?, &mut marking)?;
    }
    Ok(())
}

/// Notes the roots from which readers of pinned versions start. Returns those that are only links of the chain on the
/// way to them.
fn mark_older_roots(roots: &Roots, marking: &mut Marking<'_>) -> Result<Vec<Object>, Error> {
    let mut links = Vec::new();
    let mut object = Object::from_bits(roots.cell()?.root.load());
    let (mut until, mut younger) = (u64::MAX, u64::MAX);
    loop {
        let node = Node::new(&roots.forest, object)?;
        let since = Stamp::from_bits(node.header()?.root_since.load());
        if !marking.dead.contains(since) {
            if marking.retained.needs(since.version(), until) {
                marking.later.push(object);
            } else {
                links.push(object);
            }
            until = since.version();
        } else {
            links.push(object);
        }
        if since.is_none() || until <= marking.retained.horizon() {
            return Ok(links);
        }
        object = Object::from_bits(node.header()?.older_root.load());
        if object.to_bits() == 0 || since.version() >= younger {
            return damaged(node.object.offset(), "an older root");
        }
        roots.forest.pool().valid(object)?;
        younger = since.version();
    }
}

fn mark_node(
    roots: &Roots,
    object: Object,
    level: Option<u8>,
    current: bool,
    marking: &mut Marking<'_>,
) -> Result<(), Error> {
    roots.forest.pool().valid(object)?;
    if object.size() != u64::from(roots.forest.pool().geometry().node_size) {
        return damaged(object.offset(), "an object as large as a node");
    }
    if !marking.marker.reachable(object)? {
        return Ok(());
    }
    let node = Node::new(&roots.forest, object)?;
    let shape = node.check_shape()?;
    if level.is_some_and(|level| level != shape.level) {
        return damaged(object.offset(), "a node one level below its parent");
    }
    mark_bounds(roots, node, marking)?;
    let death = death(node, marking.dead)?;
    let mut unclean = marking.dead.contains(Stamp::from_bits(node.header()?.death.load()));
    let all = node.all_seen()?;
    if shape.level > 0 && roots.forest.region().reads_alone() {
        // All of them are asked for first, so that the disk reads their pages side by side.
        let needed =
            all.iter().filter(|seen| seen.is_needed(death, marking.dead, marking.retained));
        needed.map(|seen| Object::from_bits(seen.target)).for_each(|child| {
            roots.forest.region().will_read(child.offset(), child.size());
        });
    }
    for seen in all {
        unclean |= !seen.start.is_none()
            && (marking.dead.contains(seen.start) || marking.dead.contains(seen.end));
        if seen.is_needed(death, marking.dead, marking.retained) {
            let sees = current && marking.view().sees(seen.start, seen.end);
            mark_entry(roots, Object::from_bits(seen.target), shape.level, sees, marking)?;
        }
    }
    if unclean {
        marking.marker.unclean(object);
    }
    Ok(())
}

/// The version up to which the entries of a node count.
///
/// A tree all of whose changes have one version, as a transaction's own tree, is changed while it is marked. A walk that comes
/// to a node which was replaced in the version of its making has read the parent before, so it does not come to the nodes that
/// took the place: the entries count as if the node were there still. It has them as they were, and its space is not given back
/// before the marking ends.
fn death(node: Node<'_>, dead: &DeadIntervals) -> Result<u64, Error> {
    let death = node.death(dead)?;
    Ok(if death == node.birth()?.version() { u64::MAX } else { death })
}

fn mark_bounds(roots: &Roots, node: Node<'_>, marking: &mut Marking<'_>) -> Result<(), Error> {
    let bounds = Object::from_bits(node.header()?.bounds.load());
    if bounds.to_bits() != 0 {
        roots.forest.pool().valid(bounds)?;
        marking.marker.reachable(bounds)?;
    }
    Ok(())
}

fn mark_entry(
    roots: &Roots,
    target: Object,
    level: u8,
    current: bool,
    marking: &mut Marking<'_>,
) -> Result<(), Error> {
    if level == 0 {
        roots.forest.pool().valid(target)?;
        marking.marker.reachable(target)?;
        if current {
            marking.marker.live_entry();
        }
        return Ok(());
    }
    if current {
        return mark_node(roots, target, Some(level - 1), true, marking);
    }
    marking.later.push(target);
    Ok(())
}
