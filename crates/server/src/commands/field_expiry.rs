//! Expiry of the fields of a hash: HEXPIRE and its kin, HPERSIST, HTTL and its kin.

use crate::args::Args;
use crate::collection::Hash;
use crate::command::{Command, Context, DENY_OOM, FAST, HASH, READ, WRITE};
use crate::commands::argument::integer;
use crate::commands::expire::{Condition, Unit};
use crate::effects::{send_as, send_nothing};
use crate::event_class::Classes;
use crate::failure::{Failure, Outcome};
use crate::notify::{notify, notify_removed};
use crate::reply::Reply;

/// The family.
pub(super) const COMMANDS: &[Command] = &[
    Command::keyed("hexpire", -6, HASH | WRITE | DENY_OOM | FAST, (1, 1, 1), hexpire),
    Command::keyed("hpexpire", -6, HASH | WRITE | DENY_OOM | FAST, (1, 1, 1), hpexpire),
    Command::keyed("hexpireat", -6, HASH | WRITE | DENY_OOM | FAST, (1, 1, 1), hexpireat),
    Command::keyed("hpexpireat", -6, HASH | WRITE | DENY_OOM | FAST, (1, 1, 1), hpexpireat),
    Command::keyed("hpersist", -5, HASH | WRITE | FAST, (1, 1, 1), hpersist),
    Command::keyed("httl", -5, HASH | READ | FAST, (1, 1, 1), httl),
    Command::keyed("hpttl", -5, HASH | READ | FAST, (1, 1, 1), hpttl),
    Command::keyed("hexpiretime", -5, HASH | READ | FAST, (1, 1, 1), hexpiretime),
    Command::keyed("hpexpiretime", -5, HASH | READ | FAST, (1, 1, 1), hpexpiretime),
];

/// The latest time that a field can expire at, in milliseconds since 1970, as in Redis.
const EXPIRY_MAX: u64 = (1 << 46) - 1;

/// More than the bytes of a small hash.
const LARGE: usize = 4096;

/// What the reply says of a field.
const NO_FIELD: i64 = -2;
const NO_EXPIRY: i64 = -1;
const NOT_ALLOWED: i64 = 0;
const DONE: i64 = 1;
const REMOVED: i64 = 2;

const EACH_SECOND: Unit = Unit { seconds: true, relative: true };
const EACH_MS: Unit = Unit { seconds: false, relative: true };
const AT_SECOND: Unit = Unit { seconds: true, relative: false };
const AT_MS: Unit = Unit { seconds: false, relative: false };

fn hexpire(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    expire(context, args, reply, (EACH_SECOND, "hexpire"))
}

fn hpexpire(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    expire(context, args, reply, (EACH_MS, "hpexpire"))
}

fn hexpireat(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    expire(context, args, reply, (AT_SECOND, "hexpireat"))
}

fn hpexpireat(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    expire(context, args, reply, (AT_MS, "hpexpireat"))
}

fn httl(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    remaining(context, args, reply, EACH_SECOND)
}

fn hpttl(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    remaining(context, args, reply, EACH_MS)
}

fn hexpiretime(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    remaining(context, args, reply, AT_SECOND)
}

fn hpexpiretime(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    remaining(context, args, reply, AT_MS)
}

/// The place of the first field: behind FIELDS and how many there are, which begin at `at`.
fn first_field(args: Args<'_>, at: usize) -> Result<usize, Failure> {
    if !args.is(at, "FIELDS") {
        return Err("ERR Mandatory argument FIELDS is missing or not at the right position".into());
    }
    let count = integer(args.at(at + 1)).ok().filter(|&count| count > 0);
    let count = count.ok_or("ERR Parameter `numFields` should be greater than 0")?;
    if count as usize != args.count() - (at + 2) {
        return Err("ERR The `numfields` parameter must match the number of arguments".into());
    }
    Ok(at + 2)
}

/// The condition, if there is one, and where FIELDS stands.
fn condition(args: Args<'_>) -> (Condition, usize) {
    let is = |name| args.is(3, name);
    let condition = Condition { nx: is("NX"), xx: is("XX"), gt: is("GT"), lt: is("LT") };
    let is_any = condition.nx || condition.xx || condition.gt || condition.lt;
    (condition, if is_any { 4 } else { 3 })
}

