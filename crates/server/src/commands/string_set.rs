//! Strings set with options: SET, SETNX, SETEX, PSETEX, GETSET, GETEX, GETDEL, MSET, MSETNX.

use crate::args::Args;
use crate::command::{Command, Context, DENY_OOM, FAST, WRITE};
use crate::commands::argument::integer;
use crate::commands::expire::{Unit, send_expiry};
use crate::effects::send_as;
use crate::event_class::Classes;
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::notify::notify;
use crate::reply::Reply;

/// The family.
pub(super) const COMMANDS: &[Command] = &[
    Command::keyed("set", -3, WRITE | DENY_OOM, (1, 1, 1), set),
    Command::keyed("setnx", 3, WRITE | DENY_OOM | FAST, (1, 1, 1), setnx),
    Command::keyed("setex", 4, WRITE | DENY_OOM, (1, 1, 1), setex),
    Command::keyed("psetex", 4, WRITE | DENY_OOM, (1, 1, 1), psetex),
    Command::keyed("getset", 3, WRITE | DENY_OOM | FAST, (1, 1, 1), getset),
    Command::keyed("getex", -2, WRITE | FAST, (1, 1, 1), getex),
    Command::keyed("getdel", 2, WRITE | FAST, (1, 1, 1), getdel),
    Command::keyed("mset", -3, WRITE | DENY_OOM, (1, -1, 2), mset),
    Command::keyed("msetnx", -3, WRITE | DENY_OOM, (1, -1, 2), msetnx),
];

/// The options of SET and GETEX.
#[derive(Default)]
struct Options<'a> {
    nx: bool,
    xx: bool,
    get: bool,
    keep_ttl: bool,
    persist: bool,
    expiry: Option<(Unit, &'a [u8])>,
}

