//! Ranges, both ways, leaf by leaf along the list or against it.
//!
//! Between two leaves others go on: what was walked may have been merged with what comes next. So a walk
//! goes on from a key, never from a leaf, and of the leaf in which it finds that key it shows only what it
//! has not shown.

use std::ops::Bound;

use tembo_pool::Object;

use super::prefetcher::Prefetcher;
use crate::error::damaged;
use crate::nvtree::format::SLOTS_MAX;
use crate::nvtree::image::{LeafImage, make, order_of};
use crate::nvtree::leaf::{Element, Leaf, Moment, place_of, read_element};
use crate::nvtree::leaves::{Leaves, Reached, Wanted};
use crate::range::Range;
use crate::record_prefetcher::{NearRecords, RecordPrefetcher, Window};
use crate::{Direction, Error, Value, View, Visit};

/// Which keys a walk shows, which way, and of what.
#[derive(Clone, Copy)]
struct Shows<'k> {
    range: Range<'k>,
    direction: Direction,
    sought: Sought,
}

/// What a walk looks for.
#[derive(Clone, Copy)]
pub(crate) enum Sought {
    /// What the view sees.
    Seen,
    /// Keys that were put or removed in versions above this one, up to that of the view.
    ChangedAfter(u64),
}

/// What a walk shows of a leaf.
struct Shown {
    /// Of a leaf with a history there can be more than its slots.
    elements: Vec<Element>,
    /// The leaf's prefix, and behind it room for the rest of the key being shown.
    key: Vec<u8>,
    /// A key that stands in its record.
    long_key: Vec<u8>,
    window: Window,
    /// The records of the leaf were asked for.
    has_asked: bool,
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
    // The low key of the leaf that comes next.
    let mut high = Vec::with_capacity(64);
    let mut spot: Option<(Leaf<'_>, Moment)> = None;
    let mut prefetcher = Prefetcher::new(leaves);
    // Past the first leaf there is nothing below the range, but for what was merged with it.
    let mut is_inside = matches!(wanted.range.from, Bound::Unbounded);
    loop {
        // Of a leaf that came next `start` is the low key.
        let is_next = spot.is_some();
        let (leaf, moment) = match spot.take() {
            Some(spot) => spot,
            None => leaves
                .leaf_of(Wanted::new(&start))
                .map(|Reached { leaf, moment, .. }| (leaf, moment))?,
        };
        shown.has_asked = match is_next {
            true => prefetcher.go_on(&leaf, &start),
            false => prefetcher.begin(&leaf, &start),
        };
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
        let rest = Shows { range: Range { from, ..wanted.range }, ..*wanted };
        if !shown.visit(&leaf, &rest, Ends { first, last }, visit)? {
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
        // What came next when the leaf was read still does.
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
    // What is below that was not visited; `None`: all of it.
    let mut below: Option<Vec<u8>> = match wanted.range.to {
        // The leaf of the key itself: the least key above it is in the same leaf or begins one.
        Bound::Included(key) => Some([key, &[0]].concat()),
        Bound::Excluded(key) => Some(key.to_vec()),
        Bound::Unbounded => None,
    };
    // Something was visited.
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
        let rest = Shows { range: Range { to, ..wanted.range }, ..*wanted };
        let ends = Ends { first: true, last: true };
        if !shown.visit(&leaf, &rest, ends, visit)? || low.is_empty() || wanted.is_above(&low) {
            return Ok(());
        }
        below = Some(low);
        is_inside = true;
    }
}

impl Shown {
    fn new() -> Shown {
        let (elements, key) = (Vec::with_capacity(SLOTS_MAX), Vec::with_capacity(64));
        let (long_key, window) = Default::default();
        Shown { elements, key, long_key, window, has_asked: false }
    }

    /// Reads what a view sees of a leaf; the moment at which that was, `None`: it has changed.
    fn read(
        &mut self,
        leaf: &Leaf<'_>,
        moment: Moment,
        (view, sought): (View<'_>, Sought),
    ) -> Result<Option<Moment>, Error> {
        self.elements.clear();
        leaf.prefix()?.clone_into(&mut self.key);
        self.key.extend_from_slice(&[0; 8]);
        if let Sought::ChangedAfter(since) = sought {
            if leaf.side.newest() > since {
                self.read_changed(leaf, since, view)?;
            }
            return Ok(Some(moment));
        }
        if leaf.side.newest() > view.version {
            self.read_all(leaf, view)?;
            return Ok(Some(moment));
        }
        let (order, moment) = match leaf.side.order(moment) {
            Some(order) => (order, moment),
            None => {
                let Some(guard) = leaf.side.lock_at(moment) else { return Ok(None) };
                match order_of(leaf, &guard) {
                    Ok(order) => (order, guard.set_order(&order)),
                    Err(error) => {
                        // Damage, at this moment still.
                        guard.unchanged();
                        return Err(error);
                    }
                }
            }
        };
        let lines = leaf.all_lines()?;
        let elements = order.slots().iter().map(|&slot| {
            let (number, at) = place_of(slot.into());
            lines.get(number).map_or(Element::default(), |line| read_element(line, at))
        });
        self.elements.extend(elements);
        Ok(Some(moment))
    }

    /// As `read`, where there is what the view does not see.
    fn read_all(&mut self, leaf: &Leaf<'_>, view: View<'_>) -> Result<(), Error> {
        let contents = LeafImage::read(leaf, view.dead)?.with_history(leaf)?;
        for key in contents.keys(leaf) {
            let seen = key?.iter().find(|seen| seen.stamp.version() <= view.version);
            if let Some(seen) = seen.filter(|seen| !seen.meta.is_removed()) {
                self.elements.push(seen.element);
            }
        }
        Ok(())
    }

    /// An element of each key that has changed after `since`.
    fn read_changed(&mut self, leaf: &Leaf<'_>, since: u64, view: View<'_>) -> Result<(), Error> {
        let contents = LeafImage::read(leaf, view.dead)?.with_history(leaf)?;
        let versions = since + 1..=view.version;
        for key in contents.keys(leaf) {
            let changed = key?.iter().find(|seen| versions.contains(&seen.stamp.version()));
            self.elements.extend(changed.map(|changed| changed.element));
        }
        Ok(())
    }

    /// Shows the keys in the range, as far as `ends` says that there may be others; false: that is
    /// enough.
    fn visit(
        &mut self,
        leaf: &Leaf<'_>,
        wanted: &Shows<'_>,
        ends: Ends,
        visit: &mut Visit<'_>,
    ) -> Result<bool, Error> {
        let Shown { elements, key, long_key, window, has_asked } = self;
        let window = (!*has_asked).then_some(window);
        let (mut from, mut to) = (0, elements.len());
        if ends.first {
            let is_below = |name: &[u8]| !wanted.range.begins_at(name);
            from = position(elements, |element| named(leaf, element, key, is_below))?;
        }
        if ends.last {
            let is_inside = |name: &[u8]| wanted.range.ends_after(name);
            to = position(elements, |element| named(leaf, element, key, is_inside))?;
        }
        let inside = elements.get(from..to).unwrap_or_default();
        match wanted.direction {
            Direction::Forward => show(leaf, inside.iter(), (key, long_key, window), visit),
            Direction::Backward => show(leaf, inside.iter().rev(), (key, long_key, window), visit),
        }
    }
}

/// What `with` says of the key of an element of a leaf. `key` is as for [`show`].
fn named(
    leaf: &Leaf<'_>,
    element: &Element,
    key: &mut [u8],
    with: impl FnOnce(&[u8]) -> bool,
) -> Result<bool, Error> {
    let prefix_len = key.len().saturating_sub(8);
    match (element.shape.key_len(), key.last_chunk_mut::<8>()) {
        (Some(key_len), Some(rest)) if !element.shape.is_odd() => {
            *rest = element.key.to_be_bytes();
            Ok(with(key.get(..prefix_len + key_len).unwrap_or_default()))
        }
        _ => Ok(with(&leaf.key_of(element)?)),
    }
}

/// Shows elements of a leaf until that is enough; whether it was not. In `key` is the leaf's prefix, and room
/// for eight bytes behind it.
#[inline]
fn show<'e>(
    leaf: &Leaf<'_>,
    elements: impl Iterator<Item = &'e Element> + Clone,
    (key, long_key, window): (&mut [u8], &mut Vec<u8>, Option<&mut Window>),
    visit: &mut Visit<'_>,
) -> Result<bool, Error> {
    let prefix_len = key.len().saturating_sub(8);
    let region = leaf.region();
    let all = elements.clone().filter_map(Element::record);
    let records = window.and_then(|window| RecordPrefetcher::new(all.clone(), window, region));
    let mut long = LongEntries { all, near: None, records, key: long_key };
    let mut elements = elements.peekable();
    while let Some(&element) = elements.peek() {
        let Some((key_len, value_len)) = element.shape.simple_lens() else {
            elements.next();
            if !long.show(leaf, element, visit)? {
                return Ok(false);
            }
            continue;
        };
        // The elements of a leaf are mostly of one shape.
        let shape = element.shape;
        let key = key.get_mut(..prefix_len + 8).unwrap_or_default();
        while let Some(element) = elements.next_if(|element| element.shape == shape) {
            if let Some(rest) = key.last_chunk_mut::<8>() {
                *rest = element.key.to_be_bytes();
            }
            let value = Value::copy(element.payload, value_len);
            if !visit(key.get(..prefix_len + key_len).unwrap_or_default(), value) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// The entries of a leaf that are not simple.
struct LongEntries<'w, I> {
    all: I,
    /// None before the first record: few leaves have any.
    near: Option<NearRecords<I>>,
    records: Option<RecordPrefetcher<'w, I>>,
    /// Room for a key that stands in its record.
    key: &'w mut Vec<u8>,
}

impl<I: Iterator<Item = Object> + Clone> LongEntries<'_, I> {
    /// Shows an entry; whether that was not enough. A function of its own: what simple entries need stays in registers.
    #[inline(never)]
    fn show(
        &mut self,
        leaf: &Leaf<'_>,
        element: &Element,
        visit: &mut Visit<'_>,
    ) -> Result<bool, Error> {
        if let Some(record) = element.record() {
            let region = leaf.region();
            let begin = || NearRecords::begin(self.all.clone(), region);
            self.near.get_or_insert_with(begin).come_to_next(region);
            if let Some(records) = &mut self.records {
                records.come_to(record, region);
            }
        }
        let value = leaf.read_entry(element, self.key)?;
        Ok(visit(self.key, value))
    }
}

/// Which ends of the range may lie in a leaf.
#[derive(Clone, Copy)]
struct Ends {
    first: bool,
    last: bool,
}

/// How many elements from the first on are such, of elements of which first some are and then none.
fn position(
    elements: &[Element],
    mut is_such: impl FnMut(&Element) -> Result<bool, Error>,
) -> Result<usize, Error> {
    let (mut from, mut to) = (0, elements.len());
    while from < to {
        let middle = (from + to) / 2;
        if is_such(&elements[middle])? {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    Ok(from)
}
