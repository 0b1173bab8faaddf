//! Keys that a command reads and that are not there, for keyspace notifications.

use crate::args::Args;
use crate::command::{Command, Context, MOVABLE_KEYS, READ};
use crate::event_class::Classes;
use crate::notify::notify;
use crate::number::parse_integer;

/// The keys that the command is about to read, and not to change, that are not there.
#[cold]
pub(crate) fn missing_keys<'a>(
    context: &mut Context<'_, '_>,
    command: &Command,
    args: Args<'a>,
) -> Vec<&'a [u8]> {
    let db = context.session.db;
    let mut keys: Vec<&[u8]> = read_keys(command, args).into_iter().map(|at| args.at(at)).collect();
    let lookups = context.data.lookups;
    // An error is met again by the command, which reports it.
    keys.retain(|key| matches!(context.data.contains(db, key), Ok(false)));
    // The command counts its own.
    context.data.lookups = lookups;
    keys
}

/// Publishes that a command has read these keys, which are not there.
pub(crate) fn notify_misses(context: &mut Context<'_, '_>, keys: &[&[u8]]) {
    for key in keys {
        notify(context, Classes::MISS, "keymiss", key);
    }
}

/// Where the keys are that the command reads.
fn read_keys(command: &Command, args: Args<'_>) -> Vec<usize> {
    let last = args.count() - 1;
    match command.name {
        "getex" | "getdel" | "getset" | "copy" | "sort" | "georadius" | "georadiusbymember" => {
            vec![1]
        }
        "zrangestore" | "geosearchstore" => vec![2],
        "sinterstore" | "sunionstore" | "sdiffstore" => (2..=last).collect(),
        "bitop" => (3..=last).collect(),
        "zunionstore" | "zinterstore" | "zdiffstore" => counted(args, 2),
        _ if !command.has(READ) => Vec::new(),
        _ if command.has(MOVABLE_KEYS) && command.keys.0 == 0 => counted(args, 1),
        _ => match command.keys {
            (first, end, step) if first > 0 && step > 0 => {
                let end = if end < 0 { last as i32 + 1 + end } else { end };
                (first as usize..=end.max(0) as usize).step_by(step as usize).collect()
            }
            _ => Vec::new(),
        },
    }
}

/// The keys whose number is the argument at `at`.
fn counted(args: Args<'_>, at: usize) -> Vec<usize> {
    let number = parse_integer(args.at(at)).and_then(|number| usize::try_from(number).ok());
    let end = number.unwrap_or(0).saturating_add(at + 1);
    if end > args.count() { Vec::new() } else { (at + 1..end).collect() }
}
