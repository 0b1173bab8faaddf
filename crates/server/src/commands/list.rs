//! Lists: LPUSH, LPOP, LRANGE and their kin.

use tembo_kv::Direction;

use crate::args::Args;
use crate::collection::{End, List};
use crate::command::{Command, Context, DENY_OOM, FAST, LIST, READ, WRITE};
use crate::commands::argument::{integer, positive, wrong_arity};
use crate::commands::listing::{AT_ONCE_MAX, list_range_later};
use crate::event_class::Classes;
use crate::failure::{Failure, NO_SUCH_KEY, Outcome, SYNTAX};
use crate::notify::{notify, notify_removed};
use crate::reply::Reply;

/// The family.
pub(super) const COMMANDS: &[Command] = &[
    Command::keyed("lpush", -3, LIST | WRITE | DENY_OOM | FAST, (1, 1, 1), lpush),
    Command::keyed("rpush", -3, LIST | WRITE | DENY_OOM | FAST, (1, 1, 1), rpush),
    Command::keyed("lpushx", -3, LIST | WRITE | DENY_OOM | FAST, (1, 1, 1), lpushx),
    Command::keyed("rpushx", -3, LIST | WRITE | DENY_OOM | FAST, (1, 1, 1), rpushx),
    Command::keyed("lpop", -2, LIST | WRITE | FAST, (1, 1, 1), lpop),
    Command::keyed("rpop", -2, LIST | WRITE | FAST, (1, 1, 1), rpop),
    Command::keyed("llen", 2, LIST | READ | FAST, (1, 1, 1), llen),
    Command::keyed("lindex", 3, LIST | READ, (1, 1, 1), lindex),
    Command::keyed("lset", 4, LIST | WRITE | DENY_OOM, (1, 1, 1), lset),
    Command::keyed("linsert", 5, LIST | WRITE | DENY_OOM, (1, 1, 1), linsert),
    Command::keyed("lrange", 4, LIST | READ, (1, 1, 1), lrange),
    Command::keyed("ltrim", 4, LIST | WRITE, (1, 1, 1), ltrim),
    Command::keyed("lrem", 4, LIST | WRITE, (1, 1, 1), lrem),
    Command::keyed("lpos", -3, LIST | READ, (1, 1, 1), lpos),
];

fn open<'d, 's>(context: &'d mut Context<'_, 's>, key: &'d [u8]) -> Result<List<'d, 's>, Failure> {
    List::open(context.data, (context.session.db, key))
}

fn push(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
    (end, only_present): (End, bool),
) -> Outcome {
    let place = (context.session.db, args.at(1));
    let change = (args.count() - 2, args.from(2).map(<[u8]>::len).sum());
    let count = List::change(context.data, place, change, |list| {
        if only_present && list.count() == 0 {
            return Ok(0);
        }
        args.from(2).try_for_each(|element| list.push(end, element))?;
        Ok(list.count())
    })?;
    if count > 0 {
        notify(context, Classes::LIST, end.push_event(), place.1);
    }
    reply.integer(count as i64);
    Ok(())
}

fn lpush(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    push(context, args, reply, (End::Left, false))
}

fn rpush(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    push(context, args, reply, (End::Right, false))
}

fn lpushx(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    push(context, args, reply, (End::Left, true))
}

fn rpushx(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    push(context, args, reply, (End::Right, true))
}

fn pop(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
    (end, name): (End, &str),
) -> Outcome {
    let place = (context.session.db, args.at(1));
    if args.count() > 3 {
        return Err(wrong_arity(name));
    }
    let wanted = if args.count() == 3 { Some(positive(args.at(2))?) } else { None };
    let count = List::open(context.data, place)?.count();
    if count == 0 {
        if wanted.is_some() {
            reply.null_array()
        } else {
            reply.null()
        }
        return Ok(());
    }
    let popped = pop_some(context, place, end, wanted.unwrap_or(1).min(count))?;
    if wanted.is_some() {
        reply.array(popped.len());
    }
    popped.iter().for_each(|element| reply.bulk(element));
    Ok(())
}

