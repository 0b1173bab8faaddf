//! Elements that go from list to list, or come from the first list that has any: LMOVE, RPOPLPUSH, LMPOP, and those that
//! wait for one: BLPOP, BRPOP, BLMOVE, BRPOPLPUSH, BLMPOP.

use crate::args::Args;
use crate::collection::{End, List, Lists};
use crate::command::{BLOCKING, Command, Context, DENY_OOM, FAST, LIST, MOVABLE_KEYS, WRITE};
use crate::commands::list::pop_some;
use crate::commands::multi_pop::{MultiPop, first_with_elements};
use crate::commands::wait::{Absent, timeout, wait};
use crate::dataset::check_key;
use crate::effects::send_as;
use crate::event_class::Classes;
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::format::Kind;
use crate::notify::{notify, notify_removed};
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
    let mut list = List::open(context.data, (db, from))?;
    let moved_at = if source == End::Left { Some(0) } else { list.count().checked_sub(1) };
    let moved = moved_at.map(|index| list.get(index)).transpose()?.flatten();
    let Some(size) = moved.map(|element| element.len()) else { return Ok(false) };
    List::open(context.data, (db, to))?;
    check_key(to)?;
    let (moved, left) = context.data.in_steps(size, |data| {
        let mut list = List::open(data, (db, from))?;
        let element = list.pop(source)?.unwrap_or_default();
        if from == to {
            list.push(target, &element)?;
        }
        let left = list.count();
        list.save()?;
        if from != to {
            let mut list = List::open(data, (db, to))?;
            list.push(target, &element)?;
            list.save()?;
        }
        Ok((element, left))
    })?;
    notify(context, Classes::LIST, target.push_event(), to);
    notify_removed(context, (Classes::LIST, source.pop_event()), from, left);
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
        let (from, to) = (args.at(1), args.at(2));
        match ends {
            (End::Right, End::Left) => send_as(context, &[b"RPOPLPUSH", from, to]),
            (source, target) => {
                send_as(context, &[b"LMOVE", from, to, source.word(), target.word()])
            }
        }
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

fn pop_or_wait(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    end: End,
    reply: &mut Reply,
) -> Outcome {
    let timeout_ms = timeout(context, args.at(args.count() - 1))?;
    let keys: Vec<&[u8]> = args.from(1).take(args.count() - 2).collect();
    let Some((key, _)) = first_with_elements::<Lists>(context, &keys)? else {
        wait(context, args, (Kind::List, &keys), (timeout_ms, Absent::NullArray), reply);
        return Ok(());
    };
    let popped = pop_some(context, (context.session.db, key), end, 1)?;
    send_as(context, &[end.pop_command(), key]);
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

/// The words of LMPOP for both ends.
const ENDS: (&str, &str) = ("LEFT", "RIGHT");

/// False: no list has elements.
fn pop_several(
    context: &mut Context<'_, '_>,
    wanted: &MultiPop<'_>,
    reply: &mut Reply,
) -> Result<bool, Failure> {
    let Some((key, count)) = first_with_elements::<Lists>(context, &wanted.keys)? else {
        return Ok(false);
    };
    let end = if wanted.is_first { End::Left } else { End::Right };
    let popped = pop_some(context, (context.session.db, key), end, wanted.count.min(count))?;
    if context.shared.propagation.is_on {
        send_as(context, &[end.pop_command(), key, popped.len().to_string().as_bytes()]);
    }
    reply.array(2);
    reply.bulk(key);
    reply.array(popped.len());
    popped.iter().for_each(|element| reply.bulk(element));
    Ok(true)
}

fn lmpop(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if !pop_several(context, &MultiPop::parse(args, 1, ENDS)?, reply)? {
        reply.null_array();
    }
    Ok(())
}

fn blmpop(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let timeout_ms = timeout(context, args.at(1))?;
    let wanted = MultiPop::parse(args, 2, ENDS)?;
    if !pop_several(context, &wanted, reply)? {
        let keys = (Kind::List, &wanted.keys[..]);
        wait(context, args, keys, (timeout_ms, Absent::NullArray), reply);
    }
    Ok(())
}
