//! Hashes: HSET, HGET, HDEL and their kin.

use crate::args::Args;
use crate::collection::{Hash, Hashes};
use crate::command::{Command, Context, DENY_OOM, FAST, HASH, READ, WRITE};
use crate::commands::argument::{integer, wrong_arity};
use crate::commands::listing::{list_later, put_off};
use crate::commands::sample::{Population, reply_random};
use crate::commands::scan::scan_collection;
use crate::effects::send_as;
use crate::element_listing::Shown;
use crate::event_class::Classes;
use crate::failure::{Failure, Outcome};
use crate::float::Float;
use crate::notify::{notify, notify_removed};
use crate::number::{Decimal, parse_integer};
use crate::reply::Reply;

/// The family.
pub(super) const COMMANDS: &[Command] = &[
    Command::keyed("hset", -4, HASH | WRITE | DENY_OOM | FAST, (1, 1, 1), hset),
    Command::keyed("hmset", -4, HASH | WRITE | DENY_OOM | FAST, (1, 1, 1), hmset),
    Command::keyed("hsetnx", 4, HASH | WRITE | DENY_OOM | FAST, (1, 1, 1), hsetnx),
    Command::keyed("hget", 3, HASH | READ | FAST, (1, 1, 1), hget),
    Command::keyed("hmget", -3, HASH | READ | FAST, (1, 1, 1), hmget),
    Command::keyed("hgetall", 2, HASH | READ, (1, 1, 1), hgetall),
    Command::keyed("hkeys", 2, HASH | READ, (1, 1, 1), hkeys),
    Command::keyed("hvals", 2, HASH | READ, (1, 1, 1), hvals),
    Command::keyed("hlen", 2, HASH | READ | FAST, (1, 1, 1), hlen),
    Command::keyed("hexists", 3, HASH | READ | FAST, (1, 1, 1), hexists),
    Command::keyed("hstrlen", 3, HASH | READ | FAST, (1, 1, 1), hstrlen),
    Command::keyed("hdel", -3, HASH | WRITE | FAST, (1, 1, 1), hdel),
    Command::keyed("hincrby", 4, HASH | WRITE | DENY_OOM | FAST, (1, 1, 1), hincrby),
    Command::keyed("hincrbyfloat", 4, HASH | WRITE | DENY_OOM | FAST, (1, 1, 1), hincrbyfloat),
    Command::keyed("hrandfield", -2, HASH | READ, (1, 1, 1), hrandfield),
    Command::keyed("hscan", -3, HASH | READ, (1, 1, 1), hscan),
];

fn open<'d, 's>(context: &'d mut Context<'_, 's>, key: &'d [u8]) -> Result<Hash<'d, 's>, Failure> {
    Hash::open(context.data, (context.session.db, key))
}

/// Sets the fields; how many were added.
fn set_all(context: &mut Context<'_, '_>, args: Args<'_>, name: &str) -> Result<i64, Failure> {
    if !args.count().is_multiple_of(2) {
        return Err(wrong_arity(name));
    }
    let place = (context.session.db, args.at(1));
    let change = (args.count() / 2 - 1, args.from(2).map(<[u8]>::len).sum());
    let added = Hash::change(context.data, place, change, |hash| {
        let pairs = (2..args.count()).step_by(2);
        pairs
            .into_iter()
            .try_fold(0, |added, at| Ok(added + i64::from(hash.set(args.at(at), args.at(at + 1))?)))
    })?;
    notify(context, Classes::HASH, "hset", place.1);
    Ok(added)
}

fn hset(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    reply.integer(set_all(context, args, "hset")?);
    Ok(())
}

fn hmset(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    set_all(context, args, "hmset")?;
    reply.ok();
    Ok(())
}

fn hsetnx(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (place, field, value) = ((context.session.db, args.at(1)), args.at(2), args.at(3));
    let size = field.len() + value.len();
    let is_set = Hash::change(context.data, place, (1, size), |hash| {
        if hash.get(field)?.is_some() { Ok(false) } else { hash.set(field, value).map(|_| true) }
    })?;
    if is_set {
        notify(context, Classes::HASH, "hset", place.1);
    }
    reply.flag(is_set);
    Ok(())
}

fn get_one(hash: &mut Hash<'_, '_>, field: &[u8], reply: &mut Reply) -> Outcome {
    match hash.get(field)? {
        Some(value) => reply.bulk_value(value),
        None => reply.null(),
    }
    Ok(())
}

fn hget(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    get_one(&mut open(context, args.at(1))?, args.at(2), reply)
}

