//! Finding a key: its leaf through the inner nodes, its slot by fingerprint.

use tembo_pmem::prefetch;

use super::NvTree;
use super::element::{Element, Meta, Shape};
use super::format::Line;
use super::image::{make, place_of};
use super::leaf::{Leaf, Placed, read_of};
use super::prints::{Prints, Slots, all_slots, line, print};
use super::side::{Moment, Traits};
use super::{history, prints};
use crate::head::head;
use crate::{Error, Stamp, Value, View};

/// Lines of a record that are asked for; of those that follow the processor thinks itself.
const RECORD_LINES: u64 = 4;

/// A key that is looked for.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'k> {
    pub(crate) key: &'k [u8],
    /// Its first eight bytes.
    head: u64,
    pub(crate) hash: u64,
}

/// A key as the elements of a leaf have it, all of whose keys have the leaf's prefix, and behind it no more
/// than a word.
#[derive(Clone, Copy)]
pub(crate) struct SimpleKey {
    pub(crate) word: u64,
    /// The key's part of it.
    pub(crate) shape: Shape,
}

/// The leaf that a key belongs to, at a moment at which nothing changed it.
#[derive(Clone, Copy)]
pub(crate) struct Reached<'f> {
    pub(crate) leaf: Leaf<'f>,
    pub(crate) lines: &'f [Line],
    pub(crate) moment: Moment,
}

/// A leaf at a moment, and what was read of its side-car then.
#[derive(Clone, Copy)]
pub(crate) struct Spot<'f, 'k> {
    pub(crate) leaf: Leaf<'f>,
    pub(crate) moment: Moment,
    pub(crate) prints: Prints,
    pub(crate) traits: Traits,
    pub(crate) placed: Placed<'k>,
    pub(crate) hash: u64,
}

/// An element that was found.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    pub(crate) slot: usize,
    pub(crate) element: Element,
    pub(crate) meta: Meta,
}

impl<'k> Wanted<'k> {
    #[inline(always)]
    pub(crate) fn new(key: &'k [u8]) -> Wanted<'k> {
        Wanted { key, head: head(key, 0), hash: prints::hash(key) }
    }

    /// As the elements of a leaf of that kind have it; `None`: they may have it otherwise.
    #[inline(always)]
    pub(crate) fn simple(&self, traits: Traits) -> Option<SimpleKey> {
        let prefix_len = usize::from(traits.prefix_len);
        let rest = self.key.len().checked_sub(prefix_len)?;
        if traits.guarded || rest > 8 {
            return None;
        }
        let word = match self.key.len() {
            // The head has all of it.
            ..=8 => self.head.checked_shl(8 * prefix_len as u32).unwrap_or(0),
            _ => head(self.key, prefix_len),
        };
        Some(SimpleKey { word, shape: Shape::of_simple_key(rest) })
    }
}

impl SimpleKey {
    /// The slot of the newest element of the key, and that: of those with the key's fingerprint.
    #[inline(always)]
    pub(crate) fn find(&self, mut matching: Slots, lines: &[Line]) -> Option<(usize, Element)> {
        matching.find_map(|slot| {
            let (number, at) = place_of(slot);
            Some((slot, read_of(lines.get(number)?, at, self.word, self.shape)?))
        })
    }
}

impl NvTree {
    /// The leaf that the key belongs to.
    #[inline(always)]
    pub(crate) fn leaf_of(&self, wanted: Wanted<'_>) -> Result<Reached<'_>, Error> {
        match self.leaf_at_once(wanted) {
            Some(found) => Ok(found),
            None => self.leaf_in_time(wanted.key, wanted.hash),
        }
    }

    /// As `leaf_of`, if nothing is in the way.
    #[inline(always)]
    pub(crate) fn leaf_at_once(&self, wanted: Wanted<'_>) -> Option<Reached<'_>> {
        let inner = self.inner.get().filter(|_| self.opening.is_whole())?;
        let (id, token) = inner.find_by_heads(wanted.head)?;
        let leaf = Leaf::at(&self.forest, id).ok()?;
        let lines = leaf.all_lines().ok()?;
        prefetch(lines.as_ptr().wrapping_add(line(wanted.hash, lines.len())));
        let moment = leaf.side.begin_now(self.forest.dead_epoch())?;
        token.still().then_some(Reached { leaf, lines, moment })
    }

    #[inline(never)]
    fn leaf_in_time(&self, key: &[u8], hash: u64) -> Result<Reached<'_>, Error> {
        let inner = self.inner()?;
        loop {
            let was_whole = self.opening.is_whole();
            let (id, token) = inner.find(key, &*self.forest)?;
            let leaf = Leaf::at(&self.forest, id)?;
            leaf.prefetch_line(line(hash, leaf.lines()));
            let Some(moment) = leaf.side.begin(self.forest.dead_epoch()) else {
                make(&leaf)?;
                continue;
            };
            if token.still() && (was_whole || self.covers(&leaf, moment, key)?) {
                return Ok(Reached { lines: leaf.all_lines()?, leaf, moment });
            }
        }
    }

    /// As `leaf_of`, with what the side-car says.
    #[inline]
    pub(crate) fn spot<'f, 'k>(&'f self, wanted: Wanted<'k>) -> Result<Spot<'f, 'k>, Error> {
        let Wanted { key, hash, .. } = wanted;
        loop {
            let Reached { leaf, moment, .. } = self.leaf_of(wanted)?;
            let (prints, traits) = leaf.side.prints();
            match leaf.place(key, traits) {
                Ok(placed) => return Ok(Spot { leaf, moment, prints, traits, placed, hash }),
                Err(error) if leaf.side.still(moment) => return Err(error),
                Err(_) => {}
            }
        }
    }

    /// Brings near what a search for each of the keys will read, for all of them at once.
    pub(crate) fn bring_near(&self, keys: &[&[u8]]) -> Result<(), Error> {
        let mut found = Vec::with_capacity(keys.len());
        self.inner()?.find_abreast(keys, &*self.forest, &mut found)?;
        let hashes: Vec<u64> = keys.iter().map(|key| prints::hash(key)).collect();
        let mut leaves = Vec::with_capacity(keys.len());
        for (&(id, _), &hash) in found.iter().zip(&hashes) {
            let leaf = Leaf::at(&self.forest, id)?;
            leaf.side.prefetch();
            leaf.prefetch_line(line(hash, leaf.lines()));
            leaves.push(leaf);
        }
        for (leaf, hash) in leaves.iter().zip(hashes) {
            let (prints, _) = leaf.side.prints();
            for slot in prints.matching(print(hash), leaf.lines()) {
                let (element, _) = leaf.element(slot)?;
                if let Some(record) = element.record() {
                    let lines = record.size().div_ceil(64).min(RECORD_LINES);
                    (0..lines).for_each(|line| {
                        self.forest.region().prefetch(record.offset() + line * 64);
                    });
                }
            }
        }
        Ok(())
    }

    /// The value that the view sees. The leaf may have been reached before.
    #[inline(never)]
    pub(crate) fn lookup<'f>(
        &'f self,
        wanted: Wanted<'_>,
        mut before: Option<Reached<'f>>,
        view: View<'_>,
    ) -> Result<Option<Value<'f>>, Error> {
        loop {
            let reached = match before.take() {
                Some(reached) => reached,
                None => self.leaf_of(wanted)?,
            };
            let value = if reached.leaf.side.newest() <= view.version {
                newest(&reached, wanted)
            } else {
                self.lookup_among_all(wanted, view)
            };
            if reached.leaf.side.still(reached.moment) {
                return value;
            }
        }
    }

