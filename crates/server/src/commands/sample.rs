//! Random entries of a collection, for HRANDFIELD, SRANDMEMBER, SPOP and their kin.

use std::collections::HashSet;

use crate::args::Args;
use crate::collection::{Collection, Family};
use crate::command::Context;
use crate::commands::argument::count_in_range;
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::reply::Reply;

/// So many draws cost less than reading all of a collection that has more entries than this.
pub(super) const READ_PER_DRAW: u64 = 8;
/// A larger collection is not read whole for the sake of draws.
const READ_MAX: u64 = 1 << 20;
/// Random entries that are held in memory together.
const DRAWN_AT_ONCE: u64 = 1024;

/// What random entries are taken of.
pub(super) trait Population {
    /// Entries.
    fn entries(&mut self) -> Result<u64, Failure>;
    /// The names of all entries.
    fn all(&mut self) -> Result<Vec<Vec<u8>>, Failure>;
    /// The name of a random one.
    fn one(&mut self, random: &mut dyn FnMut() -> u64) -> Result<Option<Vec<u8>>, Failure>;
    /// Replies with what belongs to the name: a value, a score.
    fn reply_value(&mut self, name: &[u8], reply: &mut Reply) -> Outcome;
}

/// HRANDFIELD and its kin: a random entry, or as many as an argument says, with their values if an argument is `option`.
pub(super) fn reply_random<F: Family>(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    option: Option<&str>,
    reply: &mut Reply,
) -> Outcome
where
    for<'d, 's> Collection<'d, 's, F>: Population,
{
    let shared = &mut *context.shared;
    let mut random = || shared.random();
    let place = (context.session.db, args.at(1));
    if option.is_none() && args.count() > 3 {
        return Err(SYNTAX.into());
    }
    if args.count() == 2 {
        match Collection::<F>::open(context.data, place)?.one(&mut random)? {
            Some(name) => reply.bulk(&name),
            None => reply.null(),
        }
        return Ok(());
    }
    let count = count_in_range(args.at(2))?;
    let with_values = args.count() > 3;
    if args.count() > 4 || with_values && option.is_none_or(|option| !args.is(3, option)) {
        return Err(SYNTAX.into());
    }
    if with_values && count.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err("ERR value is out of range".into());
    }
    let mut collection = Collection::<F>::open(context.data, place)?;
    let in_pairs = with_values && context.session.resp3;
    let size = |names: u64| if with_values && !in_pairs { names * 2 } else { names };
    let show = |collection: &mut Collection<'_, '_, F>, name: &[u8], reply: &mut Reply| {
        if in_pairs {
            reply.array(2);
        }
        reply.bulk(name);
        if with_values { collection.reply_value(name, reply) } else { Ok(()) }
    };
    if count >= 0 || Population::entries(&mut collection)? == 0 {
        let found = distinct(&mut collection, count.max(0) as u64, &mut random)?;
        reply.array(size(found.len() as u64) as usize);
        return found.iter().try_for_each(|name| show(&mut collection, name, reply));
    }
    let mut left = count.unsigned_abs();
    reply.array(size(left) as usize);
    // Drawn a part at a time, so that a reply that is too long ends early.
    while left > 0 && !reply.is_overflown() {
        let (part, mut found) = (left.min(DRAWN_AT_ONCE), Vec::new());
        repeated(&mut collection, part, &mut random, &mut |name| {
            found.push(name.to_vec());
            true
        })?;
        found.iter().try_for_each(|name| show(&mut collection, name, reply))?;
        left -= part;
    }
    Ok(())
}

/// Distinct entries, at most so many; all of them in their order, if there are no more.
pub(super) fn distinct(
    population: &mut dyn Population,
    count: u64,
    random: &mut dyn FnMut() -> u64,
) -> Result<Vec<Vec<u8>>, Failure> {
    let all = population.entries()?;
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
fn repeated(
    population: &mut dyn Population,
    count: u64,
    random: &mut dyn FnMut() -> u64,
    visit: &mut dyn FnMut(&[u8]) -> bool,
) -> Result<(), Failure> {
    let all = population.entries()?;
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