/// Pops so many elements, of which there are as many.
pub(super) fn pop_some(
    context: &mut Context<'_, '_>,
    place: (usize, &[u8]),
    end: End,
    count: u64,
) -> Result<Vec<Vec<u8>>, Failure> {
    let (popped, left) = List::change(context.data, place, (count as usize, 0), |list| {
        if count == 1 {
            let popped: Vec<_> = list.pop(end)?.into_iter().collect();
            return Ok((popped, list.count()));
        }
        let all = list.count();
        let range = if end == End::Left { 0..count } else { all - count..all };
        let mut elements = list.elements(range)?;
        if end == End::Left {
            list.drop_ends(count, 0)?;
        } else {
            elements.reverse();
            list.drop_ends(0, count)?;
        }
        Ok((elements, list.count()))
    })?;
    if count > 0 {
        notify_removed(context, (Classes::LIST, end.pop_event()), place.1, left);
    }
    Ok(popped)
}

fn lpop(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    pop(context, args, reply, (End::Left, "lpop"))
}

fn rpop(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    pop(context, args, reply, (End::Right, "rpop"))
}

fn llen(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    reply.integer(open(context, args.at(1))?.count() as i64);
    Ok(())
}

/// The index meant, of so many elements: negative ones count from the end.
fn index_in(index: i64, count: u64) -> Option<u64> {
    let index = if index < 0 { index.checked_add(count as i64)? } else { index };
    u64::try_from(index).ok().filter(|&index| index < count)
}

fn lindex(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let mut list = open(context, args.at(1))?;
    let count = list.count();
    if count == 0 {
        reply.null();
        return Ok(());
    }
    let index = index_in(integer(args.at(2))?, count);
    match index.map(|index| list.get(index)).transpose()?.flatten() {
        Some(element) => reply.bulk(&element),
        None => reply.null(),
    }
    Ok(())
}

fn lset(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (place, element) = ((context.session.db, args.at(1)), args.at(3));
    let count = List::open(context.data, place)?.count();
    if count == 0 {
        return Err(NO_SUCH_KEY.into());
    }
    let index = index_in(integer(args.at(2))?, count).ok_or("ERR index out of range")?;
    List::change(context.data, place, (1, element.len()), |list| list.set(index, element))?;
    notify(context, Classes::LIST, "lset", place.1);
    reply.ok();
    Ok(())
}

fn linsert(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (place, pivot, element) = ((context.session.db, args.at(1)), args.at(3), args.at(4));
    let is_before = args.is(2, "BEFORE");
    if !is_before && !args.is(2, "AFTER") {
        return Err(SYNTAX.into());
    }
    let mut list = List::open(context.data, place)?;
    let count = list.count();
    let mut found = None;
    list.visit(0..count, Direction::Forward, &mut |index, element| {
        if element.is(pivot) {
            found = Some(index);
        }
        found.is_none()
    })?;
    let Some(found) = found else {
        reply.integer(if count == 0 { 0 } else { -1 });
        return Ok(());
    };
    let index = if is_before { found } else { found + 1 };
    let moved = index.min(count - index) as usize + 2;
    List::change(context.data, place, (moved, element.len()), |list| list.insert(index, element))?;
    notify(context, Classes::LIST, "linsert", place.1);
    reply.integer(count as i64 + 1);
    Ok(())
}

/// The indices from `first` to `last`, both included, negative ones counted from the end.
fn range_in(first: i64, last: i64, count: u64) -> std::ops::Range<u64> {
    let count = count as i64;
    let from_end = |index: i64| if index < 0 { index.saturating_add(count) } else { index };
    let (first, last) = (from_end(first).max(0), from_end(last).min(count - 1));
    if first > last { 0..0 } else { first as u64..last as u64 + 1 }
}

fn lrange(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (first, last) = (integer(args.at(2))?, integer(args.at(3))?);
    let may_list_later = context.session.may_list_later();
    let mut list = open(context, args.at(1))?;
    let range = range_in(first, last, list.count());
    let is_long = range.end - range.start > AT_ONCE_MAX;
    if let Some(head) = list.head().filter(|_| is_long && may_list_later) {
        return list_range_later(context, head, &range, reply);
    }
    reply.array((range.end - range.start) as usize);
    list.visit(range, Direction::Forward, &mut |_, element| {
        reply.bulk_value(element);
        !reply.is_overflown()
    })
}

