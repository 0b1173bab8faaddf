//! What the commands share that take elements from the first of several keys that has any: LMPOP, ZMPOP, BLPOP and
//! their kin.

use crate::args::Args;
use crate::collection::{Collection, Family};
use crate::command::Context;
use crate::commands::argument::{at_least_one, key_count};
use crate::commands::wait::keys_to_try;
use crate::failure::{Failure, SYNTAX};

/// What LMPOP, ZMPOP and their kin ask for, from the number of keys on.
pub(super) struct MultiPop<'a> {
    /// The keys.
    pub(super) keys: Vec<&'a [u8]>,
    /// Whether the first of both words is given.
    pub(super) is_first: bool,
    /// How many elements at most.
    pub(super) count: u64,
}

impl<'a> MultiPop<'a> {
    /// The arguments from `at` on; an end is named by one of both words.
    pub(super) fn parse(
        args: Args<'a>,
        at: usize,
        words: (&str, &str),
    ) -> Result<MultiPop<'a>, Failure> {
        let number = key_count(args.at(at))?;
        let behind = at.saturating_add(number).saturating_add(1);
        if behind >= args.count() {
            return Err(SYNTAX.into());
        }
        let is_first = args.is(behind, words.0);
        if !is_first && !args.is(behind, words.1) {
            return Err(SYNTAX.into());
        }
        let count = match args.count() - behind - 1 {
            0 => 1,
            2 if args.is(behind + 1, "COUNT") => {
                at_least_one(args.at(behind + 2)).ok_or("ERR count should be greater than 0")?
            }
            _ => return Err(SYNTAX.into()),
        };
        let keys = args.from(at + 1).take(number).collect();
        Ok(MultiPop { keys, is_first, count: count as u64 })
    }
}

/// The first of the keys under which there are elements, and how many.
pub(super) fn first_with_elements<'a, F: Family>(
    context: &mut Context<'_, '_>,
    keys: &[&'a [u8]],
) -> Result<Option<(&'a [u8], u64)>, Failure> {
    for key in keys_to_try(context, keys) {
        let count = Collection::<F>::open(context.data, (context.session.db, key))?.count();
        if count > 0 {
            return Ok(Some((key, count)));
        }
    }
    Ok(None)
}
