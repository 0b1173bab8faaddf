//! Numbers in strings: INCR, DECR, INCRBY, DECRBY, INCRBYFLOAT.

use crate::args::Args;
use crate::command::{Command, Context, DENY_OOM, FAST, WRITE};
use crate::commands::argument::integer;
use crate::effects::send_as;
use crate::event_class::Classes;
use crate::failure::Outcome;
use crate::float::Float;
use crate::notify::notify;
use crate::number::Decimal;
use crate::reply::Reply;

/// The family.
pub(super) const COMMANDS: &[Command] = &[
    Command::keyed("incr", 2, WRITE | DENY_OOM | FAST, (1, 1, 1), incr),
    Command::keyed("decr", 2, WRITE | DENY_OOM | FAST, (1, 1, 1), decr),
    Command::keyed("incrby", 3, WRITE | DENY_OOM | FAST, (1, 1, 1), incrby),
    Command::keyed("decrby", 3, WRITE | DENY_OOM | FAST, (1, 1, 1), decrby),
    Command::keyed("incrbyfloat", 3, WRITE | DENY_OOM | FAST, (1, 1, 1), incrbyfloat),
];

fn incr(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    add(context, args.at(1), 1, reply)
}

fn decr(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    add(context, args.at(1), -1, reply)
}

fn incrby(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    add(context, args.at(1), integer(args.at(2))?, reply)
}

fn decrby(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let by = integer(args.at(2))?.checked_neg().ok_or("ERR decrement would overflow")?;
    add(context, args.at(1), by, reply)
}

fn add(context: &mut Context<'_, '_>, key: &[u8], by: i64, reply: &mut Reply) -> Outcome {
    let db = context.session.db;
    let (old, expiry_ms) = match context.data.get(db, key)? {
        Some(value) => (value.payload.with(integer)?, value.expiry_ms),
        None => (0, None),
    };
    let new = old.checked_add(by).ok_or("ERR increment or decrement would overflow")?;
    context.data.put(db, key, Decimal::signed(new).as_bytes(), expiry_ms)?;
    notify(context, Classes::STRING, "incrby", key);
    reply.integer(new);
    Ok(())
}

fn incrbyfloat(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    const NOT_A_FLOAT: &str = "ERR value is not a valid float";
    let (db, key) = (context.session.db, args.at(1));
    let (old, expiry_ms) = match context.data.get(db, key)? {
        Some(value) => (value.payload.with(Float::parse).ok_or(NOT_A_FLOAT)?, value.expiry_ms),
        None => (Float::Fixed(0), None),
    };
    let by = Float::parse(args.at(2)).ok_or(NOT_A_FLOAT)?;
    let new = old.add(by).ok_or("ERR increment would produce NaN or Infinity")?.text();
    context.data.put(db, key, new.as_bytes(), expiry_ms)?;
    send_as(context, &[b"SET", key, new.as_bytes(), b"KEEPTTL"]);
    notify(context, Classes::STRING, "incrbyfloat", key);
    reply.bulk(new.as_bytes());
    Ok(())
}
