//! What a walk shows of a leaf. It is copied at one moment and shown after that, because the visitor may take long.
//!
//! In most leaves the elements are alike: keys and values are short, and of the same lengths. From such a leaf pairs of
//! words are copied, without a look at the shape of each element.

use tembo_pool::Object;

use crate::nvtree::format::{Pair, SLOTS_MAX};
use crate::nvtree::image::{LeafImage, order_of};
use crate::nvtree::leaf::{Element, Leaf, Moment, Order, Shape, read_element};
use crate::range::Range;
use crate::record_prefetcher::{NearRecords, RecordPrefetcher, Window};
use crate::{Direction, Error, Value, View, Visit};

/// Which elements a walk shows.
#[derive(Clone, Copy)]
pub(crate) enum Sought {
    /// Those that the view sees.
    Seen,
    /// Keys that were put or removed in versions above this one, up to that of the view.
    ChangedAfter(u64),
}

/// The elements of a leaf that a walk shows.
pub(super) struct Shown {
    /// The elements. A leaf with a history can have more than it has slots.
    elements: Vec<Element>,
    /// The elements instead, if they are alike.
    alike: Alike,
    /// The leaf's prefix, and behind it room for the rest of the key being shown.
    key: Vec<u8>,
    /// The key being shown, if it stands in a record.
    long_key: Vec<u8>,
    window: Window,
    /// Whether the records of the leaf were asked for.
    has_asked: bool,
}

/// Elements of one simple shape.
struct Alike {
    /// Their shape. `None`: the elements of the leaf are not alike.
    shape: Option<Shape>,
    pairs: [(u64, u64); SLOTS_MAX],
    count: usize,
}

/// Which ends of the range may lie in a leaf.
#[derive(Clone, Copy)]
pub(super) struct Ends {
    pub(super) first: bool,
    pub(super) last: bool,
}

impl Shown {
    pub(super) fn new() -> Shown {
        let alike = Alike { shape: None, pairs: [(0, 0); SLOTS_MAX], count: 0 };
        let (elements, long_key, window) = Default::default();
        let key = Vec::with_capacity(64);
        Shown { elements, alike, key, long_key, window, has_asked: false }
    }

    /// Notes whether all records of the leaf that is read next were asked for.
    pub(super) fn set_asked(&mut self, has_asked: bool) {
        self.has_asked = has_asked;
    }

    /// Reads what a view sees of a leaf. Returns the moment at which it was so. `None`: the leaf has changed meanwhile.
    pub(super) fn read(
        &mut self,
        leaf: &Leaf<'_>,
        moment: Moment,
        (view, sought): (View<'_>, Sought),
    ) -> Result<Option<Moment>, Error> {
        self.elements.clear();
        self.alike.shape = None;
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
                        // The leaf is damaged, and has not changed since this moment.
                        guard.unchanged();
                        return Err(error);
                    }
                }
            }
        };
        match order.alike() {
            Some(shape) => self.alike.read(shape, &order, leaf.all_pairs()?),
            None => {
                let lines = leaf.all_lines()?;
                self.elements.extend(order.places().map(|place| {
                    let (number, at) = place.in_line();
                    lines.get(number).map_or(Element::default(), |line| read_element(line, at))
                }));
            }
        }
        Ok(Some(moment))
    }

    /// As `read`, for a leaf with elements that the view does not see.
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

    /// Reads an element of each key that has changed after `since`.
    fn read_changed(&mut self, leaf: &Leaf<'_>, since: u64, view: View<'_>) -> Result<(), Error> {
        let contents = LeafImage::read(leaf, view.dead)?.with_history(leaf)?;
        let versions = since + 1..=view.version;
        for key in contents.keys(leaf) {
            let changed = key?.iter().find(|seen| versions.contains(&seen.stamp.version()));
            self.elements.extend(changed.map(|changed| changed.element));
        }
        Ok(())
    }

    /// Shows the keys in the range. `ends` says which ends of the range may lie in the leaf. Returns false if the visitor
    /// has had enough.
    pub(super) fn visit(
        &mut self,
        leaf: &Leaf<'_>,
        (range, direction): (Range<'_>, Direction),
        ends: Ends,
        visit: &mut Visit<'_>,
    ) -> Result<bool, Error> {
        let Shown { elements, alike, key, long_key, window, has_asked } = self;
        if let Some((key_len, value_len)) = alike.shape.and_then(Shape::simple_lens) {
            let key_len = key.len().saturating_sub(8) + key_len;
            return Ok(alike.visit((key, key_len), value_len, (range, direction), ends, visit));
        }
        let window = (!*has_asked).then_some(window);
        let (mut from, mut to) = (0, elements.len());
        if ends.first {
            let is_below = |name: &[u8]| !range.begins_at(name);
            from = position(elements, |element| named(leaf, element, key, is_below))?;
        }
        if ends.last {
            let is_inside = |name: &[u8]| range.ends_after(name);
            to = position(elements, |element| named(leaf, element, key, is_inside))?;
        }
        let inside = elements.get(from..to).unwrap_or_default();
        match direction {
            Direction::Forward => show(leaf, inside.iter(), (key, long_key, window), visit),
            Direction::Backward => show(leaf, inside.iter().rev(), (key, long_key, window), visit),
        }
    }
}

