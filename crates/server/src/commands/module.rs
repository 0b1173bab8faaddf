//! MODULE: there are none, and clients that ask get that answer.

use crate::args::Args;
use crate::command::{ADMIN, Command, Context};
use crate::commands::help::help_lines;
use crate::failure::Outcome;
use crate::reply::Reply;

/// The family.
pub(super) const COMMANDS: &[Command] = &[Command::container("module", 0, SUBCOMMANDS)];

const SUBCOMMANDS: &[Command] = &[
    Command::sub("module|list", "list", 2, ADMIN, list),
    Command::sub("module|load", "load", -3, ADMIN, refuse),
    Command::sub("module|loadex", "loadex", -3, ADMIN, refuse),
    Command::sub("module|unload", "unload", 3, ADMIN, refuse),
    Command::sub("module|help", "help", 2, 0, help),
];

fn list(_: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    reply.array(0);
    Ok(())
}

fn refuse(_: &mut Context<'_, '_>, _: Args<'_>, _: &mut Reply) -> Outcome {
    Err("ERR Tembo has no modules".into())
}

fn help(_: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    let lines = [
        "LIST",
        "    Return an empty list: there are no modules.",
        "LOAD <path> [<arg> ...]",
        "LOADEX <path> [[CONFIG NAME VALUE]...] [ARGS ...]",
        "UNLOAD <name>",
        "    Reply with an error.",
    ];
    help_lines(reply, "MODULE", &lines);
    Ok(())
}