    /// As `lookup`, where there are elements that the view does not see.
    #[cold]
    fn lookup_among_all<'f>(
        &'f self,
        wanted: Wanted<'_>,
        view: View<'_>,
    ) -> Result<Option<Value<'f>>, Error> {
        loop {
            let spot = self.spot(wanted)?;
            let value = match spot.seen_among_all(view) {
                Ok(Some(element)) => spot.leaf.value(&element).map(Some),
                Ok(None) => Ok(None),
                Err(error) => Err(error),
            };
            if spot.leaf.side.still(spot.moment) {
                return value;
            }
        }
    }
}

/// The value of the newest element of the key in a leaf, unless that is a removal. The key's record must be
/// there still: its version pinned, or the caller the writer.
fn newest<'f>(
    Reached { leaf, lines, .. }: &Reached<'f>,
    wanted: Wanted<'_>,
) -> Result<Option<Value<'f>>, Error> {
    let (bytes, traits) = leaf.side.bytes();
    let placed = leaf.place(wanted.key, traits)?;
    for slot in Slots(bytes.equal(print(wanted.hash)) & all_slots(lines.len())) {
        let (number, at) = place_of(slot);
        let line = lines.get(number);
        if let Some(element) = line.and_then(|line| read_of(line, at, placed.word, placed.shape))
            && leaf.is_of(&element, &placed)?
        {
            return leaf.value(&element).map(Some);
        }
    }
    Ok(None)
}

impl<'f> Spot<'f, '_> {
    /// The newest element of the key, unless that is a removal. The key's record must be safe to
    /// read: its version pinned, or the caller the writer.
    #[inline]
    pub(crate) fn newest(&self) -> Result<Option<Found>, Error> {
        for slot in self.prints.matching(print(self.hash), self.leaf.lines()) {
            let (element, meta) = self.leaf.element(slot)?;
            if self.leaf.is_of(&element, &self.placed)? {
                return Ok(Some(Found { slot, element, meta }));
            }
        }
        Ok(None)
    }

    /// The element that the view sees. Sound if the moment still is.
    fn seen_among_all(&self, view: View<'_>) -> Result<Option<Element>, Error> {
        let bases = self.leaf.bases()?;
        let mut best: Option<(Stamp, Element, bool)> = None;
        // What is free here may be a copy of what has gone elsewhere.
        for slot in self.prints.used(self.leaf.lines()) {
            let (element, meta) = self.leaf.element(slot)?;
            let stamp = meta.stamp(bases);
            let is_later = best.is_none_or(|(best, ..)| best.version() < stamp.version());
            if meta.is_empty() || !is_later || !view.sees(stamp, Stamp::NONE) {
                continue;
            }
            // A record is read only where the element was whole; then the view's pin keeps it.
            if self.leaf.side.still(self.moment) && self.leaf.is_of(&element, &self.placed)? {
                best = Some((stamp, element, meta.is_removed()));
            }
        }
        if best.is_none() && self.traits.older {
            return self.seen_in_history(view);
        }
        Ok(best.filter(|best| !best.2).map(|(_, element, _)| element))
    }

    fn seen_in_history(&self, view: View<'_>) -> Result<Option<Element>, Error> {
        let mut best: Option<history::Old> = None;
        for old in history::read(&self.leaf)? {
            let is_later = best.is_none_or(|best| best.stamp.version() < old.stamp.version());
            if is_later
                && view.sees(old.stamp, Stamp::NONE)
                && self.leaf.side.still(self.moment)
                && self.leaf.is_of(&old.element, &self.placed)?
            {
                best = Some(old);
            }
        }
        Ok(best.filter(|old| !old.removed).map(|old| old.element))
    }
}
