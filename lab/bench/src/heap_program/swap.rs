//! SPS: swaps of entries of an array.

use super::memory::{Form, Keyed, Memory, Program, Work};
use crate::keys::Random;

/// An array of integers.
pub(crate) struct Sps {
    pub(crate) cells: usize,
}

/// One swap, or the first value of one entry.
pub(crate) enum Swap {
    Fill { at: usize },
    Swap { ends: [usize; 2] },
}

impl Work<0, 0> for Swap {
    fn run<M: Memory<0, 0>>(&mut self, memory: &mut M) -> Result<u64, M::Fault> {
        match *self {
            Swap::Fill { at } => memory.set_cell(at, at as u64).map(|()| 0),
            Swap::Swap { ends: [one, other] } => {
                let (first, second) = (memory.cell(one)?, memory.cell(other)?);
                memory.set_cell(one, second)?;
                memory.set_cell(other, first)?;
                Ok(first.wrapping_mul(3) ^ second)
            }
        }
    }

    fn run_keyed<K: Keyed>(&mut self, entries: &mut K) -> Result<u64, K::Fault> {
        match *self {
            Swap::Fill { at } => entries.put(at as u64, &(at as u64).to_le_bytes()).map(|()| 0),
            Swap::Swap { ends: [one, other] } => {
                let word = |at: usize, entries: &mut K| {
                    let mut out = Vec::with_capacity(8);
                    entries.get(at as u64, true, &mut out)?;
                    Ok(out.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)))
                };
                // In one order, so that two transactions do not wait for each other.
                let (low, high) = (one.min(other), one.max(other));
                let (of_low, of_high) = (word(low, entries)?, word(high, entries)?);
                entries.put(low as u64, &of_high.to_le_bytes())?;
                entries.put(high as u64, &of_low.to_le_bytes())?;
                let (first, second) =
                    if low == one { (of_low, of_high) } else { (of_high, of_low) };
                Ok(first.wrapping_mul(3) ^ second)
            }
        }
    }
}

impl Program<0, 0> for Sps {
    type Work = Swap;

    fn name(&self) -> &'static str {
        "SPS"
    }

    fn form(&self) -> Form {
        Form { cells: self.cells, heads: 0, objects: 0 }
    }

    fn payload(&self) -> u64 {
        8 * self.cells as u64
    }

    fn filling(&self) -> usize {
        self.cells
    }

    fn fill(&self, number: usize) -> Swap {
        Swap::Fill { at: number }
    }

    fn work(&self, _number: u64, random: &mut Random) -> Swap {
        let count = self.cells as u64;
        let (one, other) = (random.below(count), random.below(count - 1));
        let other = other + u64::from(other >= one);
        Swap::Swap { ends: [one as usize, other as usize] }
    }
}
