//! XLEN, XRANGE, XREVRANGE.

use tembo_kv::Direction;

use crate::args::Args;
use crate::collection::Stream;
use crate::command::Context;
use crate::commands::argument::integer;
use crate::commands::stream::id;
use crate::commands::stream::shown::{elements, show_array, show_entry};
use crate::failure::{Outcome, SYNTAX};
use crate::reply::Reply;

pub(super) fn xlen(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let stream = Stream::open(context.data, (context.session.db, args.at(1)))?;
    reply.integer(stream.map_or(0, |stream| stream.head().count) as i64);
    Ok(())
}

fn range(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    direction: Direction,
    reply: &mut Reply,
) -> Outcome {
    let (from, to) = match direction {
        Direction::Forward => (2, 3),
        Direction::Backward => (3, 2),
    };
    let ends = (id::from(args.at(from))?, id::to(args.at(to))?);
    let (mut limit, mut at) = (None, 4);
    while at < args.count() {
        if !args.is(at, "COUNT") || at + 1 == args.count() {
            return Err(SYNTAX.into());
        }
        limit = Some(integer(args.at(at + 1))?.max(-1));
        at += 2;
    }
    let Some(mut stream) = Stream::open(context.data, (context.session.db, args.at(1)))? else {
        reply.array(0);
        return Ok(());
    };
    // A negative number is none at all, as 0 is.
    let limit = match limit {
        None => usize::MAX,
        Some(..=0) => {
            reply.null_array();
            return Ok(());
        }
        Some(limit) => limit as usize,
    };
    let (mut found, mut count) = (elements(context.session.resp3), 0);
    stream.visit(ends, direction, &mut |id, value| {
        show_entry(id, value, &mut found);
        count += 1;
        count < limit
    })?;
    show_array(count, &found, reply);
    Ok(())
}

pub(super) fn xrange(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    range(context, args, Direction::Forward, reply)
}

pub(super) fn xrevrange(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Outcome {
    range(context, args, Direction::Backward, reply)
}
