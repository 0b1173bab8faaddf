//! Rebuilding (sections 4.5 and 5.5): all INs and PLNs anew, one leaf in each PLN, so that the next
//! rebuilding is as far away as possible. The block before stays until the other one is whole.

use std::time::Instant;

use super::block::{Block, Place, Shape};
use super::profile::Load;
use super::{Error, NvTree};

/// What a rebuild needs to know of a leaf.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// The greatest key that belongs to it.
    pub(super) high: u64,
    pub(super) leaf: u64,
    /// Units of the PLN that it was in.
    pub(super) units: u64,
    pub(super) load: Load,
}

impl NvTree {
    /// Rebuild-from-PLN: the leaves and their keys as the PLNs have them.
    ///
    /// # Errors
    /// Those of the pool; damage.
    pub fn rebuild(&mut self) -> Result<(), Error> {
        let start = Instant::now();
        let slots = self.slots()?;
        self.build(slots)?;
        self.rebuilds.count += 1;
        self.rebuilds.time_ns += start.elapsed().as_nanos() as u64;
        Ok(())
    }

    /// All leaves in key order, those of several slots once.
    fn slots(&self) -> Result<Vec<Slot>, Error> {
        let Some(block) = &self.block else { return Ok(Vec::new()) };
        let region = self.pool.region();
        let mut slots: Vec<Slot> = Vec::with_capacity(self.leaf_count as usize);
        let (mut id, end) = (block.shape.first, block.shape.first + block.shape.units);
        while id < end {
            let pln = block.pln(region, id)?;
            for (slot, word) in pln.leaves().iter().enumerate() {
                let place = Place { pln: id, slot, leaf: word.load() };
                let high = match pln.keys().get(slot) {
                    Some(key) => key.load(),
                    None => block.high_of(region, id)?,
                };
                let load = self.adaptivity.as_ref().map(|a| a.profile.leaf(place));
                let load = load.unwrap_or_default();
                match slots.last_mut() {
                    Some(last) if last.leaf == place.leaf => {
                        (last.high, last.load) = (high, last.load.plus(load));
                    }
                    _ => slots.push(Slot { high, leaf: place.leaf, units: pln.units, load }),
                }
            }
            id += pln.units;
        }
        Ok(slots)
    }

    /// Builds a block of these leaves and switches to it.
    pub(super) fn build(&mut self, mut slots: Vec<Slot>) -> Result<(), Error> {
        self.enlarge(&mut slots);
        let units = slots.iter().map(|slot| slot.units).sum();
        let shape = Shape::new(self.pool.geometry().node_size.into(), units);
        let section = self.pool.reserve(shape.bytes(), 1)?;
        let block = Block::new(&self.pool, shape)?;
        let region = self.pool.region();
        let (mut id, mut highs) = (shape.first, Vec::with_capacity(units as usize));
        if let Some(adaptivity) = &mut self.adaptivity {
            adaptivity.profile.lay_out(shape);
        }
        for slot in &slots {
            block.fill_pln(region, id, slot.units, slot.leaf)?;
            if let Some(adaptivity) = &self.adaptivity {
                adaptivity.profile.set(Place { pln: id, slot: 0, leaf: slot.leaf }, slot.load);
            }
            highs.extend((0..slot.units).map(|_| slot.high));
            id += slot.units;
        }
        block.fill_inner(region, highs)?;
        drop(section);
        if let Some(before) = self.block.replace(block) {
            self.pool.free(before.object);
        }
        Ok(())
    }

    /// Says how many units each PLN will have: one, or one more than before where it is hot-write,
    /// which with one leaf in each is that the leaf is.
    fn enlarge(&self, slots: &mut [Slot]) {
        let total = self.adaptivity.as_ref().map(|adaptivity| adaptivity.profile.total().writes);
        let count = slots.len() as u128;
        for slot in slots {
            let hot = |total| u128::from(slot.load.writes) * count > u128::from(total);
            slot.units = if total.is_some_and(hot) { slot.units + 1 } else { 1 };
        }
    }
}