impl<'a> Options<'a> {
    fn parse(args: Args<'a>, first: usize, getex: bool) -> Result<Options<'a>, Failure> {
        let mut options = Options::default();
        let mut at = first;
        while at < args.count() {
            let no_ttl_option = !options.keep_ttl && !options.persist;
            let unit = unit(args.at(at));
            let same_unit = options.expiry.is_none_or(|(other, _)| Some(other) == unit);
            if !getex && args.is(at, "NX") && !options.xx {
                options.nx = true;
            } else if !getex && args.is(at, "XX") && !options.nx {
                options.xx = true;
            } else if !getex && args.is(at, "GET") {
                options.get = true;
            } else if !getex
                && args.is(at, "KEEPTTL")
                && !options.persist
                && options.expiry.is_none()
            {
                options.keep_ttl = true;
            } else if getex && args.is(at, "PERSIST") && options.expiry.is_none() {
                options.persist = true;
            } else if let Some(unit) = unit
                && no_ttl_option
                && same_unit
                && at + 1 < args.count()
            {
                options.expiry = Some((unit, args.at(at + 1)));
                at += 1;
            } else {
                return Err(SYNTAX.into());
            }
            at += 1;
        }
        Ok(options)
    }

    /// The expiry asked for, in milliseconds since 1970.
    fn expiry_ms(&self, context: &Context<'_, '_>, name: &str) -> Result<Option<u64>, Failure> {
        match self.expiry {
            Some((unit, text)) => Ok(Some(expiry_ms(context, unit, text, name)?)),
            None => Ok(None),
        }
    }
}

fn unit(option: &[u8]) -> Option<Unit> {
    let mut upper = [0; 4];
    let size = option.len();
    if size > upper.len() {
        return None;
    }
    upper[..size].copy_from_slice(option);
    upper.make_ascii_uppercase();
    let (seconds, relative) = match &upper[..size] {
        b"EX" => (true, true),
        b"PX" => (false, true),
        b"EXAT" => (true, false),
        b"PXAT" => (false, false),
        _ => return None,
    };
    Some(Unit { seconds, relative })
}

fn expiry_ms(
    context: &Context<'_, '_>,
    unit: Unit,
    text: &[u8],
    name: &str,
) -> Result<u64, Failure> {
    let number = integer(text)?;
    let at_ms = unit.absolute_ms(number, context.data.now_ms());
    match at_ms.map(u64::try_from) {
        Some(Ok(at_ms)) if number > 0 => Ok(at_ms),
        _ => Err(format!("ERR invalid expire time in '{name}' command").into()),
    }
}

fn set(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (db, key, payload) = (context.session.db, args.at(1), args.at(2));
    if args.count() == 3 {
        context.data.put(db, key, payload, None)?;
        notify(context, Classes::STRING, "set", key);
        reply.ok();
        return Ok(());
    }
    let options = Options::parse(args, 3, false)?;
    let mut expiry = options.expiry_ms(context, "set")?;
    if options.nx || options.xx || options.get || options.keep_ttl {
        let old =
            if options.get { context.data.get(db, key)? } else { context.data.find(db, key)? };
        let found = old.is_some();
        match old {
            Some(old) if options.get => reply.bulk_value(old.payload),
            None if options.get => reply.null(),
            _ => {}
        }
        if options.keep_ttl {
            expiry = old.and_then(|old| old.expiry_ms);
        }
        if options.nx && found || options.xx && !found {
            if !options.get {
                reply.null();
            }
            return Ok(());
        }
    }
    context.data.put(db, key, payload, expiry)?;
    notify(context, Classes::STRING, "set", key);
    if options.expiry.is_some() {
        send_set(context, (key, payload), expiry);
        notify(context, Classes::GENERIC, "expire", key);
    }
    if !options.get {
        reply.ok();
    }
    Ok(())
}

/// SET is sent with the time at which the key expires.
fn send_set(context: &mut Context<'_, '_>, (key, payload): (&[u8], &[u8]), expiry: Option<u64>) {
    if let Some(at_ms) = expiry.filter(|_| context.shared.propagation.is_on) {
        send_as(context, &[b"SET", key, payload, b"PXAT", at_ms.to_string().as_bytes()]);
    }
}

fn setnx(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (db, key) = (context.session.db, args.at(1));
    let free = !context.data.contains(db, key)?;
    if free {
        context.data.put(db, key, args.at(2), None)?;
        notify(context, Classes::STRING, "set", key);
    }
    reply.flag(free);
    Ok(())
}

fn setex(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    set_expiring(context, args, reply, true, "setex")
}

fn psetex(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    set_expiring(context, args, reply, false, "psetex")
}

fn set_expiring(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
    seconds: bool,
    name: &str,
) -> Outcome {
    let at_ms = expiry_ms(context, Unit { seconds, relative: true }, args.at(2), name)?;
    context.data.put(context.session.db, args.at(1), args.at(3), Some(at_ms))?;
    send_set(context, (args.at(1), args.at(3)), Some(at_ms));
    notify(context, Classes::STRING, "set", args.at(1));
    notify(context, Classes::GENERIC, "expire", args.at(1));
    reply.ok();
    Ok(())
}

fn getset(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (db, key) = (context.session.db, args.at(1));
    match context.data.get(db, key)? {
        Some(old) => reply.bulk_value(old.payload),
        None => reply.null(),
    }
    context.data.put(db, key, args.at(2), None)?;
    send_as(context, &[b"SET", key, args.at(2)]);
    notify(context, Classes::STRING, "set", key);
    Ok(())
}

fn getdel(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (db, key) = (context.session.db, args.at(1));
    match context.data.get(db, key)? {
        Some(old) => reply.bulk_value(old.payload),
        None => {
            reply.null();
            return Ok(());
        }
    }
    context.data.remove(db, key)?;
    send_as(context, &[b"DEL", key]);
    notify(context, Classes::GENERIC, "del", key);
    Ok(())
}

fn getex(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let options = Options::parse(args, 2, true)?;
    let (db, key, now_ms) = (context.session.db, args.at(1), context.data.now_ms());
    let (payload, old_ms) = match context.data.get(db, key)? {
        None => {
            reply.null();
            return Ok(());
        }
        Some(value) if options.expiry.is_none() && !options.persist => {
            reply.bulk_value(value.payload);
            return Ok(());
        }
        Some(value) => (value.payload.to_vec(), value.expiry_ms),
    };
    let new_ms = options.expiry_ms(context, "getex")?;
    reply.bulk(&payload);
    if new_ms.is_some_and(|at_ms| at_ms <= now_ms) {
        context.data.remove(db, key)?;
        send_as(context, &[b"DEL", key]);
        notify(context, Classes::GENERIC, "del", key);
    } else if new_ms != old_ms
        && let Some(value) = context.data.find(db, key)?
    {
        // As it lies in the store: of a large one its bytes stay where they are.
        let (of, payload) = (value.of, value.payload.to_vec());
        context.data.put_value((db, key), of, &payload, new_ms)?;
    }
    match new_ms {
        Some(at_ms) if at_ms > now_ms => {
            send_expiry(context, key, at_ms);
            notify(context, Classes::GENERIC, "expire", key);
        }
        None if old_ms.is_some() => {
            send_as(context, &[b"PERSIST", key]);
            notify(context, Classes::GENERIC, "persist", key);
        }
        _ => {}
    }
    Ok(())
}

fn mset(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.count().is_multiple_of(2) {
        return Err("ERR wrong number of arguments for 'mset' command".into());
    }
    set_all(context, args)?;
    reply.ok();
    Ok(())
}

fn msetnx(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.count().is_multiple_of(2) {
        return Err("ERR wrong number of arguments for 'msetnx' command".into());
    }
    for key in args.from(1).step_by(2) {
        if context.data.contains(context.session.db, key)? {
            reply.flag(false);
            return Ok(());
        }
    }
    set_all(context, args)?;
    reply.flag(true);
    Ok(())
}

fn set_all(context: &mut Context<'_, '_>, args: Args<'_>) -> Outcome {
    let db = context.session.db;
    let at = (1..args.count()).step_by(2);
    let strings: Vec<(&[u8], &[u8])> = at.map(|at| (args.at(at), args.at(at + 1))).collect();
    context.data.put_strings(db, &strings)?;
    strings.iter().for_each(|(key, _)| notify(context, Classes::STRING, "set", key));
    Ok(())
}
