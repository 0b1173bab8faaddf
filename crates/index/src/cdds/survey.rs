//! What can be reached: the marking half of physical collection, and the census of `check`.

use tembo_pool::Object;

use super::Cdds;
use super::node::Node;
use crate::error::damaged;
use crate::{DeadIntervals, Error, Retained, Stamp, Surveyor, View};

/// A walk over everything that a retained version can reach.
struct Walk<'w> {
    retained: &'w Retained,
    dead: &'w DeadIntervals,
    surveyor: &'w mut dyn Surveyor,
    /// Reached in older versions only; visited after what the visible version reaches.
    later: Vec<Object>,
}

impl Walk<'_> {
    fn view(&self) -> View<'_> {
        View { version: self.retained.visible(), dead: self.dead }
    }
}

impl Cdds {
    pub(crate) fn walk(
        &self,
        retained: &Retained,
        dead: &DeadIntervals,
        surveyor: &mut dyn Surveyor,
    ) -> Result<(), Error> {
        surveyor.reachable(self.cell_object)?;
        let mut walk = Walk { retained, dead, surveyor, later: Vec::new() };
        let current = self.root(walk.view())?.object;
        self.walk_node(current, None, true, &mut walk)?;
        let links = self.walk_older_roots(&mut walk)?;
        while let Some(node) = walk.later.pop() {
            self.walk_node(node, None, false, &mut walk)?;
        }
        for link in links {
            walk.surveyor.reachable(link)?;
            self.walk_bounds(Node::new(&self.forest, link)?, &mut walk)?;
        }
        Ok(())
    }

    /// Notes the roots that readers of pinned versions start from; returns those that are but links
    /// of the chain on the way to them.
    fn walk_older_roots(&self, walk: &mut Walk<'_>) -> Result<Vec<Object>, Error> {
        let mut links = Vec::new();
        let mut object = Object::from_bits(self.cell()?.root.load());
        let (mut until, mut younger) = (u64::MAX, u64::MAX);
        loop {
            let node = Node::new(&self.forest, object)?;
            let since = Stamp::from_bits(node.header()?.root_since.load());
            if !walk.dead.contains(since) {
                if walk.retained.needs(since.version(), until) {
                    walk.later.push(object);
                } else {
                    links.push(object);
                }
                until = since.version();
            } else {
                links.push(object);
            }
            if since.is_none() || until <= walk.retained.horizon() {
                return Ok(links);
            }
            object = Object::from_bits(node.header()?.older_root.load());
            if object.to_bits() == 0 || since.version() >= younger {
                return damaged(node.object.offset(), "an older root");
            }
            self.forest.pool().valid(object)?;
            younger = since.version();
        }
    }

    fn walk_node(
        &self,
        object: Object,
        level: Option<u8>,
        current: bool,
        walk: &mut Walk<'_>,
    ) -> Result<(), Error> {
        self.forest.pool().valid(object)?;
        if object.size() != u64::from(self.forest.pool().geometry().node_size) {
            return damaged(object.offset(), "an object as large as a node");
        }
        if !walk.surveyor.reachable(object)? {
            return Ok(());
        }
        let node = Node::new(&self.forest, object)?;
        let shape = node.check_shape()?;
        if level.is_some_and(|level| level != shape.level) {
            return damaged(object.offset(), "a node one level below its parent");
        }
        self.walk_bounds(node, walk)?;
        let death = node.death(walk.dead)?;
        let mut unclean = walk.dead.contains(Stamp::from_bits(node.header()?.death.load()));
        for seen in node.all_seen()? {
            unclean |= !seen.start.is_none()
                && (walk.dead.contains(seen.start) || walk.dead.contains(seen.end));
            if seen.is_needed(death, walk.dead, walk.retained) {
                let sees = current && walk.view().sees(seen.start, seen.end);
                self.walk_entry(Object::from_bits(seen.target), shape.level, sees, walk)?;
            }
        }
        if unclean {
            walk.surveyor.unclean(object);
        }
        Ok(())
    }

    fn walk_bounds(&self, node: Node<'_>, walk: &mut Walk<'_>) -> Result<(), Error> {
        let bounds = Object::from_bits(node.header()?.bounds.load());
        if bounds.to_bits() != 0 {
            self.forest.pool().valid(bounds)?;
            walk.surveyor.reachable(bounds)?;
        }
        Ok(())
    }

    fn walk_entry(
        &self,
        target: Object,
        level: u8,
        current: bool,
        walk: &mut Walk<'_>,
    ) -> Result<(), Error> {
        if level == 0 {
            self.forest.pool().valid(target)?;
            walk.surveyor.reachable(target)?;
            if current {
                walk.surveyor.live_entry();
            }
            return Ok(());
        }
        if current {
            return self.walk_node(target, Some(level - 1), true, walk);
        }
        walk.later.push(target);
        Ok(())
    }
}
