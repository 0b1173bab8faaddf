//! The keys of a leaf as numbers, which a library may sort.

use crate::Error;
use crate::nvtree::format::SLOTS_MAX;
use crate::nvtree::leaf::{Leaf, place_of, read};

/// A key and its slot in one number (word, length, slot), so that the numbers are in the order of the keys.
type Ranked = u128;

/// The slots of a leaf's live elements, each with its key as a number. `None`: some keys do not fit into a number.
pub(crate) struct Ranks {
    all: [Ranked; SLOTS_MAX],
    len: usize,
}

impl Ranks {
    /// The ranks of these slots.
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
