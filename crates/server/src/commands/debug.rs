//! DEBUG: what tests ask for. Only with `--enable-debug-command`: a client can stop the server for a while.

use std::time::Duration;

use crate::access::Access;
use crate::args::Args;
use crate::clock::Clock;
use crate::command::{ADMIN, Command, Context};
use crate::commands::argument::{integer, positive};
use crate::commands::digest;
use crate::commands::generic::encoding_of;
use crate::commands::help::help_lines;
use crate::failure::{Failure, Outcome, READ_ONLY, READ_ONLY_REPLICA, REMOVED, SYNTAX};
use crate::format::PAYLOAD_SIZE_MAX;
use crate::reply::Reply;

/// The family.
pub(super) const COMMANDS: &[Command] = &[Command::new("debug", -2, ADMIN, debug)];

/// Longest key that POPULATE makes, and about how much a key and its value take besides.
const POPULATED_KEY_SIZE_MAX: usize = 127;
const POPULATED_SIZE: usize = 32;
/// Longest sleep, in seconds.
const SLEEP_MAX_S: f64 = 600.0;

type Run = fn(&mut Context<'_, '_>, Args<'_>, &mut Reply) -> Outcome;

const SUBCOMMANDS: &[(&str, Run)] = &[
    ("CHANGE-REPL-ID", nothing),
    ("DIGEST", digest),
    ("DIGEST-VALUE", digest_value),
    ("ERROR", error),
    ("HELP", help),
    ("HTSTATS", no_statistics),
    ("HTSTATS-KEY", no_statistics),
    ("JMAP", nothing),
    ("LOG", nothing),
    ("OBJECT", object),
    ("PAUSE-CRON", nothing),
    ("POPULATE", populate),
    ("PROTOCOL", protocol),
    ("QUICKLIST-PACKED-THRESHOLD", nothing),
    ("RELOAD", reload),
    ("LOADAOF", nothing),
    ("REPLYBUFFER", nothing),
    ("SET-ACTIVE-EXPIRE", set_active_expire),
    ("SET-DISABLE-DENY-SCRIPTS", set_may_debug),
    ("SLEEP", sleep),
    ("STRINGMATCH-LEN", string_match),
];

fn debug(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if !context.shared.settings.debug {
        return Err("ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", \
                    you can run it from a local connection, otherwise you need to set this option in the \
                    configuration file, and then restart the server."
            .into());
    }
    match SUBCOMMANDS.iter().find(|(name, _)| args.is(1, name)) {
        Some((_, run)) => run(context, args, reply),
        None => Err(unknown(args)),
    }
}

fn unknown(args: Args<'_>) -> Failure {
    let name = String::from_utf8_lossy(args.at(1));
    format!("ERR unknown subcommand or wrong number of arguments for '{name}'. Try DEBUG HELP.")
        .into()
}

/// What has no meaning here is done by doing nothing: LOADAOF, since what is stored is what is served.
fn nothing(_: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    reply.ok();
    Ok(())
}

/// Nothing is to be done: what is stored is what is served, and the reply leaves when it is durable. What Redis cannot do is refused:
/// to load over what is there, without MERGE.
fn reload(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (mut keeps, mut merges) = (false, false);
    for at in 2..args.count() {
        match args.at(at).to_ascii_lowercase().as_slice() {
            b"noflush" => keeps = true,
            b"merge" => merges = true,
            b"nosave" => {}
            _ => {
                return Err(
                    "ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.".into(),
                );
            }
        }
    }
    if keeps && !merges && holds_something(context)? {
        return Err("ERR Error trying to load the RDB dump, check server logs.".into());
    }
    reply.ok();
    Ok(())
}

/// Whether there is a key or a library.
fn holds_something(context: &mut Context<'_, '_>) -> Result<bool, Failure> {
    for db in 0..context.data.databases() {
        if context.data.count(db)?.keys > 0 {
            return Ok(true);
        }
    }
    Ok(context.shared.scripts.libraries.counts() != (0, 0))
}

fn set_may_debug(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    context.shared.scripts.may_debug = integer(args.at(2))? != 0;
    reply.ok();
    Ok(())
}

fn no_statistics(_: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    reply.verbatim(b"There are no hash tables.\n");
    Ok(())
}

fn digest(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.count() != 2 {
        return Err(unknown(args));
    }
    reply.simple(&digest::of_databases(context.data)?.text());
    Ok(())
}

fn digest_value(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let db = context.session.db;
    reply.array(args.count() - 2);
    for key in args.from(2) {
        reply.simple(&digest::of_value(context.data, (db, key))?.text());
    }
    Ok(())
}

/// Puts strings under `prefix:0`, `prefix:1` and so on, but for the keys that are there; all of them, or none.
fn populate(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if !(3..=5).contains(&args.count()) {
        return Err(unknown(args));
    }
    match context.data.access() {
        Access::Open => {}
        Access::Replica | Access::Loading => return Err(READ_ONLY_REPLICA.into()),
        Access::ReadOnlyPool => return Err(READ_ONLY.into()),
        Access::Removed => return Err(REMOVED.into()),
    }
    let count = positive(args.at(2))?;
    let prefix = if args.count() > 3 { args.at(3) } else { b"key" };
    let size = if args.count() > 4 { positive(args.at(4))? } else { 0 };
    let size = usize::try_from(size).ok().filter(|&size| size <= PAYLOAD_SIZE_MAX);
    let size = size.ok_or("ERR string exceeds maximum allowed size (512MB)")?;
    // Redis's prefix ends where a byte is 0, and its keys have so many bytes.
    let prefix = prefix.split(|&byte| byte == 0).next().unwrap_or_default();
    let (db, size_of_one) = (context.session.db, prefix.len() + size.max(POPULATED_SIZE));
    let size_of_all = usize::try_from(count).unwrap_or(usize::MAX).saturating_mul(size_of_one);
    context.data.atomically(size_of_all, |data| {
        for number in 0..count {
            let mut key = [prefix, format!(":{number}").as_bytes()].concat();
            key.truncate(POPULATED_KEY_SIZE_MAX);
            if !data.contains(db, &key)? {
                let mut value = format!("value:{number}").into_bytes();
                value.resize(if size == 0 { value.len() } else { size }, 0);
                data.put(db, &key, &value, None)?;
            }
        }
        Ok(())
    })?;
    reply.ok();
    Ok(())
}

fn error(_: &mut Context<'_, '_>, args: Args<'_>, _: &mut Reply) -> Outcome {
    Err(String::from_utf8_lossy(args.at(2)).into_owned().into())
}

fn object(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    // One that has expired is shown as long as it is there.
    let Some(value) = context.data.get_raw(context.session.db, args.at(2))? else {
        return Err("ERR no such key".into());
    };
    let (encoding, size) = (encoding_of(&value), value.payload.len());
    reply.simple(&format!(
        "Value at:0x0 refcount:1 encoding:{encoding} serializedlength:{size} lru:0 lru_seconds_idle:0"
    ));
    Ok(())
}

fn set_active_expire(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    context.data.expires_actively = integer(args.at(2))? != 0;
    reply.ok();
    Ok(())
}

/// The commands behind it in the turn see the time after it. In a script time stands.
fn sleep(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let seconds: Option<f64> =
        std::str::from_utf8(args.at(2)).ok().and_then(|text| text.parse().ok());
    let seconds = seconds.filter(|seconds| (0.0..=SLEEP_MAX_S).contains(seconds));
    std::thread::sleep(Duration::from_secs_f64(seconds.ok_or(SYNTAX)?));
    if context.shared.scripts.running.is_none() {
        context.shared.clock = Clock::read(context.shared.started);
        context.data.set_clock(context.shared.clock);
    }
    reply.ok();
    Ok(())
}

fn string_match(_: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    reply.flag(crate::glob::matches(args.at(2), args.at(3), false));
    Ok(())
}

/// A reply of each type of the protocol.
fn protocol(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let resp3 = context.session.resp3;
    let three = |reply: &mut Reply| (0..3).for_each(|number| reply.integer(number));
    match args.at(2).to_ascii_lowercase().as_slice() {
        b"string" => reply.bulk(b"Hello World"),
        b"integer" => reply.integer(12345),
        b"double" => reply.double(3141.0 / 1000.0),
        b"null" => reply.null(),
        b"array" => {
            reply.array(3);
            three(reply);
        }
        b"set" => {
            reply.set(3);
            three(reply);
        }
        b"map" => {
            reply.map(3);
            for number in 0..3 {
                reply.integer(number);
                if resp3 {
                    reply.raw(if number == 1 { b"#t\r\n" } else { b"#f\r\n" });
                } else {
                    reply.flag(number == 1);
                }
            }
        }
        b"bignum" if resp3 => reply.raw(b"(1234567999999999999999999999999999999\r\n"),
        b"bignum" => reply.bulk(b"1234567999999999999999999999999999999"),
        b"true" if resp3 => reply.raw(b"#t\r\n"),
        b"false" if resp3 => reply.raw(b"#f\r\n"),
        b"true" => reply.integer(1),
        b"false" => reply.integer(0),
        b"verbatim" => reply.verbatim(b"This is a verbatim\nstring"),
        b"attrib" => {
            if resp3 {
                reply.raw(b"|1\r\n$14\r\nkey-popularity\r\n*2\r\n$7\r\nkey:123\r\n:90\r\n");
            }
            reply.bulk(b"Some real reply following the attribute");
        }
        b"push" if resp3 => {
            reply.push_header(2);
            reply.bulk(b"server-cpu-usage");
            reply.integer(42);
        }
        b"push" => return Err("ERR RESP2 is not supported by this command".into()),
        _ => {
            return Err(
                "ERR Wrong protocol type name. Please use one of the following: string|integer|\
                        double|null|array|set|map|attrib|push|verbatim|true|false"
                    .into(),
            );
        }
    }
    Ok(())
}

fn help(_: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    let lines = [
        "DIGEST",
        "    Return a digest of all that is stored; that of Redis for the same data.",
        "DIGEST-VALUE <key> [<key> ...]",
        "    Return a digest of each value.",
        "ERROR <text>",
        "    Reply with an error of that text.",
        "OBJECT <key>",
        "    Return the encoding and the stored size of a value.",
        "POPULATE <count> [<prefix> [<size>]]",
        "    Put so many strings under <prefix>:<number> where nothing is; of <size> bytes, if that is given.",
        "PROTOCOL <type>",
        "    Reply with a value of a type of the protocol.",
        "RELOAD [MERGE] [NOFLUSH] [NOSAVE]",
        "    Nothing happens: what is stored is what is served. LOADAOF does the same.",
        "SET-ACTIVE-EXPIRE <0|1>",
        "    Whether keys that are due are removed by themselves, or when a command reads them.",
        "SET-DISABLE-DENY-SCRIPTS <0|1>",
        "    Whether scripts may call DEBUG PROTOCOL and DEBUG SLEEP.",
        "SLEEP <seconds>",
        "    Stop the server for so long.",
    ];
    help_lines(reply, "DEBUG", &lines);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::SUBCOMMANDS;

    #[test]
    fn names_are_in_upper_case() {
        assert!(SUBCOMMANDS.iter().all(|(name, _)| *name == name.to_ascii_uppercase()));
    }
}