fn ltrim(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (first, last) = (integer(args.at(2))?, integer(args.at(3))?);
    let place = (context.session.db, args.at(1));
    let count = List::open(context.data, place)?.count();
    let range = range_in(first, last, count);
    if range.is_empty() {
        if count > 0 {
            context.data.remove(place.0, place.1)?;
        }
    } else {
        let (left, right) = (range.start, count - range.end);
        List::change(context.data, place, ((left + right) as usize, 0), |list| {
            list.drop_ends(left, right)
        })?;
    }
    if count > 0 {
        let left = range.end - range.start;
        notify_removed(context, (Classes::LIST, "ltrim"), place.1, left);
    }
    reply.ok();
    Ok(())
}

fn lrem(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let wanted = integer(args.at(2))?;
    let (place, removed) = ((context.session.db, args.at(1)), args.at(3));
    let most = if wanted == 0 { usize::MAX } else { wanted.unsigned_abs() as usize };
    let direction = if wanted < 0 { Direction::Backward } else { Direction::Forward };
    let mut list = List::open(context.data, place)?;
    let count = list.count();
    let mut indices = Vec::new();
    list.visit(0..count, direction, &mut |index, element| {
        if element.is(removed) {
            indices.push(index);
        }
        indices.len() < most
    })?;
    indices.sort_unstable();
    if !indices.is_empty() {
        List::change(context.data, place, (count as usize, 0), |list| list.remove(&indices))?;
        let left = count - indices.len() as u64;
        notify_removed(context, (Classes::LIST, "lrem"), place.1, left);
    }
    reply.integer(indices.len() as i64);
    Ok(())
}

/// The options of LPOS.
struct Search {
    rank: i64,
    count: Option<u64>,
    length_max: u64,
}

impl Search {
    fn parse(args: Args<'_>) -> Result<Search, Failure> {
        let mut search = Search { rank: 1, count: None, length_max: 0 };
        for at in (3..args.count()).step_by(2) {
            let number = args.at(at + 1);
            if at + 1 >= args.count() {
                return Err(SYNTAX.into());
            } else if args.is(at, "RANK") {
                search.rank = integer(number)?;
                if search.rank == 0 {
                    return Err(
                        "ERR RANK can't be zero: use 1 to start from the first match, 2 from the \
                                second ... or use negative to start from the end of the list"
                            .into(),
                    );
                }
            } else if args.is(at, "COUNT") {
                let count =
                    positive(number).map_err(|_| Failure::from("ERR COUNT can't be negative"))?;
                search.count = Some(count);
            } else if args.is(at, "MAXLEN") {
                search.length_max =
                    positive(number).map_err(|_| Failure::from("ERR MAXLEN can't be negative"))?;
            } else {
                return Err(SYNTAX.into());
            }
        }
        Ok(search)
    }
}

fn lpos(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let search = Search::parse(args)?;
    let mut list = open(context, args.at(1))?;
    let all = list.count();
    let (mut found, mut passed, mut compared) = (Vec::new(), search.rank.unsigned_abs() - 1, 0);
    let most = match search.count {
        None => 1,
        Some(0) => usize::MAX,
        Some(count) => count as usize,
    };
    let direction = if search.rank < 0 { Direction::Backward } else { Direction::Forward };
    list.visit(0..all, direction, &mut |index, element| {
        if element.is(args.at(2)) {
            if passed == 0 {
                found.push(index);
            }
            passed = passed.saturating_sub(1);
        }
        compared += 1;
        found.len() < most && (search.length_max == 0 || compared < search.length_max)
    })?;
    if search.count.is_some() {
        reply.array(found.len());
        found.iter().for_each(|&index| reply.integer(index as i64));
    } else {
        match found.first() {
            Some(&index) => reply.integer(index as i64),
            None => reply.null(),
        }
    }
    Ok(())
}
