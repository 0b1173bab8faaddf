//! Ranges, both ways, leaf by leaf: each leaf is found anew from its neighbour's bound, so no
//! position outlives a change of the tree.

use std::ops::Bound;

use tembo_pool::Object;

use super::Cdds;
use super::bounds::Bounds;
use super::node::Node;
use super::side::Order;
use crate::error::damaged;
use crate::range::Range;
use crate::record::read_record;
use crate::{Direction, Error, KeyValue, View, Visit};

impl Cdds {
    pub(crate) fn scan(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        direction: Direction,
        view: View<'_>,
        visit: &mut Visit<'_>,
    ) -> Result<(), Error> {
        // Where the walk is to go on, and where it ends.
        let mut walk = Range { from, to };
        // The key whose leaf comes next; `None`: the last leaf.
        let mut next: Option<Vec<u8>> = match (direction, from, to) {
            (Direction::Forward, Bound::Included(key) | Bound::Excluded(key), _)
            | (Direction::Backward, _, Bound::Included(key) | Bound::Excluded(key)) => {
                Some(key.to_vec())
            }
            (Direction::Forward, Bound::Unbounded, _) => Some(Vec::new()),
            (Direction::Backward, _, Bound::Unbounded) => None,
        };
        while !walk.is_empty() {
            let (leaf, order, sequence) = self.leaf(next.as_deref(), view)?;
            let Some(bounds) =
                self.visit_leaf(leaf, (order, sequence), &walk, direction, view, visit)?
            else {
                return Ok(());
            };
            let sought = next.as_deref();
            match (direction, bounds.low, bounds.high) {
                (Direction::Forward, _, Some(high)) if sought.is_some_and(|key| key > high) => {
                    return damaged(leaf.object.offset(), "a leaf that covers the key sought");
                }
                (Direction::Backward, Some(low), _) if sought.is_some_and(|key| key <= low) => {
                    return damaged(leaf.object.offset(), "a leaf that covers the key sought");
                }
                (Direction::Forward, _, Some(high)) => {
                    walk.from = Bound::Excluded(high);
                    // The least key above `high`.
                    next = Some([high, &[0]].concat());
                }
                (Direction::Backward, Some(low), _) => {
                    walk.to = Bound::Included(low);
                    next = Some(low.to_vec());
                }
                _ => return Ok(()),
            }
        }
        Ok(())
    }

    /// Visits the leaf's keys; its bounds, or `None` when the visitor has had enough.
    fn visit_leaf<'f>(
        &'f self,
        leaf: Node<'f>,
        (mut order, mut sequence): (Order, u32),
        walk: &Range<'_>,
        direction: Direction,
        view: View<'_>,
        visit: &mut Visit<'_>,
    ) -> Result<Option<Bounds<'f>>, Error> {
        let mut records: Vec<Object> = Vec::with_capacity(order.len());
        loop {
            records.clear();
            for slot in order.iter() {
                let seen = leaf.seen(slot)?;
                if view.sees(seen.start, seen.end) {
                    records.push(Object::from_bits(seen.target));
                }
            }
            if leaf.side.still(sequence) {
                break;
            }
            (order, sequence) = leaf.order()?;
        }
        if direction == Direction::Backward {
            records.reverse();
        }
        for record in records {
            let (key, value): KeyValue<'_> = read_record(self.forest.region(), record)?;
            if walk.contains(key) && !visit(key, value) {
                return Ok(None);
            }
        }
        leaf.bounds().map(Some)
    }
}
