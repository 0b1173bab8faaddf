//! Taking members from an end.

use crate::args::Args;
use crate::collection::{SortedSet, Span};
use crate::command::Context;
use crate::commands::argument::positive;
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::number::parse_integer;
use crate::reply::Reply;
use tembo_kv::Direction;

use super::shown::show;

/// Takes up to so many members from the end where a direction begins.
fn pop(
    context: &mut Context<'_, '_>,
    key: &[u8],
    direction: Direction,
    count: u64,
) -> Result<Vec<(Vec<u8>, f64)>, Failure> {
    let place = (context.session.db, key);
    let mut set = SortedSet::open(context.data, place)?;
    let is_all = count >= set.count();
    let popped = set.list(&Span::ALL, direction, count)?;
    if popped.is_empty() {
        return Ok(popped);
    }
    if is_all {
        context.data.remove(place.0, place.1)?;
        return Ok(popped);
    }
    SortedSet::change(context.data, place, (popped.len(), 0), |set| {
        popped.iter().try_for_each(|(member, _)| set.remove(member).map(drop))
    })?;
    Ok(popped)
}

fn pop_one_key(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    direction: Direction,
    reply: &mut Reply,
) -> Outcome {
    if args.count() > 3 {
        return Err(SYNTAX.into());
    }
    let has_count = args.count() == 3;
    let count = if has_count { positive(args.at(2))? } else { 1 };
    let popped = pop(context, args.at(1), direction, count)?;
    show((true, context.session.resp3 && has_count), &popped, reply);
    Ok(())
}

pub(super) fn zpopmin(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    pop_one_key(context, args, Direction::Forward, reply)
}

pub(super) fn zpopmax(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    pop_one_key(context, args, Direction::Backward, reply)
}

pub(super) fn zmpop(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let at_least_one =
        |text: &[u8]| parse_integer(text).filter(|&count| count > 0).map(|count| count as usize);
    let keys = at_least_one(args.at(1)).ok_or("ERR numkeys should be greater than 0")?;
    let end = keys.saturating_add(2);
    let direction = match args.at(end.min(args.count())).to_ascii_uppercase().as_slice() {
        b"MIN" => Direction::Forward,
        b"MAX" => Direction::Backward,
        _ => return Err(SYNTAX.into()),
    };
    let count = match args.count() - end {
        1 => 1,
        3 if args.is(end + 1, "COUNT") => {
            at_least_one(args.at(end + 2)).ok_or("ERR count should be greater than 0")?
        }
        _ => return Err(SYNTAX.into()),
    };
    for at in 2..end {
        let popped = pop(context, args.at(at), direction, count as u64)?;
        if !popped.is_empty() {
            reply.array(2);
            reply.bulk(args.at(at));
            // In pairs in RESP2 too.
            show((true, true), &popped, reply);
            return Ok(());
        }
    }
    reply.null_array();
    Ok(())
}
