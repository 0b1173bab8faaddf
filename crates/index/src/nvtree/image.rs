//! The image of a leaf: all its elements in the order of keys, for everything that is more than a single search.

mod keys;
mod make;
mod order;
mod ranks;
mod simple;
mod summary;

use std::cmp::Ordering;

#[cfg(test)]
pub(crate) use self::make::make_general;
#[cfg(test)]
pub(crate) use self::simple::make_simple;

pub(crate) use self::keys::Keys;
pub(crate) use self::make::{ORPHANED, make, make_locked};
pub(crate) use self::order::order_of;
pub(crate) use self::summary::set;
use super::history;
use crate::error::damaged;
use crate::key::KeyBytes;
use crate::nvtree::history::Old;
use crate::nvtree::leaf::{Element, Leaf, Meta};
use crate::record::read_key;
use crate::{DeadIntervals, Error, Retained, Stamp};

/// The slot of an element that is in no slot of the leaf.
pub(crate) const NO_SLOT: usize = usize::MAX;

/// An element and where it stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// [`NO_SLOT`] if the element is in the history.
    pub(crate) slot: usize,
    pub(crate) element: Element,
    pub(crate) meta: Meta,
    pub(crate) stamp: Stamp,
}

/// The elements of a leaf.
#[derive(Debug, Default)]
pub(crate) struct LeafImage {
    /// Elements that count, by key and then from the newest to the oldest. The keys have the order of their bytes, or, in an
    /// image that is only [grouped](LeafImage::read_grouped), any.
    pub(crate) seen: Vec<Seen>,
    /// Copies of elements that are in another leaf or in the history: a split or a merge has left them.
    pub(crate) strays: Vec<Seen>,
    /// Slots of elements whose versions never happened.
    pub(crate) dead: Vec<usize>,
    /// Entries of the history, by key and then from the newest to the oldest.
    pub(crate) old: Vec<Old>,
}

impl LeafImage {
    /// Reads a leaf. The caller holds the lock, or checks afterwards that the leaf has not changed meanwhile.
    pub(crate) fn read(leaf: &Leaf<'_>, dead: &DeadIntervals) -> Result<LeafImage, Error> {
        let (mut contents, counting) = LeafImage::sort_out(leaf, dead)?;
        for seen in counting {
            contents.insert(leaf, seen)?;
        }
        contents.set_copies_aside(leaf)?;
        Ok(contents)
    }

    /// As [`read`](LeafImage::read), for a caller that does not need the order of the keys. That takes few looks at records:
    /// where the words of two keys are equal, their hashes mostly differ.
    pub(crate) fn read_grouped(leaf: &Leaf<'_>, dead: &DeadIntervals) -> Result<LeafImage, Error> {
        let (mut contents, counting) = LeafImage::sort_out(leaf, dead)?;
        // An odd element has no word to compare, and a copy in the history is found by its key.
        let has_words =
            contents.old.is_empty() && !counting.iter().any(|seen| seen.element.shape.is_odd());
        let order = if has_words { group_order } else { compare };
        for seen in counting {
            contents.insert_by(leaf, seen, order)?;
        }
        contents.set_copies_aside(leaf)?;
        Ok(contents)
    }

    /// Gives the keys of an image that is only grouped the order of their bytes.
    pub(crate) fn sort(&mut self, leaf: &Leaf<'_>) -> Result<(), Error> {
        std::mem::take(&mut self.seen).into_iter().try_for_each(|seen| self.insert(leaf, seen))
    }

