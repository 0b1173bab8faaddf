//! Sets: SADD, SREM, SINTER and their kin.

mod join;

use std::ops::Bound;

use crate::args::Args;
use crate::collection::{Set, Sets};
use crate::command::{Command, Context, DENY_OOM, FAST, MOVABLE_KEYS, READ, SET, WRITE};
use crate::commands::argument::positive;
use crate::commands::listing::{list_later, put_off};
use crate::commands::sample::{Population, READ_PER_DRAW, distinct, reply_random};
use crate::commands::scan::scan_collection;
use crate::effects::send_as;
use crate::element_listing::Shown;
use crate::event_class::Classes;
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::notify::{notify, notify_removed};
use crate::reply::Reply;

/// The family.
pub(super) const COMMANDS: &[Command] = &[
    Command::keyed("sadd", -3, SET | WRITE | DENY_OOM | FAST, (1, 1, 1), sadd),
    Command::keyed("srem", -3, SET | WRITE | FAST, (1, 1, 1), srem),
    Command::keyed("smove", 4, SET | WRITE | FAST, (1, 2, 1), smove),
    Command::keyed("sismember", 3, SET | READ | FAST, (1, 1, 1), sismember),
    Command::keyed("smismember", -3, SET | READ | FAST, (1, 1, 1), smismember),
    Command::keyed("smembers", 2, SET | READ, (1, 1, 1), smembers),
    Command::keyed("scard", 2, SET | READ | FAST, (1, 1, 1), scard),
    Command::keyed("spop", -2, SET | WRITE | FAST, (1, 1, 1), spop),
    Command::keyed("srandmember", -2, SET | READ, (1, 1, 1), srandmember),
    Command::keyed("sinter", -2, SET | READ, (1, -1, 1), join::sinter),
    Command::keyed("sinterstore", -3, SET | WRITE | DENY_OOM, (1, -1, 1), join::sinterstore),
    Command::keyed("sintercard", -3, SET | READ | MOVABLE_KEYS, (0, 0, 0), join::sintercard),
    Command::keyed("sunion", -2, SET | READ, (1, -1, 1), join::sunion),
    Command::keyed("sunionstore", -3, SET | WRITE | DENY_OOM, (1, -1, 1), join::sunionstore),
    Command::keyed("sdiff", -2, SET | READ, (1, -1, 1), join::sdiff),
    Command::keyed("sdiffstore", -3, SET | WRITE | DENY_OOM, (1, -1, 1), join::sdiffstore),
    Command::keyed("sscan", -3, SET | READ, (1, 1, 1), sscan),
];

fn open<'d, 's>(context: &'d mut Context<'_, 's>, key: &'d [u8]) -> Result<Set<'d, 's>, Failure> {
    Set::open(context.data, (context.session.db, key))
}

fn sadd(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let place = (context.session.db, args.at(1));
    let change = (args.count() - 2, args.from(2).map(<[u8]>::len).sum());
    let added = Set::change(context.data, place, change, |set| {
        args.from(2).try_fold(0, |added, member| Ok(added + i64::from(set.add(member)?)))
    })?;
    if added > 0 {
        notify(context, Classes::SET, "sadd", place.1);
    }
    reply.integer(added);
    Ok(())
}

fn srem(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let place = (context.session.db, args.at(1));
    let (removed, left) = Set::change(context.data, place, (args.count() - 2, 0), |set| {
        let mut removed = 0;
        for member in args.from(2) {
            removed += i64::from(set.remove(member)?);
        }
        Ok((removed, set.count()))
    })?;
    if removed > 0 {
        notify_removed(context, (Classes::SET, "srem"), place.1, left);
    }
    reply.integer(removed);
    Ok(())
}

fn smove(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (db, member) = (context.session.db, args.at(3));
    let (from, to) = ((db, args.at(1)), (db, args.at(2)));
    if Set::open(context.data, from)?.count() == 0 {
        reply.flag(false);
        return Ok(());
    }
    Set::open(context.data, to)?;
    if from == to || !Set::open(context.data, from)?.contains(member)? {
        reply.flag(Set::open(context.data, from)?.contains(member)?);
        return Ok(());
    }
    let (left, is_added) = context.data.atomically(member.len(), |data| {
        let mut source = Set::open(data, from)?;
        source.remove(member)?;
        let left = source.count();
        source.save()?;
        let mut target = Set::open(data, to)?;
        let is_added = target.add(member)?;
        target.save()?;
        Ok((left, is_added))
    })?;
    // Redis publishes the member's removal before it adds the key.
    let added = context.data.added.take();
    notify_removed(context, (Classes::SET, "srem"), from.1, left);
    context.data.added.put_back(added);
    if is_added {
        notify(context, Classes::SET, "sadd", to.1);
    }
    reply.flag(true);
    Ok(())
}

