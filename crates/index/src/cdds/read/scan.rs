//! Ranges, both ways, leaf by leaf: each leaf is found anew from its neighbour's bound, so no
//! position outlives a change of the tree.

use std::ops::Bound;

use tembo_pool::Object;

use crate::cdds::node::{Bounds, Node, Order};
use crate::cdds::roots::{Found, Roots};
use crate::error::damaged;
use crate::key::KeyBytes;
use crate::range::Range;
use crate::record::{read_unverified, verify_once};
use crate::{Direction, Error, Value, View, Visit};

/// Receives each key and its record; returns false to end the walk.
type VisitRecord<'v> = dyn FnMut(&[u8], Found<'_>) -> bool + 'v;

pub(crate) fn scan(
    roots: &Roots,
    from: Bound<&[u8]>,
    to: Bound<&[u8]>,
    direction: Direction,
    view: View<'_>,
    visit: &mut Visit<'_>,
) -> Result<(), Error> {
    scan_records(roots, (from, to), direction, view, &mut |key, found| {
        visit(key, Value::in_pool(found.value))
    })
}

pub(crate) fn scan_records(
    roots: &Roots,
    (from, to): (Bound<&[u8]>, Bound<&[u8]>),
    direction: Direction,
    view: View<'_>,
    visit: &mut VisitRecord<'_>,
) -> Result<(), Error> {
    // Where the walk is to go on, and where it ends.
    let (mut wanted, mut reached): (_, Vec<u8>);
    wanted = Range { from, to };
    // The key whose leaf comes next; `None`: the last leaf.
    let mut next: Option<Vec<u8>> = match (direction, from, to) {
        (Direction::Forward, Bound::Included(key) | Bound::Excluded(key), _)
        | (Direction::Backward, _, Bound::Included(key) | Bound::Excluded(key)) => {
            Some(key.to_vec())
        }
        (Direction::Forward, Bound::Unbounded, _) => Some(Vec::new()),
        (Direction::Backward, _, Bound::Unbounded) => None,
    };
    while !wanted.is_empty() {
        let (leaf, order, sequence) = roots.leaf(next.as_deref(), view)?;
        let Some(bounds) =
            visit_leaf(roots, leaf, (order, sequence), &wanted, direction, view, visit)?
        else {
            return Ok(());
        };
        let sought = next.as_deref();
        let end = match direction {
            Direction::Forward => bounds.high,
            Direction::Backward => bounds.low,
        };
        let Some(end) = end else { return Ok(()) };
        let is_outside = |key: &[u8]| match direction {
            Direction::Forward => end.compare(key).is_lt(),
            Direction::Backward => end.compare(key).is_ge(),
        };
        if sought.is_some_and(is_outside) {
            return damaged(leaf.object.offset(), "a leaf that covers the key sought");
        }
        reached = end.to_vec();
        match direction {
            Direction::Forward => {
                // The least key above the end.
                next = Some([&reached[..], &[0]].concat());
                wanted = Range { from: Bound::Excluded(&reached), to };
            }
            Direction::Backward => {
                next = Some(reached.clone());
                wanted = Range { from, to: Bound::Included(&reached) };
            }
        }
    }
    Ok(())
}

/// Visits the leaf's keys; its bounds, or `None` when the visitor has had enough.
fn visit_leaf<'f>(
    roots: &'f Roots,
    leaf: Node<'f>,
    (mut order, mut sequence): (Order, u32),
    wanted: &Range<'_>,
    direction: Direction,
    view: View<'_>,
    visit: &mut VisitRecord<'_>,
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
    let mut copy = Vec::new();
    for record in records {
        let (key, value) = read_unverified(&roots.forest, record)?;
        KeyBytes::from(key).clone_into(&mut copy);
        if wanted.contains(&copy) {
            verify_once(&roots.forest, record)?;
            if !visit(&copy, Found { record, value }) {
                return Ok(None);
            }
        }
    }
    leaf.bounds().map(Some)
}