    /// An image without the elements that count, and these.
    fn sort_out(leaf: &Leaf<'_>, dead: &DeadIntervals) -> Result<(LeafImage, Vec<Seen>), Error> {
        let mut contents = LeafImage { old: history::read(leaf)?, ..LeafImage::default() };
        let (bases, high) = (leaf.bases()?, High::of(leaf)?);
        let mut counting = Vec::with_capacity(leaf.slots());
        for slot in 0..leaf.slots() {
            let (element, meta) = leaf.element(slot)?;
            if meta.is_empty() {
                continue;
            }
            let seen = Seen { slot, element, meta, stamp: meta.stamp(bases) };
            if dead.contains(seen.stamp) {
                contents.dead.push(slot);
            } else if high.is_beyond(leaf, &element)? {
                contents.strays.push(seen);
            } else {
                counting.push(seen);
            }
        }
        contents.old.retain(|old| !dead.contains(old.stamp));
        let mut at = 0;
        while at < contents.old.len() {
            if high.is_beyond(leaf, &contents.old[at].element)? {
                contents.old.remove(at);
            } else {
                at += 1;
            }
        }
        Ok((contents, counting))
    }

    pub(super) fn insert(&mut self, leaf: &Leaf<'_>, seen: Seen) -> Result<(), Error> {
        self.insert_by(leaf, seen, compare)
    }

    fn insert_by(&mut self, leaf: &Leaf<'_>, seen: Seen, by: OrderOf) -> Result<(), Error> {
        // This is no library's sort: that may panic if the keys of a damaged leaf have no order.
        let (mut from, mut to) = (0, self.seen.len());
        while from < to {
            let middle = (from + to) / 2;
            let other = &self.seen[middle];
            let order = by(leaf, &other.element, &seen.element)?;
            let order = order.then(seen.stamp.version().cmp(&other.stamp.version()));
            // An element in a slot comes before its copy in the history.
            if order.is_lt() || order.is_eq() && seen.slot == NO_SLOT {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        self.seen.insert(from, seen);
        Ok(())
    }

    /// Moves old elements that the history has too to the strays: they are here only because a change was interrupted.
    fn set_copies_aside(&mut self, leaf: &Leaf<'_>) -> Result<(), Error> {
        let mut at = 0;
        while at < self.seen.len() && !self.old.is_empty() {
            let seen = self.seen[at];
            let mut copied = false;
            for old in self.old.iter().filter(|old| old.stamp == seen.stamp) {
                copied |= compare(leaf, &old.element, &seen.element)?.is_eq();
            }
            if copied {
                self.strays.push(self.seen.remove(at));
            } else {
                at += 1;
            }
        }
        Ok(())
    }

    /// The elements of each key, from the newest to the oldest.
    pub(crate) fn keys<'c>(
        &'c self,
        leaf: &'c Leaf<'_>,
    ) -> impl Iterator<Item = Result<&'c [Seen], Error>> {
        let mut rest = &self.seen[..];
        std::iter::from_fn(move || {
            let first = rest.first()?;
            let mut len = 1;
            while let Some(other) = rest.get(len) {
                match group_order(leaf, &first.element, &other.element) {
                    Ok(Ordering::Equal) => len += 1,
                    Ok(_) => break,
                    Err(error) => return Some(Err(error)),
                }
            }
            let (key, others) = rest.split_at(len);
            rest = others;
            Some(Ok(key))
        })
    }

    /// The image with the entries of the history among the elements.
    pub(crate) fn with_history(mut self, leaf: &Leaf<'_>) -> Result<LeafImage, Error> {
        for old in std::mem::take(&mut self.old) {
            let Old { element, stamp, removed, .. } = old;
            let meta = Meta::of_removal(removed);
            self.insert(leaf, Seen { slot: NO_SLOT, element, meta, stamp })?;
        }
        Ok(self)
    }

    /// The newest elements of keys that only the history has: the versions after them never happened.
    pub(crate) fn orphans(&self, leaf: &Leaf<'_>) -> Result<Vec<Seen>, Error> {
        if self.old.is_empty() {
            return Ok(Vec::new());
        }
        let all =
            LeafImage { seen: self.seen.clone(), old: self.old.clone(), ..LeafImage::default() };
        let all = all.with_history(leaf)?;
        let keys = all.keys(leaf).collect::<Result<Vec<_>, _>>()?;
        let newest = keys.iter().map(|key| key[0]);
        Ok(newest.filter(|seen| seen.slot == NO_SLOT && !seen.meta.is_removed()).collect())
    }

