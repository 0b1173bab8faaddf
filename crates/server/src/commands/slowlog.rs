//! SLOWLOG: commands that took long.

use crate::args::Args;
use crate::command::{ADMIN, Command, Context};
use crate::commands::help::help_lines;
use crate::failure::Outcome;
use crate::number::parse_integer;
use crate::reply::Reply;

/// The family.
pub(super) const COMMANDS: &[Command] = &[Command::container("slowlog", 0, SUBCOMMANDS)];

const SUBCOMMANDS: &[Command] = &[
    Command::sub("slowlog|get", "get", -2, ADMIN, get),
    Command::sub("slowlog|len", "len", 2, ADMIN, len),
    Command::sub("slowlog|reset", "reset", 2, ADMIN, reset),
    Command::sub("slowlog|help", "help", 2, 0, help),
];

/// Commands that GET shows, if no number is given.
const SHOWN: i64 = 10;

fn get(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let count = match args.count() {
        2 => SHOWN,
        3 => parse_integer(args.at(2))
            .filter(|count| *count >= -1)
            .ok_or("ERR count should be greater than or equal to -1")?,
        _ => {
            let name = String::from_utf8_lossy(args.at(1)).into_owned();
            return Err(format!(
                "ERR unknown subcommand or wrong number of arguments for '{name}'. Try SLOWLOG HELP."
            )
            .into());
        }
    };
    let log = &context.shared.observed.slow;
    let count = usize::try_from(count).unwrap_or(usize::MAX).min(log.iter().len());
    reply.array(count);
    for command in log.iter().take(count) {
        reply.array(6);
        reply.integer(command.id as i64);
        reply.integer(command.at_s as i64);
        reply.integer(command.took_us as i64);
        reply.array(command.args.len());
        command.args.iter().for_each(|arg| reply.bulk(arg));
        reply.bulk(command.peer.as_bytes());
        reply.bulk(&command.name);
    }
    Ok(())
}

fn len(context: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    reply.integer(context.shared.observed.slow.iter().len() as i64);
    Ok(())
}

fn reset(context: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    context.shared.observed.slow.clear();
    reply.ok();
    Ok(())
}

fn help(_: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    let lines = [
        "GET [<count>]",
        "    Return the newest <count> commands that took long (10; all with -1): number, time, microseconds,",
        "    arguments, the client's address and name.",
        "LEN",
        "    Return how many are kept.",
        "RESET",
        "    Forget them.",
    ];
    help_lines(reply, "SLOWLOG", &lines);
    Ok(())
}
