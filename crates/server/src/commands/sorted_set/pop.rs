//! Taking members from an end.

use crate::args::Args;
use crate::collection::{SortedSet, SortedSets};
use crate::command::Context;
use crate::commands::argument::positive;
use crate::commands::multi_pop::{MultiPop, first_with_elements};
use crate::commands::wait::{Absent, timeout, wait};
use crate::effects::send_as;
use crate::event_class::Classes;
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::format::Kind;
use crate::notify::notify_removed;
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
    let popped = set.at_end(direction, count)?;
    if popped.is_empty() {
        return Ok(popped);
    }
    if is_all {
        context.data.remove(place.0, place.1)?;
    } else {
        SortedSet::change(context.data, place, (popped.len(), 0), |set| set.remove_all(&popped))?;
    }
    let event = if direction == Direction::Forward { "zpopmin" } else { "zpopmax" };
    notify_removed(context, (Classes::SORTED_SET, event), key, u64::from(!is_all));
    Ok(popped)
}

/// The command that takes members from the end where a direction begins.
fn command(direction: Direction) -> &'static [u8] {
    if direction == Direction::Forward { b"ZPOPMIN" } else { b"ZPOPMAX" }
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

/// The words of ZMPOP for both ends.
const ENDS: (&str, &str) = ("MIN", "MAX");

/// False: no sorted set has members.
fn pop_several(
    context: &mut Context<'_, '_>,
    wanted: &MultiPop<'_>,
    reply: &mut Reply,
) -> Result<bool, Failure> {
    let Some((key, _)) = first_with_elements::<SortedSets>(context, &wanted.keys)? else {
        return Ok(false);
    };
    let direction = if wanted.is_first { Direction::Forward } else { Direction::Backward };
    let popped = pop(context, key, direction, wanted.count)?;
    if context.shared.propagation.is_on {
        send_as(context, &[command(direction), key, popped.len().to_string().as_bytes()]);
    }
    reply.array(2);
    reply.bulk(key);
    // In pairs in RESP2 too.
    show((true, true), &popped, reply);
    Ok(true)
}

pub(super) fn zmpop(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if !pop_several(context, &MultiPop::parse(args, 1, ENDS)?, reply)? {
        reply.null_array();
    }
    Ok(())
}

pub(super) fn bzmpop(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let timeout_ms = timeout(context, args.at(1))?;
    let wanted = MultiPop::parse(args, 2, ENDS)?;
    if !pop_several(context, &wanted, reply)? {
        let keys = (Kind::SortedSet, &wanted.keys[..]);
        wait(context, args, keys, (timeout_ms, Absent::NullArray), reply);
    }
    Ok(())
}

/// Takes a member from an end of the first of the sorted sets that has any, or waits for one.
fn pop_or_wait(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    direction: Direction,
    reply: &mut Reply,
) -> Outcome {
    let timeout_ms = timeout(context, args.at(args.count() - 1))?;
    let keys: Vec<&[u8]> = args.from(1).take(args.count() - 2).collect();
    let Some((key, _)) = first_with_elements::<SortedSets>(context, &keys)? else {
        let keys = (Kind::SortedSet, &keys[..]);
        wait(context, args, keys, (timeout_ms, Absent::NullArray), reply);
        return Ok(());
    };
    reply.array(3);
    reply.bulk(key);
    for (member, score) in pop(context, key, direction, 1)? {
        reply.bulk(&member);
        reply.double(score);
    }
    send_as(context, &[command(direction), key]);
    Ok(())
}

pub(super) fn bzpopmin(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Outcome {
    pop_or_wait(context, args, Direction::Forward, reply)
}

pub(super) fn bzpopmax(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Outcome {
    pop_or_wait(context, args, Direction::Backward, reply)
}
