//! Elements that go from list to list, or come from the first list that has any: LMOVE, RPOPLPUSH, LMPOP, and those that
//! wait for one: BLPOP, BRPOP, BLMOVE, BRPOPLPUSH, BLMPOP.

use crate::args::Args;
use crate::collection::{End, List};
use crate::command::{BLOCKING, Command, Context, DENY_OOM, FAST, LIST, MOVABLE_KEYS, WRITE};
use crate::commands::argument::integer;
use crate::commands::list::pop_some;
use crate::commands::wait::{Absent, keys_to_try, timeout, wait};
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::format::Kind;
use crate::reply::Reply;

/// The family.
pub(super) const COMMANDS: &[Command] = &[
    Command::keyed("rpoplpush", 3, LIST | WRITE | DENY_OOM, (1, 2, 1), rpoplpush),
    Command::keyed("lmove", 5, LIST | WRITE | DENY_OOM, (1, 2, 1), lmove),
    Command::keyed("lmpop", -4, LIST | WRITE | MOVABLE_KEYS, (0, 0, 0), lmpop),
    Command::keyed("blpop", -3, LIST | WRITE | BLOCKING | FAST, (1, -2, 1), blpop),
    Command::keyed("brpop", -3, LIST | WRITE | BLOCKING | FAST, (1, -2, 1), brpop),
    Command::keyed("brpoplpush", 4, LIST | WRITE | DENY_OOM | BLOCKING, (1, 2, 1), brpoplpush),
    Command::keyed("blmove", 6, LIST | WRITE | DENY_OOM | BLOCKING, (1, 2, 1), blmove),
    Command::keyed("blmpop", -5, LIST | WRITE | BLOCKING | MOVABLE_KEYS, (0, 0, 0), blmpop),
];

/// The end that an argument names.
fn end(args: Args<'_>, at: usize) -> Result<End, Failure> {
    if args.is(at, "LEFT") {
        Ok(End::Left)
    } else if args.is(at, "RIGHT") {
        Ok(End::Right)
    } else {
        Err(SYNTAX.into())
    }
}

/// Moves an element from one end to another; false: there is none.
fn transfer(
    context: &mut Context<'_, '_>,
    (from, to): (&[u8], &[u8]),
    (source, target): (End, End),
    reply: &mut Reply,
) -> Result<bool, Failure> {
    let db = context.session.db;
    if List::open(context.data, (db, from))?.count() == 0 {
        return Ok(false);
    }
    List::open(context.data, (db, to))?;
    let moved = context.data.atomically(0, |data| {
        let mut list = List::open(data, (db, from))?;
        let element = list.pop(source)?.unwrap_or_default();
        if from == to {
            list.push(target, &element)?;
            list.save()?;
        } else {
            list.save()?;
            let mut list = List::open(data, (db, to))?;
            list.push(target, &element)?;
            list.save()?;
        }
        Ok(element)
    })?;
    reply.bulk(&moved);
    Ok(true)
}

fn rpoplpush(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if !transfer(context, (args.at(1), args.at(2)), (End::Right, End::Left), reply)? {
        reply.null();
    }
    Ok(())
}

fn lmove(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let ends = (end(args, 3)?, end(args, 4)?);
    if !transfer(context, (args.at(1), args.at(2)), ends, reply)? {
        reply.null();
    }
    Ok(())
}

/// Moves an element, or waits for one.
fn transfer_or_wait(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    ends: (End, End),
    reply: &mut Reply,
) -> Outcome {
    let timeout_ms = timeout(context, args.at(args.count() - 1))?;
    if transfer(context, (args.at(1), args.at(2)), ends, reply)? {
        return Ok(());
    }
    wait(context, args, (Kind::List, &[args.at(1)]), (timeout_ms, Absent::Null), reply);
    Ok(())
}

fn brpoplpush(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    transfer_or_wait(context, args, (End::Right, End::Left), reply)
}

fn blmove(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    transfer_or_wait(context, args, (end(args, 3)?, end(args, 4)?), reply)
}

/// The first of the keys whose list has elements, and how many.
fn first_list<'a>(
    context: &mut Context<'_, '_>,
    keys: &[&'a [u8]],
) -> Result<Option<(&'a [u8], u64)>, Failure> {
    for key in keys_to_try(context, keys) {
        let count = List::open(context.data, (context.session.db, key))?.count();
        if count > 0 {
            return Ok(Some((key, count)));
        }
    }
    Ok(None)
}

fn pop_or_wait(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    end: End,
    reply: &mut Reply,
) -> Outcome {
    let timeout_ms = timeout(context, args.at(args.count() - 1))?;
    let keys: Vec<&[u8]> = args.from(1).take(args.count() - 2).collect();
    let Some((key, _)) = first_list(context, &keys)? else {
        wait(context, args, (Kind::List, &keys), (timeout_ms, Absent::NullArray), reply);
        return Ok(());
    };
    let popped = pop_some(context, (context.session.db, key), end, 1)?;
    reply.array(2);
    reply.bulk(key);
    popped.iter().for_each(|element| reply.bulk(element));
    Ok(())
}

fn blpop(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    pop_or_wait(context, args, End::Left, reply)
}

fn brpop(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    pop_or_wait(context, args, End::Right, reply)
}

/// What LMPOP and BLMPOP ask for, from the number of keys on.
struct Popped<'a> {
    keys: Vec<&'a [u8]>,
    end: End,
    count: u64,
}

impl<'a> Popped<'a> {
    fn parse(args: Args<'a>, at: usize) -> Result<Popped<'a>, Failure> {
        let number = match integer(args.at(at)) {
            Ok(number) if number >= 1 => number as usize,
            _ => return Err("ERR numkeys should be greater than 0".into()),
        };
        let behind = at.saturating_add(number).saturating_add(1);
        if behind >= args.count() {
            return Err(SYNTAX.into());
        }
        let end = end(args, behind)?;
        let count = match args.count() - behind - 1 {
            0 => 1,
            2 if args.is(behind + 1, "COUNT") => match integer(args.at(behind + 2)) {
                Ok(count) if count >= 1 => count as u64,
                _ => return Err("ERR count should be greater than 0".into()),
            },
            _ => return Err(SYNTAX.into()),
        };
        Ok(Popped { keys: args.from(at + 1).take(number).collect(), end, count })
    }

    /// False: no list has elements.
    fn pop(&self, context: &mut Context<'_, '_>, reply: &mut Reply) -> Result<bool, Failure> {
        let Some((key, count)) = first_list(context, &self.keys)? else { return Ok(false) };
        let place = (context.session.db, key);
        let popped = pop_some(context, place, self.end, self.count.min(count))?;
        reply.array(2);
        reply.bulk(key);
        reply.array(popped.len());
        popped.iter().for_each(|element| reply.bulk(element));
        Ok(true)
    }
}

fn lmpop(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if !Popped::parse(args, 1)?.pop(context, reply)? {
        reply.null_array();
    }
    Ok(())
}

fn blmpop(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let timeout_ms = timeout(context, args.at(1))?;
    let popped = Popped::parse(args, 2)?;
    if !popped.pop(context, reply)? {
        let keys = (Kind::List, &popped.keys[..]);
        wait(context, args, keys, (timeout_ms, Absent::NullArray), reply);
    }
    Ok(())
}
