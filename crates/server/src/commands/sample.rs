//! Random entries of a collection, for HRANDFIELD, SRANDMEMBER, SPOP and their kin.

use std::collections::HashSet;

use crate::failure::Failure;

/// So many draws cost less than reading all of a collection that has more entries than this.
const READ_PER_DRAW: u64 = 8;
/// A larger collection is not read whole for the sake of draws.
const READ_MAX: u64 = 1 << 20;

/// What random entries are taken of.
pub(super) trait Population {
    /// Entries.
    fn count(&self) -> u64;
    /// The names of all entries.
    fn all(&mut self) -> Result<Vec<Vec<u8>>, Failure>;
    /// The name of a random one.
    fn one(&mut self, random: &mut dyn FnMut() -> u64) -> Result<Option<Vec<u8>>, Failure>;
}

/// Distinct entries, at most so many; all of them in their order, if there are no more.
pub(super) fn distinct(
    population: &mut dyn Population,
    count: u64,
    random: &mut dyn FnMut() -> u64,
) -> Result<Vec<Vec<u8>>, Failure> {
    let all = population.count();
    if count >= all {
        return population.all();
    }
    if count.saturating_mul(READ_PER_DRAW) < all {
        let (mut chosen, mut seen) = (Vec::new(), HashSet::new());
        while (chosen.len() as u64) < count {
            let Some(one) = population.one(random)? else { break };
            if seen.insert(one.clone()) {
                chosen.push(one);
            }
        }
        return Ok(chosen);
    }
    let mut names = population.all()?;
    let count = (count as usize).min(names.len());
    for at in 0..count {
        let left = (names.len() - at) as u64;
        names.swap(at, at + (random() % left) as usize);
    }
    names.truncate(count);
    Ok(names)
}

/// Calls `visit` with so many entries, each drawn from all of them, until it returns false.
pub(super) fn repeated(
    population: &mut dyn Population,
    count: u64,
    random: &mut dyn FnMut() -> u64,
    visit: &mut dyn FnMut(&[u8]) -> bool,
) -> Result<(), Failure> {
    let all = population.count();
    let reads_all = all <= READ_MAX && count.saturating_mul(READ_PER_DRAW) >= all;
    let names = if reads_all { population.all()? } else { Vec::new() };
    for _ in 0..count {
        let drawn = if names.is_empty() { population.one(random)? } else { None };
        let one = match &drawn {
            Some(one) => one,
            None if names.is_empty() => break,
            None => &names[(random() % names.len() as u64) as usize],
        };
        if !visit(one) {
            break;
        }
    }
    Ok(())
}