    /// The entries that the history has of a key.
    pub(crate) fn old_of<'c>(
        &'c self,
        leaf: &'c Leaf<'_>,
        element: &'c Element,
    ) -> impl Iterator<Item = &'c Old> {
        self.old
            .iter()
            .filter(move |old| compare(leaf, &old.element, element).is_ok_and(Ordering::is_eq))
    }
}

/// Whether the element at `at` of a key's elements, from the newest to the oldest, is needed by a
/// version that can be read. (A removal is needed only while there is something that it removes.)
pub(crate) fn is_needed(key: &[Seen], at: usize, retained: &Retained) -> bool {
    match at.checked_sub(1) {
        None => true,
        Some(newer) => retained.needs(key[at].stamp.version(), key[newer].stamp.version()),
    }
}

/// An order of two keys of a leaf.
type OrderOf = fn(&Leaf<'_>, &Element, &Element) -> Result<Ordering, Error>;

/// An order of two keys of a leaf in which equal ones, and no others, are equal. Unlike [`compare`] it seldom looks at records:
/// only if the hashes are equal, too.
fn group_order(leaf: &Leaf<'_>, a: &Element, b: &Element) -> Result<Ordering, Error> {
    match (a.long_hash(), b.long_hash()) {
        (Some(one), Some(other)) if a.key == b.key && one != other => Ok(one.cmp(&other)),
        _ => compare(leaf, a, b),
    }
}

/// The order of two keys of a leaf.
pub(crate) fn compare(leaf: &Leaf<'_>, a: &Element, b: &Element) -> Result<Ordering, Error> {
    if a.shape.is_odd() || b.shape.is_odd() {
        return Ok(leaf.key_of(a)?.cmp(&leaf.key_of(b)?));
    }
    if a.key != b.key {
        return Ok(a.key.cmp(&b.key));
    }
    match (a.shape.key_len(), b.shape.key_len()) {
        (Some(a), Some(b)) => Ok(a.cmp(&b)),
        // The words are equal: a key of at most eight bytes is below a longer one.
        (Some(_), None) => Ok(Ordering::Less),
        (None, Some(_)) => Ok(Ordering::Greater),
        (None, None) => match (a.record(), b.record()) {
            (Some(a), Some(b)) if a == b => Ok(Ordering::Equal),
            (Some(a), Some(b)) => {
                let (a, b) = (read_key(leaf.forest, a)?, read_key(leaf.forest, b)?);
                Ok(KeyBytes::from(a).cmp(&b.into()))
            }
            _ => damaged(leaf.offset(), "a record of a long key"),
        },
    }
}

/// The upper end of a leaf's keys.
enum High<'f> {
    Nowhere,
    /// It lies above all keys that have the prefix.
    Above,
    /// It is a key that has the prefix; its head is the second field.
    At(KeyBytes<'f>, u64),
}

impl<'f> High<'f> {
    fn of(leaf: &Leaf<'f>) -> Result<High<'f>, Error> {
        let Some(high) = leaf.high()? else { return Ok(High::Nowhere) };
        Ok(if leaf.prefix()?.with(|prefix| high.starts_with(prefix)) {
            High::At(high, high.head(leaf.prefix_len()?.into()))
        } else {
            High::Above
        })
    }

    fn is_beyond(&self, leaf: &Leaf<'_>, element: &Element) -> Result<bool, Error> {
        match *self {
            High::Nowhere => Ok(false),
            High::Above if !element.shape.is_odd() => Ok(false),
            High::At(_, head) if !element.shape.is_odd() && head != element.key => {
                Ok(element.key > head)
            }
            High::At(high, _) => Ok(high.compare(&leaf.key_of(element)?).is_le()),
            High::Above => {
                let high = leaf.high()?;
                let is_beyond = |key: &[u8]| high.is_some_and(|high| high.compare(key).is_le());
                Ok(leaf.key_of(element).is_ok_and(|key| is_beyond(&key)))
            }
        }
    }
}
