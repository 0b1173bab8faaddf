//! DUMP and RESTORE.

use crate::args::Args;
use crate::command::{Command, Context, DENY_OOM, READ, WRITE};
use crate::commands::argument::integer;
use crate::dump;
use crate::effects::{send_as, send_state};
use crate::event_class::Classes;
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::notify::notify;
use crate::rdb::{self, Broken, Reader};
use crate::reply::Reply;

/// The family.
pub(super) const COMMANDS: &[Command] = &[
    Command::keyed("dump", 2, READ, (1, 1, 1), dump),
    Command::keyed("restore", -4, WRITE | DENY_OOM, (1, 1, 1), restore),
];

fn dump(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    match dump::read(context.data, (context.session.db, args.at(1)))? {
        Some(mut value) => {
            rdb::seal(&mut value);
            reply.bulk(&value);
        }
        None => reply.null(),
    }
    Ok(())
}

/// The options of RESTORE.
#[derive(Default)]
struct Options {
    replace: bool,
    is_absolute: bool,
    /// Seconds since the key was last used.
    idle_s: Option<u64>,
    /// How often it was used.
    uses: Option<u8>,
}

impl Options {
    fn parse(args: Args<'_>) -> Result<Options, Failure> {
        let mut options = Options::default();
        let mut at = 4;
        while at < args.count() {
            let has_more = at + 1 < args.count();
            if args.is(at, "REPLACE") {
                options.replace = true;
            } else if args.is(at, "ABSTTL") {
                options.is_absolute = true;
            } else if args.is(at, "IDLETIME") && has_more && options.uses.is_none() {
                let idle_s = u64::try_from(integer(args.at(at + 1))?);
                options.idle_s =
                    Some(idle_s.map_err(|_| "ERR Invalid IDLETIME value, must be >= 0")?);
                at += 1;
            } else if args.is(at, "FREQ") && has_more && options.idle_s.is_none() {
                let uses = u8::try_from(integer(args.at(at + 1))?);
                options.uses =
                    Some(uses.map_err(|_| "ERR Invalid FREQ value, must be >= 0 and <= 255")?);
                at += 1;
            } else {
                return Err(SYNTAX.into());
            }
            at += 1;
        }
        Ok(options)
    }
}

/// RESTORE is sent with the time at which the key expires, where it said how long it lives. Of a value that Redis 7.0 cannot
/// read what it was read as is sent.
fn send_restore(context: &mut Context<'_, '_>, args: Args<'_>, expiry_ms: Option<u64>) -> Outcome {
    let dump = args.at(3);
    if !rdb::is_of_our_version(dump) || !rdb::Value::is_of_7_0(dump) {
        return send_state(context, args.at(1));
    }
    if let Some(expiry_ms) = expiry_ms.filter(|_| context.shared.propagation.is_on) {
        let expiry = expiry_ms.to_string();
        let mut words = vec![args.at(0), args.at(1), expiry.as_bytes()];
        words.extend(args.from(3));
        words.push(b"ABSTTL");
        send_as(context, &words);
    }
    Ok(())
}

fn restore(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let options = Options::parse(args)?;
    let (db, key) = (context.session.db, args.at(1));
    let is_there = context.data.contains(db, key)?;
    if !options.replace && is_there {
        return Err("BUSYKEY Target key name already exists.".into());
    }
    let Ok(ttl) = u64::try_from(integer(args.at(2))?) else {
        return Err("ERR Invalid TTL value, must be >= 0".into());
    };
    let mut bytes =
        rdb::unseal(args.at(3)).ok_or("ERR DUMP payload version or checksum are wrong")?;
    let value = match rdb::Value::read(&mut Reader::new(&mut bytes)) {
        Ok(value) if bytes.is_empty() => value,
        Ok(_) | Err(Broken::Malformed) => return Err("ERR Bad data format".into()),
        Err(other) => return Err(format!("ERR Bad data format: {other}").into()),
    };
    let now_ms = context.data.now_ms();
    let expiry_ms = match ttl {
        0 => None,
        ttl if options.is_absolute => Some(ttl),
        ttl => Some(now_ms.saturating_add(ttl)),
    };
    if expiry_ms.is_some_and(|expiry_ms| expiry_ms <= now_ms) {
        if context.data.remove(db, key)? {
            send_as(context, &[b"DEL", key]);
            notify(context, Classes::GENERIC, "del", key);
        }
    } else {
        context.data.added.record((db, key));
        dump::put(context.data, (db, key), &value, expiry_ms)?;
        send_restore(context, args, expiry_ms.filter(|_| !options.is_absolute))?;
        if options.idle_s.is_some() || options.uses.is_some() || context.shared.notes_usage {
            let idle_ms = options.idle_s.unwrap_or(0).saturating_mul(1000);
            context.shared.set_use((db, key), idle_ms, options.uses);
        }
        notify(context, Classes::GENERIC, "restore", key);
    }
    reply.ok();
    Ok(())
}
