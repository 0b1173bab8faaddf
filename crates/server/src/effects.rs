//! What the execution of a command gives to the servers of Redis that follow: see `propagation`.
//!
//! A command that writes is sent as it came. Where its effect depends on the time, on chance, or on what else there is, it
//! says itself what is sent in its place ([`send_as`]). Commands that Redis 7.0 does not have, or executes in another
//! way, send the state of a key that they leave ([`send_state`]).

use crate::args::Args;
use crate::command::{Command, Context, WRITE};
use crate::dump;
use crate::failure::Outcome;
use crate::key_positions::key_positions;
use crate::number::parse_integer;
use crate::propagation::encoded;
use crate::rdb;

/// Commands that are sent whenever they succeed: what they do is no change of a database, or is not counted as one.
const ALWAYS: [&str; 8] = [
    "flushall",
    "flushdb",
    "function|delete",
    "function|flush",
    "function|load",
    "function|restore",
    "publish",
    "spublish",
];

/// Before a command is executed, while a Redis server follows: keys of it that have expired and are still there are removed
/// from that server, which would see them; and so are fields of hashes.
#[cold]
pub(crate) fn begin_effects(context: &mut Context<'_, '_>, command: &Command, args: Args<'_>) {
    context.shared.propagation.begin_command();
    if !command.has(WRITE) {
        return;
    }
    let db = context.session.db;
    let keys = key_positions(command, command.keys, args).unwrap_or_default();
    let databases = context.data.databases();
    let target = target(command, args).filter(|(db, _)| *db < databases);
    let places = keys.into_iter().map(|at| (db, args.at(at))).chain(target);
    for (db, key) in places {
        // The command itself meets the error.
        if let Ok(true) = context.data.is_expired(db, key) {
            let removal = encoded([b"DEL".as_slice(), key].into_iter());
            context.shared.propagation.extend([(db, removal)]);
        } else if let Ok(fields) = context.data.expired_fields((db, key))
            && !fields.is_empty()
        {
            let words = [b"HDEL", key].into_iter().chain(fields.iter().map(Vec::as_slice));
            let words: Vec<&[u8]> = words.collect();
            context.shared.propagation.extend([(db, encoded(words.into_iter()))]);
        }
    }
}

/// The key of another database that MOVE and COPY write.
fn target<'a>(command: &Command, args: Args<'a>) -> Option<(usize, &'a [u8])> {
    let (key, db) = match command.name {
        "move" => (args.at(1), args.at(2)),
        "copy" => {
            let option = (3..args.count()).find(|&at| args.is(at, "DB"))?;
            (args.at(2), args.at(option + 1))
        }
        _ => return None,
    };
    Some((parse_integer(db).and_then(|db| usize::try_from(db).ok())?, key))
}

/// After a command was executed: its effects, if it has `changed` something. At the end of a unit they are sent.
#[cold]
pub(crate) fn end_effects(
    context: &mut Context<'_, '_>,
    (command, args): (&Command, Args<'_>),
    (changed, has_failed): (bool, bool),
) {
    let mut instead = context.shared.propagation.take_instead();
    if has_failed && !changed {
        instead = Some(Vec::new());
    } else if has_failed && instead.is_none() && command.has(WRITE) {
        // Some of it was done: what there is now is sent.
        for at in key_positions(command, command.keys, args).unwrap_or_default() {
            if send_state(context, args.at(at)).is_err() {
                context.shared.propagation.is_broken = true;
            }
        }
        instead = context.shared.propagation.take_instead();
    }
    let propagation = &mut context.shared.propagation;
    let is_sent = changed && command.has(WRITE) || ALWAYS.contains(&command.full_name);
    match instead {
        Some(effects) => propagation.extend(effects),
        None if is_sent && !has_failed => {
            let words: Vec<&[u8]> = args.from(0).collect();
            propagation.extend([(context.session.db, encoded(words.into_iter()))]);
        }
        None => {}
    }
    if !context.session.executing && context.shared.scripts.running.is_none() {
        context.shared.propagation.end_unit();
    }
}

/// This command is sent in the place of the one that is being executed. Several calls send several.
#[inline]
pub(crate) fn send_as(context: &mut Context<'_, '_>, words: &[&[u8]]) {
    if context.shared.propagation.is_on {
        let command = encoded(words.iter().copied());
        context.shared.propagation.send_instead(context.session.db, command);
    }
}

/// Nothing is sent for the command that is being executed.
#[inline]
pub(crate) fn send_nothing(context: &mut Context<'_, '_>) {
    if context.shared.propagation.is_on {
        context.shared.propagation.send_nothing();
    }
}

/// The value that is now under a key of the client's database is sent in the place of the command, or that there is none.
///
/// # Errors
/// The value cannot be read.
pub(crate) fn send_state(context: &mut Context<'_, '_>, key: &[u8]) -> Outcome {
    if !context.shared.propagation.is_on {
        return Ok(());
    }
    let place = (context.session.db, key);
    let expiry_ms = context.data.find(place.0, key)?.and_then(|value| value.expiry_ms);
    let Some(mut value) = dump::read(context.data, place)? else {
        send_as(context, &[b"DEL", key]);
        return Ok(());
    };
    rdb::seal(&mut value);
    let ttl = expiry_ms.unwrap_or(0).to_string();
    send_as(context, &[b"RESTORE", key, ttl.as_bytes(), &value, b"REPLACE", b"ABSTTL"]);
    Ok(())
}