fn hmget(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let mut hash = open(context, args.at(1))?;
    reply.array(args.count() - 2);
    args.from(2).try_for_each(|field| get_one(&mut hash, field, reply))
}

/// Replies with all entries.
fn show(context: &mut Context<'_, '_>, key: &[u8], shown: Shown, reply: &mut Reply) -> Outcome {
    let may_list_later = context.session.may_list_later();
    let mut hash = open(context, key)?;
    if let Some(id) = put_off(may_list_later, hash.large()) {
        return list_later(context, id, shown, reply);
    }
    let count = hash.count_there()? as usize;
    shown.begin(count, reply);
    hash.visit(None, &mut |field, value| {
        shown.field(field, value, reply);
        !reply.is_overflown()
    })
}

fn hgetall(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    show(context, args.at(1), Shown::Both, reply)
}

fn hkeys(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    show(context, args.at(1), Shown::Fields, reply)
}

fn hvals(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    show(context, args.at(1), Shown::Values, reply)
}

fn hlen(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    reply.integer(open(context, args.at(1))?.count_there()? as i64);
    Ok(())
}

fn hexists(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    reply.flag(open(context, args.at(1))?.get(args.at(2))?.is_some());
    Ok(())
}

fn hstrlen(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let mut hash = open(context, args.at(1))?;
    reply.integer(hash.get(args.at(2))?.map_or(0, |value| value.len() as i64));
    Ok(())
}

fn hdel(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let place = (context.session.db, args.at(1));
    let (removed, left) = Hash::change(context.data, place, (args.count() - 2, 0), |hash| {
        let mut removed = 0;
        for field in args.from(2) {
            removed += i64::from(hash.remove(field)?);
        }
        Ok((removed, hash.count()))
    })?;
    if removed > 0 {
        notify_removed(context, (Classes::HASH, "hdel"), place.1, left);
    }
    reply.integer(removed);
    Ok(())
}

fn hincrby(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (place, field) = ((context.session.db, args.at(1)), args.at(2));
    let by = integer(args.at(3))?;
    let sum = Hash::change(context.data, place, (1, field.len() + 20), |hash| {
        let old = match hash.get(field)? {
            Some(value) => value.with(parse_integer).ok_or("ERR hash value is not an integer")?,
            None => 0,
        };
        let sum = old.checked_add(by).ok_or("ERR increment or decrement would overflow")?;
        hash.set_and_keep_expiry(field, Decimal::signed(sum).as_bytes())?;
        Ok(sum)
    })?;
    notify(context, Classes::HASH, "hincrby", place.1);
    reply.integer(sum);
    Ok(())
}

fn hincrbyfloat(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (place, field) = ((context.session.db, args.at(1)), args.at(2));
    let by = Float::parse(args.at(3)).ok_or("ERR value is not a valid float")?;
    if !by.is_finite() {
        return Err("ERR value is NaN or Infinity".into());
    }
    let sum = Hash::change(context.data, place, (1, field.len() + 64), |hash| {
        let old = match hash.get(field)? {
            Some(value) => value.with(Float::parse).ok_or("ERR hash value is not a float")?,
            None => Float::Fixed(0),
        };
        let sum = old.add(by).ok_or("ERR increment would produce NaN or Infinity")?.text();
        hash.set_and_keep_expiry(field, sum.as_bytes())?;
        Ok(sum)
    })?;
    send_as(context, &[b"HSET", place.1, field, sum.as_bytes()]);
    notify(context, Classes::HASH, "hincrbyfloat", place.1);
    reply.bulk(sum.as_bytes());
    Ok(())
}

impl Population for Hash<'_, '_> {
    fn entries(&mut self) -> Result<u64, Failure> {
        self.count_there()
    }

    fn all(&mut self) -> Result<Vec<Vec<u8>>, Failure> {
        let mut fields = Vec::new();
        self.visit(None, &mut |field, _| {
            fields.push(field.to_vec());
            true
        })?;
        Ok(fields)
    }

    fn one(&mut self, random: &mut dyn FnMut() -> u64) -> Result<Option<Vec<u8>>, Failure> {
        self.random(random)
    }

    fn reply_value(&mut self, field: &[u8], reply: &mut Reply) -> Outcome {
        get_one(self, field, reply)
    }
}

fn hrandfield(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    reply_random::<Hashes>(context, args, Some("WITHVALUES"), reply)
}

fn hscan(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    scan_collection(context, args, reply, |hash: &mut Hash<'_, '_>, behind, page| {
        hash.visit(behind, &mut |field, value| {
            page.visit(field, |found| {
                found.bulk(field);
                found.bulk_value(value);
                2
            })
        })
    })
}
