//! Strings read and changed in part: GET, MGET, STRLEN, APPEND, SETRANGE, GETRANGE.

use std::ops::Range;

use crate::args::Args;
use crate::command::{Command, Context, DENY_OOM, FAST, READ, WRITE};
use crate::commands::argument::integer;
use crate::dataset::Dataset;
use crate::event_class::Classes;
use crate::failure::{Failure, Outcome};
use crate::notify::notify;
use crate::reply::Reply;
use crate::string::write_string;

/// The family.
pub(super) const COMMANDS: &[Command] = &[
    Command::keyed("get", 2, READ | FAST, (1, 1, 1), get),
    Command::keyed("mget", -2, READ | FAST, (1, -1, 1), mget),
    Command::keyed("strlen", 2, READ | FAST, (1, 1, 1), strlen),
    Command::keyed("append", 3, WRITE | DENY_OOM | FAST, (1, 1, 1), append),
    Command::keyed("setrange", 4, WRITE | DENY_OOM, (1, 1, 1), setrange),
    Command::keyed("getrange", 4, READ, (1, 1, 1), getrange),
    Command::keyed("substr", 4, READ, (1, 1, 1), getrange),
];

fn get(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    get_one(context.data, (context.session.db, args.at(1)), reply)
}

#[inline]
fn get_one(data: &mut Dataset<'_>, (db, key): (usize, &[u8]), reply: &mut Reply) -> Outcome {
    match data.get(db, key)? {
        Some(value) => {
            reply.bulk_value(value.payload);
        }
        None => {
            reply.null();
        }
    }
    Ok(())
}

fn mget(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let db = context.session.db;
    reply.array(args.count() - 1);
    context.data.each_key(db, args.from(1), |data, key| {
        if reply.is_overflown() {
            return Ok(());
        }
        match get_one(data, (db, key), reply) {
            // Of another type.
            Err(Failure::Reply(_)) => reply.null(),
            done => done?,
        }
        Ok(())
    })
}

fn strlen(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let len = context.data.string_len(context.session.db, args.at(1))?;
    reply.integer(len.unwrap_or(0) as i64);
    Ok(())
}

fn append(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let place = (context.session.db, args.at(1));
    let len = write_string(context.data, place, None, args.at(2))?;
    notify(context, Classes::STRING, "append", args.at(1));
    reply.integer(len as i64);
    Ok(())
}

fn setrange(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (db, key, part) = (context.session.db, args.at(1), args.at(3));
    let offset = integer(args.at(2))?;
    let offset =
        usize::try_from(offset).map_err(|_| Failure::from("ERR offset is out of range"))?;
    let len = match part {
        [] => context.data.string_len(db, key)?.unwrap_or(0),
        part => write_string(context.data, (db, key), Some(offset), part)?,
    };
    if !part.is_empty() {
        notify(context, Classes::STRING, "setrange", key);
    }
    reply.integer(len as i64);
    Ok(())
}

fn getrange(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (first, last) = (integer(args.at(2))?, integer(args.at(3))?);
    let part = |len| part_of(len, first, last);
    match context.data.get_part(context.session.db, args.at(1), part)? {
        Some(part) => reply.bulk_value(part),
        None => reply.bulk(&[]),
    }
    Ok(())
}

/// The bytes from `first` to `last`, both included, negative ones counted from the end; `None`: none.
fn part_of(len: usize, first: i64, last: i64) -> Option<Range<usize>> {
    if first < 0 && last < 0 && first > last {
        return None;
    }
    let size = len as i64;
    let from_end = |at: i64| if at < 0 { (size + at).max(0) } else { at };
    let (first, last) =
        (from_end(first.max(-size - 1)), from_end(last.max(-size - 1)).min(size - 1));
    if first > last || size == 0 {
        return None;
    }
    Some(first as usize..last as usize + 1)
}
