//! Ranges, both ways, leaf by leaf along the list or against it.
//!
//! Other threads go on between two leaves: a leaf that was walked may have been merged with the next one. So a walk
//! goes on from a key, never from a leaf, and shows only those elements of the leaf with that key that it has not shown
//! before.

use std::ops::Bound;

use super::prefetcher::Prefetcher;
use super::shown::{Ends, Shown, Sought};
use crate::error::damaged;
use crate::nvtree::image::make;
use crate::nvtree::leaf::{Leaf, Moment};
use crate::nvtree::leaves::{Leaves, Reached, Wanted};
use crate::range::Range;
use crate::{Direction, Error, View, Visit};

/// What a walk shows: the range of keys, the direction, and which elements.
#[derive(Clone, Copy)]
struct Shows<'k> {
    range: Range<'k>,
    direction: Direction,
    sought: Sought,
}

impl Shows<'_> {
    /// Whether no key of a leaf with that low key can be in the range.
    fn is_below(&self, low: &[u8]) -> bool {
        match self.range.to {
            Bound::Included(to) => low > to,
            Bound::Excluded(to) => low >= to,
            Bound::Unbounded => false,
        }
    }

    /// Whether every key below that one is not above the range.
    fn is_wholly_below(&self, high: &[u8]) -> bool {
        match self.range.to {
            Bound::Included(to) | Bound::Excluded(to) => high <= to,
            Bound::Unbounded => true,
        }
    }

    /// Whether no key below that low key can be in the range.
    fn is_above(&self, low: &[u8]) -> bool {
        match self.range.from {
            Bound::Included(from) | Bound::Excluded(from) => from >= low,
            Bound::Unbounded => low.is_empty(),
        }
    }
}

pub(crate) fn scan(
    leaves: &Leaves,
    from: Bound<&[u8]>,
    to: Bound<&[u8]>,
    direction: Direction,
    (view, sought): (View<'_>, Sought),
    visit: &mut Visit<'_>,
) -> Result<(), Error> {
    let wanted = Shows { range: Range { from, to }, direction, sought };
    if wanted.range.is_empty() {
        return Ok(());
    }
    match direction {
        Direction::Forward => scan_forward(leaves, &wanted, view, visit),
        Direction::Backward => scan_backward(leaves, &wanted, view, visit),
    }
}

fn scan_forward(
    leaves: &Leaves,
    wanted: &Shows<'_>,
    view: View<'_>,
    visit: &mut Visit<'_>,
) -> Result<(), Error> {
    let mut shown = Shown::new();
    let mut start: Vec<u8> = match wanted.range.from {
        Bound::Included(key) | Bound::Excluded(key) => key.to_vec(),
        Bound::Unbounded => Vec::new(),
    };
    // The low key of the leaf that comes next, once it is known.
    let mut high = Vec::with_capacity(64);
    let mut spot: Option<(Leaf<'_>, Moment)> = None;
    let mut prefetcher = Prefetcher::new(leaves);
    // Past the first leaf no element is below the range, except those that a merge has brought.
    let mut is_inside = matches!(wanted.range.from, Bound::Unbounded);
    loop {
        // `start` is the low key of a leaf that came next.
        let is_next = spot.is_some();
        let (leaf, moment) = match spot.take() {
            Some(spot) => spot,
            None => leaves
                .leaf_of(Wanted::new(&start))
                .map(|Reached { leaf, moment, .. }| (leaf, moment))?,
        };
        shown.set_asked(match is_next {
            true => prefetcher.go_on(&leaf, &start),
            false => prefetcher.begin(&leaf, &start),
        });
        let read = shown
            .read(&leaf, moment, (view, wanted.sought))
            .and_then(|moment| leaf.next().map(|next| (moment, next)));
        let (moment, next) = match read {
            Ok((Some(moment), next)) if leaf.side.still(moment) => (moment, next),
            Err(error) if leaf.side.still(moment) => return Err(error),
            _ => continue,
        };
        let last = match &next {
            Some(next) => {
                next.low()?.clone_into(&mut high);
                !wanted.is_wholly_below(&high)
            }
            None => !matches!(wanted.range.to, Bound::Unbounded),
        };
        let from = if is_inside { Bound::Included(&start[..]) } else { wanted.range.from };
        let first = !is_inside || !is_next && leaf.low()?.compare(&start).is_lt();
        let rest = Range { from, ..wanted.range };
        if !shown.visit(&leaf, (rest, wanted.direction), Ends { first, last }, visit)? {
            return Ok(());
        }
        is_inside = true;
        let Some(next) = next else { return Ok(()) };
        if wanted.is_below(&high) {
            return Ok(());
        }
        if high <= start {
            return damaged(next.offset(), "leaves in the order of their low keys");
        }
        std::mem::swap(&mut start, &mut high);
        let Some(next_moment) = next.side.begin(leaves.forest.dead_epoch()) else {
            make(&next)?;
            continue;
        };
        // The next leaf is still the one that was next when the leaf was read.
        if leaf.side.still(moment) {
            spot = Some((next, next_moment));
        }
    }
}

fn scan_backward(
    leaves: &Leaves,
    wanted: &Shows<'_>,
    view: View<'_>,
    visit: &mut Visit<'_>,
) -> Result<(), Error> {
    let mut shown = Shown::new();
    // Keys below this one were not visited. `None`: no key was visited.
    let mut below: Option<Vec<u8>> = match wanted.range.to {
        // The leaf of the key itself: the least key above it is in the same leaf or begins one.
        Bound::Included(key) => Some([key, &[0]].concat()),
        Bound::Excluded(key) => Some(key.to_vec()),
        Bound::Unbounded => None,
    };
    // A key was visited.
    let mut is_inside = false;
    loop {
        let Some((id, token)) = leaves.leaf_below(below.as_deref())? else { return Ok(()) };
        let leaf = Leaf::at(&leaves.forest, id)?;
        let Some(moment) = leaf.side.begin(leaves.forest.dead_epoch()) else {
            make(&leaf)?;
            continue;
        };
        let read = shown
            .read(&leaf, moment, (view, wanted.sought))
            .and_then(|moment| Ok((moment, token.still(), leaf.low()?)));
        let low = match read {
            Ok((Some(moment), true, low)) if leaf.side.still(moment) => low,
            Err(error) if leaf.side.still(moment) => return Err(error),
            _ => continue,
        };
        let low = low.to_vec();
        if below.as_ref().is_some_and(|below| low >= *below) {
            return damaged(leaf.offset(), "a low key below that of the next leaf");
        }
        let to = match &below {
            Some(below) if is_inside => Bound::Excluded(&below[..]),
            _ => wanted.range.to,
        };
        let rest = (Range { to, ..wanted.range }, wanted.direction);
        let ends = Ends { first: true, last: true };
        if !shown.visit(&leaf, rest, ends, visit)? || low.is_empty() || wanted.is_above(&low) {
            return Ok(());
        }
        below = Some(low);
        is_inside = true;
    }
}
