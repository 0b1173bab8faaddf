//! The usual split: a leaf in which every slot has the newest element of a key, all keys short and
//! with the leaf's prefix. Then the words tell the order, and halves are found without sorting.

use super::NvTree;
use super::contents::{place_of, set_within};
use super::draft::{Draft, Item};
use super::element::{Element, Shape};
use super::format::SLOTS_MAX;
use super::leaf::{Leaf, Range, read};
use super::lookup::Spot;
use super::prints::FREE;
use super::room::erase_slots;
use super::side::Guard;
use super::split::{Bounds, check_between};
use crate::Error;

/// A key and its slot in one number, by which keys are in order: word, length, slot.
type Ranked = u128;

/// The slots of a leaf that live, each with its key as a number; `None`: not all are that simple.
pub(crate) struct Ranks {
    all: [Ranked; SLOTS_MAX],
    len: usize,
}

impl Ranks {
    /// Of these slots.
    #[inline]
    pub(crate) fn of(
        leaf: &Leaf<'_>,
        slots: impl Iterator<Item = usize>,
    ) -> Result<Option<Ranks>, Error> {
        let lines = leaf.all_lines()?;
        let mut ranks = Ranks { all: [0; SLOTS_MAX], len: 0 };
        for slot in slots {
            let (number, at) = place_of(slot);
            let Some(line) = lines.get(number) else { return Ok(None) };
            let (element, _) = read(line, at);
            let (Some(len), false) = (element.shape.key_len(), element.shape.is_odd()) else {
                return Ok(None);
            };
            let Some(rank) = ranks.all.get_mut(ranks.len) else { return Ok(None) };
            *rank = Ranked::from(element.key) << 16 | (len as u128) << 8 | slot as u128;
            ranks.len += 1;
        }
        Ok(Some(ranks))
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [Ranked] {
        &mut self.all[..self.len]
    }
}

/// The slot of a key.
pub(crate) fn slot_of(ranked: Ranked) -> usize {
    ranked as usize & 0xff
}

impl NvTree {
    /// Splits a full leaf if that is simple. The caller holds the lock and has reserved. Durable when
    /// it returns; on an error nothing has changed.
    pub(crate) fn halve(
        &self,
        spot: &Spot<'_, '_>,
        guard: &Guard<'_>,
        range: Range<'_>,
    ) -> Result<bool, Error> {
        let leaf = &spot.leaf;
        let slots = leaf.slots();
        let live = spot.prints.live(leaf.lines());
        if live.0 != (1 << slots) - 1 || spot.traits.guarded || spot.traits.older {
            return Ok(false);
        }
        let Some(mut ranks) = Ranks::of(leaf, live)? else { return Ok(false) };
        let ranks = ranks.as_mut_slice();
        let last = match range.high {
            None => ranks.iter().max().copied().unwrap_or_default(),
            Some(_) => 0,
        };
        let is_last = range.high.is_none() && *spot.placed.key() > *key_of(leaf, last)?;
        let (left, right, moved): (Vec<u8>, Vec<u8>, &[Ranked]) = if is_last {
            (key_of(leaf, last)?, spot.placed.key().to_vec(), &[])
        } else {
            let (below, middle, _) = ranks.select_nth_unstable(slots / 2);
            let (left, middle) = (below.iter().max().copied().unwrap_or_default(), *middle);
            (key_of(leaf, left)?, key_of(leaf, middle)?, &ranks[slots / 2..])
        };
        let bounds = Bounds::between(range, &left, &right);
        if bounds.prefix_len < spot.traits.prefix_len || is_last && right.len() > 8 {
            return Ok(false);
        }
        let mut draft = Draft::new(&right[..bounds.low_len], bounds.prefix_len);
        check_between(leaf, range, draft.low)?;
        let owners = self.fill(spot, moved, &mut draft)?;
        let linked = self.begin_draft(&mut draft).and_then(|()| self.write_draft(leaf, &mut draft));
        let right = match linked {
            Ok(right) => right,
            Err(error) => {
                self.forest.pool().free_all(draft.made);
                return Err(error);
            }
        };
        self.link_right(leaf, right, &draft, range)?;
        if !owners.is_empty() {
            erase_slots(leaf, &owners)?;
        }
        let mut prints = spot.prints;
        moved.iter().for_each(|&ranked| prints.set(slot_of(ranked), FREE));
        set_within(leaf, guard, &prints, Range { high: Some(draft.low), ..range })?;
        Ok(true)
    }

    /// Fills a draft with elements whose prefix does not become shorter; the slots of those that have
    /// records.
    fn fill(
        &self,
        spot: &Spot<'_, '_>,
        moved: &[Ranked],
        draft: &mut Draft<'_>,
    ) -> Result<Vec<usize>, Error> {
        let mut owners = Vec::new();
        let grown = usize::from(draft.prefix_len - spot.traits.prefix_len);
        let lines = spot.leaf.all_lines()?;
        for &ranked in moved {
            let slot = slot_of(ranked);
            let (number, at) = place_of(slot);
            let Some(line) = lines.get(number) else { continue };
            let (element, meta) = read(line, at);
            let element = if grown == 0 { element } else { shortened(&element, grown) };
            if element.record().is_some() {
                owners.push(slot);
            }
            draft.items.push(Item { element, meta, print: spot.prints.get(slot) });
        }
        Ok(owners)
    }
}

/// The element under a prefix that is longer by so many bytes of its key.
fn shortened(element: &Element, bytes: usize) -> Element {
    let key = element.key.checked_shl(8 * bytes as u32).unwrap_or(0);
    let key_len = element.shape.key_len().unwrap_or(0).saturating_sub(bytes);
    let value_len = element.shape.value_len().unwrap_or(super::element::LONG);
    Element { key, payload: element.payload, shape: Shape::new(key_len, value_len, false) }
}

fn key_of(leaf: &Leaf<'_>, ranked: Ranked) -> Result<Vec<u8>, Error> {
    leaf.key_of(&leaf.element(slot_of(ranked))?.0)
}
