//! Expiry: EXPIRE and its kin, PERSIST, TTL and its kin.

use crate::args::Args;
use crate::command::{Command, Context, FAST, READ, WRITE};
use crate::commands::argument::integer;
use crate::effects::send_as;
use crate::event_class::Classes;
use crate::failure::{Failure, Outcome};
use crate::notify::notify;
use crate::reply::Reply;

/// The family.
pub(super) const COMMANDS: &[Command] = &[
    Command::keyed("expire", -3, WRITE | FAST, (1, 1, 1), expire),
    Command::keyed("pexpire", -3, WRITE | FAST, (1, 1, 1), pexpire),
    Command::keyed("expireat", -3, WRITE | FAST, (1, 1, 1), expireat),
    Command::keyed("pexpireat", -3, WRITE | FAST, (1, 1, 1), pexpireat),
    Command::keyed("persist", 2, WRITE | FAST, (1, 1, 1), persist),
    Command::keyed("ttl", 2, READ | FAST, (1, 1, 1), ttl),
    Command::keyed("pttl", 2, READ | FAST, (1, 1, 1), pttl),
    Command::keyed("expiretime", 2, READ | FAST, (1, 1, 1), expiretime),
    Command::keyed("pexpiretime", 2, READ | FAST, (1, 1, 1), pexpiretime),
];

/// How a client states a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    /// In seconds, not milliseconds.
    pub(super) seconds: bool,
    /// From now on, not since 1970.
    pub(super) relative: bool,
}

impl Unit {
    /// Milliseconds since 1970; None if that overflows.
    pub(super) fn absolute_ms(self, number: i64, now_ms: u64) -> Option<i64> {
        let ms = if self.seconds { number.checked_mul(1000)? } else { number };
        if self.relative { ms.checked_add(now_ms as i64) } else { Some(ms) }
    }
}

fn expire(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    change(context, args, reply, Unit { seconds: true, relative: true }, "expire")
}

fn pexpire(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    change(context, args, reply, Unit { seconds: false, relative: true }, "pexpire")
}

fn expireat(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    change(context, args, reply, Unit { seconds: true, relative: false }, "expireat")
}

fn pexpireat(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    change(context, args, reply, Unit { seconds: false, relative: false }, "pexpireat")
}

/// When EXPIRE may change an expiry.
#[derive(Clone, Copy, Default)]
pub(super) struct Condition {
    pub(super) nx: bool,
    pub(super) xx: bool,
    pub(super) gt: bool,
    pub(super) lt: bool,
}

impl Condition {
    fn parse(args: Args<'_>) -> Result<Condition, Failure> {
        let mut condition = Condition::default();
        for at in 3..args.count() {
            if args.is(at, "NX") {
                condition.nx = true;
            } else if args.is(at, "XX") {
                condition.xx = true;
            } else if args.is(at, "GT") {
                condition.gt = true;
            } else if args.is(at, "LT") {
                condition.lt = true;
            } else {
                let option = String::from_utf8_lossy(args.at(at)).into_owned();
                return Err(format!("ERR Unsupported option {option}").into());
            }
        }
        if condition.nx && (condition.xx || condition.gt || condition.lt) {
            return Err(
                "ERR NX and XX, GT or LT options at the same time are not compatible".into()
            );
        }
        if condition.gt && condition.lt {
            return Err("ERR GT and LT options at the same time are not compatible".into());
        }
        Ok(condition)
    }

    /// Whether an expiry may take the place of another one, or of none.
    pub(super) fn allows(self, old: Option<i64>, new: i64) -> bool {
        match old {
            None => !self.xx && !self.gt,
            Some(old) => !(self.nx || self.gt && new <= old || self.lt && new >= old),
        }
    }
}

fn change(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
    unit: Unit,
    name: &str,
) -> Outcome {
    let condition = Condition::parse(args)?;
    let (db, key, now_ms) = (context.session.db, args.at(1), context.data.now_ms());
    let Some(at_ms) = unit.absolute_ms(integer(args.at(2))?, now_ms) else {
        return Err(format!("ERR invalid expire time in '{name}' command").into());
    };
    let Some(value) = context.data.find(db, key)? else {
        reply.flag(false);
        return Ok(());
    };
    if !condition.allows(value.expiry_ms.map(|old| old as i64), at_ms) {
        reply.flag(false);
        return Ok(());
    }
    match u64::try_from(at_ms) {
        Ok(at_ms) if at_ms > now_ms => {
            let (of, payload) = (value.of, value.payload.to_vec());
            context.data.put_value((db, key), of, &payload, Some(at_ms))?;
            send_expiry(context, key, at_ms);
            notify(context, Classes::GENERIC, "expire", key);
        }
        _ => {
            context.data.remove(db, key)?;
            send_as(context, &[b"DEL", key]);
            notify(context, Classes::GENERIC, "del", key);
        }
    }
    reply.flag(true);
    Ok(())
}

/// The time at which a key expires is sent.
pub(super) fn send_expiry(context: &mut Context<'_, '_>, key: &[u8], at_ms: u64) {
    if context.shared.propagation.is_on {
        send_as(context, &[b"PEXPIREAT", key, at_ms.to_string().as_bytes()]);
    }
}

fn persist(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (db, key) = (context.session.db, args.at(1));
    let (of, payload) = match context.data.find(db, key)? {
        Some(value) if value.expiry_ms.is_some() => (value.of, value.payload.to_vec()),
        _ => {
            reply.flag(false);
            return Ok(());
        }
    };
    context.data.put_value((db, key), of, &payload, None)?;
    notify(context, Classes::GENERIC, "persist", key);
    reply.flag(true);
    Ok(())
}

fn ttl(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    remaining(context, args, reply, Unit { seconds: true, relative: true })
}

fn pttl(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    remaining(context, args, reply, Unit { seconds: false, relative: true })
}

fn expiretime(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    remaining(context, args, reply, Unit { seconds: true, relative: false })
}

fn pexpiretime(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    remaining(context, args, reply, Unit { seconds: false, relative: false })
}

fn remaining(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
    unit: Unit,
) -> Outcome {
    let now_ms = context.data.now_ms();
    let found = context.data.find(context.session.db, args.at(1))?;
    let number = match found.map(|value| value.expiry_ms) {
        None => -2,
        Some(None) => -1,
        Some(Some(at_ms)) => {
            let ms = if unit.relative { at_ms.saturating_sub(now_ms) } else { at_ms };
            (if unit.seconds { ms.saturating_add(500) / 1000 } else { ms }) as i64
        }
    };
    reply.integer(number);
    Ok(())
}
