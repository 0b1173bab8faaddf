//! The lines that clients which MONITOR are sent.

use std::fmt::Write;

use crate::args::Args;
use crate::command::{Command, Context};

/// Shows an executed command to all clients that monitor.
#[cold]
pub(crate) fn show(context: &mut Context<'_, '_>, args: Args<'_>) {
    let now_us = context.shared.clock.wall_us;
    let by_script = context.shared.scripts.running.is_some() && context.session.executing;
    let mut line = format!(
        "{}.{:06} [{} {}]",
        now_us / 1_000_000,
        now_us % 1_000_000,
        context.session.db,
        if by_script { "lua" } else { &context.session.peer }
    );
    for at in 0..args.count() {
        line.push(' ');
        quote(&mut line, if is_secret(args, at) { b"(redacted)" } else { args.at(at) });
    }
    context.shared.pubsub.show(context.clients, line.as_bytes());
}

/// Whether a command is shown before it is executed, so that those that it executes itself come behind it.
pub(crate) fn is_shown_first(command: &Command) -> bool {
    matches!(command.name, "eval" | "eval_ro" | "evalsha" | "evalsha_ro" | "fcall" | "fcall_ro")
}

/// Whether an argument is a user's name or password.
pub(crate) fn is_secret(args: Args<'_>, at: usize) -> bool {
    let asked = |at: usize| at > 1 && args.is(at, "AUTH");
    let redacted = args.is(0, "CONFIG") && at > 2 && args.is(1, "SET");
    let password = |at: usize| {
        args.is(at, "REQUIREPASS") || args.is(at, "MASTERAUTH") || args.is(at, "MASTERUSER")
    };
    redacted && at % 2 == 1 && password(at - 1)
        || args.is(0, "AUTH") && at > 0
        || args.is(0, "ACL") && args.is(1, "SETUSER") && at > 1
        || args.is(0, "MIGRATE") && is_secret_of_migrate(args, at)
        || args.is(0, "HELLO") && (at > 0 && asked(at - 1) || at > 1 && asked(at - 2))
}

/// Whether an argument of MIGRATE is a user's name or password: its options begin behind the fifth argument, and keys may
/// have any name.
fn is_secret_of_migrate(args: Args<'_>, at: usize) -> bool {
    let mut option = 6;
    while option < at {
        let count = match () {
            () if args.is(option, "KEYS") => return false,
            () if args.is(option, "AUTH") => 1,
            () if args.is(option, "AUTH2") => 2,
            () => 0,
        };
        if at <= option + count {
            return true;
        }
        option += 1 + count;
    }
    false
}

/// Appends an argument in quotes, as Redis writes it.
fn quote(line: &mut String, arg: &[u8]) {
    line.push('"');
    for &byte in arg {
        match byte {
            b'\\' | b'"' => line.extend(['\\', char::from(byte)]),
            b'\n' => line.push_str("\\n"),
            b'\r' => line.push_str("\\r"),
            b'\t' => line.push_str("\\t"),
            7 => line.push_str("\\a"),
            8 => line.push_str("\\b"),
            b' '..=b'~' => line.push(char::from(byte)),
            // Writing to a string cannot fail.
            _ => drop(write!(line, "\\x{byte:02x}")),
        }
    }
    line.push('"');
}
