//! Ranges, both ways, leaf by leaf: each leaf is found anew from its neighbour's bound, so no
//! position outlives a change of the tree.

use std::mem::MaybeUninit;
use std::ops::Bound;

use tembo_pool::Object;

use super::leaf_prefetcher::LeafPrefetcher;
use crate::cdds::node::{Node, Order};
use crate::cdds::roots::{Found, Roots};
use crate::error::damaged;
use crate::key::KeyBytes;
use crate::range::Range;
use crate::record::{read_key, read_unverified, verify_once};
use crate::record_prefetcher::{RecordPrefetcher, Window};
use crate::{Direction, Error, Forest, Value, View, Visit};

/// Records that are prefetched while one is visited.
const PREFETCHED: usize = 6;

/// Longer keys are copied to the heap.
const SHORT: usize = 64;

/// Memory that a scan uses for one leaf after the other.
#[derive(Default)]
struct Room {
    /// The records that the view sees in a leaf, in the order in which they are visited.
    records: Vec<Object>,
    /// A key that is not short.
    key: Vec<u8>,
    window: Window,
}

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

/// Calls `visit` with each key and its record, until it returns false.
#[inline]
pub(crate) fn scan_records(
    roots: &Roots,
    (from, to): (Bound<&[u8]>, Bound<&[u8]>),
    direction: Direction,
    view: View<'_>,
    visit: &mut impl FnMut(&[u8], Found<'_>) -> bool,
) -> Result<(), Error> {
    let (mut room, mut leaves) = (Room::default(), LeafPrefetcher::new(direction));
    // The key from which the walk goes on, and the key at which it ends.
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
        room.read(leaf, (order, sequence), direction, view)?;
        leaves.come_to(roots, next.as_deref(), view);
        if !room.visit(roots, &wanted, direction, visit)? {
            return Ok(());
        }
        let bounds = leaf.bounds()?;
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

impl Room {
    /// Reads the records that the view sees in a leaf.
    fn read(
        &mut self,
        leaf: Node<'_>,
        (mut order, mut sequence): (Order, u32),
        direction: Direction,
        view: View<'_>,
    ) -> Result<(), Error> {
        self.records.reserve(order.len());
        loop {
            self.records.clear();
            for slot in order.iter() {
                let seen = leaf.seen(slot)?;
                if view.sees(seen.start, seen.end) {
                    self.records.push(Object::from_bits(seen.target));
                }
            }
            if leaf.side.still(sequence) {
                break;
            }
            (order, sequence) = leaf.order()?;
        }
        if direction == Direction::Backward {
            self.records.reverse();
        }
        Ok(())
    }

    /// Visits the keys in the range. Returns false if the visitor has had enough.
    #[inline]
    fn visit(
        &mut self,
        roots: &Roots,
        wanted: &Range<'_>,
        direction: Direction,
        visit: &mut impl FnMut(&[u8], Found<'_>) -> bool,
    ) -> Result<bool, Error> {
        let forest = &*roots.forest;
        let (first, is_searched) = match first_inside(forest, &self.records, wanted, direction) {
            Ok(first) => (first, true),
            // A corrupt key says nothing of the order: all keys are compared.
            Err(Error::Corrupt { .. }) => (0, false),
            Err(error) => return Err(error),
        };
        let ends = match direction {
            Direction::Forward => !matches!(wanted.to, Bound::Unbounded),
            Direction::Backward => !matches!(wanted.from, Bound::Unbounded),
        };
        let is_compared = ends || !is_searched;
        let mut short = [MaybeUninit::uninit(); SHORT];
        let later = self.records.iter().copied().skip(first);
        let mut records = RecordPrefetcher::new(later, &mut self.window, forest.region());
        for (index, &record) in self.records.iter().enumerate().skip(first) {
            if let Some(records) = &mut records {
                records.come_to(record, forest.region());
            }
            if let Some(later) = self.records.get(index + PREFETCHED) {
                forest.region().prefetch(later.offset());
            }
            let (key, value) = read_unverified(forest, record)?;
            let key: &[u8] = match short.get_mut(..key.len()) {
                Some(short) => key.copy_to_uninit(short),
                None => {
                    KeyBytes::from(key).clone_into(&mut self.key);
                    &self.key
                }
            };
            if is_compared && !wanted.contains(key) {
                continue;
            }
            verify_once(forest, record)?;
            if !visit(key, Found { record, value }) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The index of the first record, in the order in which they are visited, that lies in the range or behind its begin.
///
/// # Errors
/// [`Error::Corrupt`]: one that was compared is damaged.
fn first_inside(
    forest: &Forest,
    records: &[Object],
    wanted: &Range<'_>,
    direction: Direction,
) -> Result<usize, Error> {
    let is_before = |record: Object| -> Result<bool, Error> {
        verify_once(forest, record)?;
        let key = KeyBytes::from(read_key(forest, record)?);
        Ok(key.with(|key| match direction {
            Direction::Forward => !wanted.begins_at(key),
            Direction::Backward => !wanted.ends_after(key),
        }))
    };
    // Behind the first leaf all records lie behind the begin, but for those that a merge has brought.
    let Some(&first) = records.first() else { return Ok(0) };
    let is_open = match direction {
        Direction::Forward => matches!(wanted.from, Bound::Unbounded),
        Direction::Backward => matches!(wanted.to, Bound::Unbounded),
    };
    if is_open || !is_before(first)? {
        return Ok(0);
    }
    let (mut from, mut to) = (1, records.len());
    while from < to {
        let middle = (from + to) / 2;
        if is_before(records[middle])? {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    Ok(from)
}