fn sismember(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    reply.flag(open(context, args.at(1))?.contains(args.at(2))?);
    Ok(())
}

fn smismember(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let mut set = open(context, args.at(1))?;
    reply.array(args.count() - 2);
    for member in args.from(2) {
        reply.flag(set.contains(member)?);
    }
    Ok(())
}

fn scard(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    reply.integer(open(context, args.at(1))?.count() as i64);
    Ok(())
}

impl Population for Set<'_, '_> {
    fn entries(&mut self) -> Result<u64, Failure> {
        Ok(Set::count(self))
    }

    fn all(&mut self) -> Result<Vec<Vec<u8>>, Failure> {
        self.members()
    }

    fn one(&mut self, random: &mut dyn FnMut() -> u64) -> Result<Option<Vec<u8>>, Failure> {
        self.random(random)
    }

    fn reply_value(&mut self, _: &[u8], _: &mut Reply) -> Outcome {
        Ok(())
    }
}

fn spop(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let shared = &mut *context.shared;
    let mut random = || shared.random();
    let place = (context.session.db, args.at(1));
    if args.count() > 3 {
        return Err(SYNTAX.into());
    }
    let count = if args.count() == 3 { positive(args.at(2))? } else { 1 };
    let mut set = Set::open(context.data, place)?;
    let all = Set::count(&set);
    let is_all = count >= all;
    let popped = if is_all || count.saturating_mul(READ_PER_DRAW) >= all {
        let popped = distinct(&mut set, count, &mut random)?;
        if is_all && !popped.is_empty() {
            context.data.remove(place.0, place.1)?;
        } else if !popped.is_empty() {
            Set::change(context.data, place, (popped.len(), 0), |set| {
                popped.iter().try_for_each(|member| set.remove(member).map(drop))
            })?;
        }
        popped
    } else if count > 0 {
        Set::change(context.data, place, (count as usize, 0), |set| {
            let mut popped = Vec::new();
            while (popped.len() as u64) < count
                && let Some(member) = set.pop(&mut random)?
            {
                popped.push(member);
            }
            Ok(popped)
        })?
    } else {
        Vec::new()
    };
    if !popped.is_empty() {
        send_removed(context, place.1, (&popped, is_all && args.count() == 3));
        notify_removed(context, (Classes::SET, "spop"), place.1, u64::from(!is_all));
    }
    match popped.first() {
        _ if args.count() == 3 => {
            reply.set(popped.len());
            popped.iter().for_each(|member| reply.bulk(member));
        }
        Some(member) => reply.bulk(member),
        None => reply.null(),
    }
    Ok(())
}

/// What SPOP has chosen is sent as SREM, or as DEL where it has asked for all members.
fn send_removed(context: &mut Context<'_, '_>, key: &[u8], (members, is_all): (&[Vec<u8>], bool)) {
    if !context.shared.propagation.is_on {
        return;
    }
    let mut words = vec![if is_all { b"DEL".as_slice() } else { b"SREM" }, key];
    if !is_all {
        words.extend(members.iter().map(Vec::as_slice));
    }
    send_as(context, &words);
}

fn srandmember(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    reply_random::<Sets>(context, args, None, reply)
}

fn smembers(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let may_list_later = context.session.may_list_later();
    let mut set = open(context, args.at(1))?;
    if let Some(id) = put_off(may_list_later, set.large()) {
        return list_later(context, id, Shown::Members, reply);
    }
    reply.set(set.count() as usize);
    set.visit(Bound::Unbounded, &mut |member| {
        reply.bulk(member);
        !reply.is_overflown()
    })
}

fn sscan(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    scan_collection(context, args, reply, |set: &mut Set<'_, '_>, behind, page| {
        set.visit(behind.map_or(Bound::Unbounded, Bound::Excluded), &mut |member| {
            page.visit(member, |found| {
                found.bulk(member);
                1
            })
        })
    })
}