fn expire(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
    (unit, name): (Unit, &str),
) -> Outcome {
    let number = integer(args.at(2))?;
    if number < 0 {
        return Err("ERR invalid expire time, must be >= 0".into());
    }
    let (place, now_ms) = ((context.session.db, args.at(1)), context.data.now_ms());
    let at_ms = unit.absolute_ms(number, now_ms).and_then(|at_ms| u64::try_from(at_ms).ok());
    let Some(at_ms) = at_ms.filter(|&at_ms| at_ms <= EXPIRY_MAX) else {
        return Err(format!("ERR invalid expire time in '{name}' command").into());
    };
    let (condition, at) = condition(args);
    let first = first_field(args, at)?;
    let fields = args.count() - first;
    Hash::open(context.data, place)?;
    // A small hash becomes a large one, in several steps.
    let sizes = args.from(first).map(|field| field.len() * 2).sum::<usize>();
    let change = (fields * 2 + 1, LARGE + sizes);
    let (answers, left) = Hash::change(context.data, place, change, |hash| {
        let answers = args.from(first).map(|field| {
            let Some(old_ms) = hash.expiry(field)? else { return Ok(NO_FIELD) };
            if !condition.allows(old_ms.map(|old_ms| old_ms as i64), at_ms as i64) {
                return Ok(NOT_ALLOWED);
            }
            if at_ms <= now_ms {
                hash.remove(field)?;
                return Ok(REMOVED);
            }
            hash.set_expiry(field, Some(at_ms))?;
            Ok(DONE)
        });
        let answers = answers.collect::<Result<Vec<i64>, Failure>>()?;
        Ok((answers, hash.count()))
    })?;
    send_removed(context, args, (first, &answers));
    if answers.contains(&DONE) {
        notify(context, Classes::HASH, "hexpire", place.1);
    }
    if answers.contains(&REMOVED) {
        notify_removed(context, (Classes::HASH, "hdel"), place.1, left);
    }
    show(&answers, reply);
    Ok(())
}

/// To a server of Redis, which may not know that fields expire, it is sent which of them are removed.
fn send_removed(context: &mut Context<'_, '_>, args: Args<'_>, (first, answers): (usize, &[i64])) {
    send_nothing(context);
    if context.shared.propagation.is_on && answers.contains(&REMOVED) {
        let fields = args.from(first).zip(answers);
        let removed = fields.filter(|(_, answer)| **answer == REMOVED).map(|(field, _)| field);
        let words: Vec<&[u8]> =
            [b"HDEL".as_slice(), args.at(1)].into_iter().chain(removed).collect();
        send_as(context, &words);
    }
}

fn show(answers: &[i64], reply: &mut Reply) {
    reply.array(answers.len());
    answers.iter().for_each(|&answer| reply.integer(answer));
}

fn hpersist(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (place, first) = ((context.session.db, args.at(1)), first_field(args, 2)?);
    let change = (args.count() - first, 0);
    let answers = Hash::change(context.data, place, change, |hash| {
        let answers = args.from(first).map(|field| match hash.expiry(field)? {
            None => Ok(NO_FIELD),
            Some(None) => Ok(NO_EXPIRY),
            Some(Some(_)) => {
                hash.set_expiry(field, None)?;
                Ok(DONE)
            }
        });
        answers.collect::<Result<Vec<i64>, Failure>>()
    })?;
    send_nothing(context);
    if answers.contains(&DONE) {
        notify(context, Classes::HASH, "hpersist", place.1);
    }
    show(&answers, reply);
    Ok(())
}

fn remaining(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
    unit: Unit,
) -> Outcome {
    let (first, now_ms) = (first_field(args, 2)?, context.data.now_ms());
    let mut hash = Hash::open(context.data, (context.session.db, args.at(1)))?;
    reply.array(args.count() - first);
    for field in args.from(first) {
        reply.integer(match hash.expiry(field)? {
            None => NO_FIELD,
            Some(None) => NO_EXPIRY,
            Some(Some(at_ms)) => {
                let ms = if unit.relative { at_ms.saturating_sub(now_ms) } else { at_ms };
                (if unit.seconds { ms.div_ceil(1000) } else { ms }) as i64
            }
        });
    }
    Ok(())
}