impl Alike {
    /// Copies the elements of a leaf, all of that shape.
    #[inline]
    fn read(&mut self, shape: Shape, order: &Order, leaf: &[Pair]) {
        let places = order.places();
        (self.shape, self.count) = (Some(shape), places.len());
        for (pair, place) in self.pairs.iter_mut().zip(places) {
            *pair = place.words(leaf);
        }
    }

    /// As [`Shown::visit`]. `key` has the length that all keys have.
    fn visit(
        &self,
        (key, key_len): (&mut [u8], usize),
        value_len: usize,
        (range, direction): (Range<'_>, Direction),
        ends: Ends,
        visit: &mut Visit<'_>,
    ) -> bool {
        let pairs = self.pairs.get(..self.count).unwrap_or_default();
        let (mut from, mut to) = (0, pairs.len());
        if ends.first {
            from = pairs.partition_point(|&(word, _)| !range.begins_at(name(key, key_len, word)));
        }
        if ends.last {
            to = pairs.partition_point(|&(word, _)| range.ends_after(name(key, key_len, word)));
        }
        let mut show = |&(word, payload): &(u64, u64)| {
            visit(name(key, key_len, word), Value::copy(payload, value_len))
        };
        let inside = pairs.get(from..to).unwrap_or_default();
        match direction {
            Direction::Forward => inside.iter().all(&mut show),
            Direction::Backward => inside.iter().rev().all(&mut show),
        }
    }
}

/// A key of `len` bytes. Its last bytes, up to eight, are in the word. `key` is as for [`show`].
#[inline(always)]
fn name(key: &mut [u8], len: usize, word: u64) -> &[u8] {
    if let Some(rest) = key.last_chunk_mut::<8>() {
        *rest = word.to_be_bytes();
    }
    key.get(..len).unwrap_or_default()
}

/// Calls `with` with the key of an element of a leaf, and returns the result. `key` is as for [`show`].
fn named(
    leaf: &Leaf<'_>,
    element: &Element,
    key: &mut [u8],
    with: impl FnOnce(&[u8]) -> bool,
) -> Result<bool, Error> {
    let prefix_len = key.len().saturating_sub(8);
    match element.shape.key_len() {
        Some(key_len) if !element.shape.is_odd() => {
            Ok(with(name(key, prefix_len + key_len, element.key)))
        }
        _ => Ok(with(&leaf.key_of(element)?)),
    }
}

/// Shows elements of a leaf until the visitor has had enough; returns false then. `key` has the leaf's prefix, and room
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
        elements.next();
        let value = Value::copy(element.payload, value_len);
        if !visit(name(key, prefix_len + key_len, element.key), value) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The entries of a leaf that are not simple.
struct LongEntries<'w, I> {
    all: I,
    /// Prefetches records. `None` before the first record: few leaves have any.
    near: Option<NearRecords<I>>,
    records: Option<RecordPrefetcher<'w, I>>,
    /// Room for a key that stands in its record.
    key: &'w mut Vec<u8>,
}

impl<I: Iterator<Item = Object> + Clone> LongEntries<'_, I> {
    /// Shows an entry. Returns false if the visitor has had enough. It is not inlined, so that the values that simple
    /// entries need stay in registers.
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

/// How many of the first elements satisfy the condition, where none satisfies it behind the first that does not.
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
