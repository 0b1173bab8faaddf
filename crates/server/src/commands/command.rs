//! COMMAND: what commands there are.

use crate::args::Args;
use crate::command::{
    ADMIN, BLOCKING, Command, Context, DENY_OOM, FAST, HASH, LIST, MOVABLE_KEYS, NO_AUTH, NO_MULTI,
    READ, SET, SORTED_SET, STREAM, WRITE,
};
use crate::commands::command_keys::{find, getkeys, getkeysandflags};
use crate::commands::docs::docs;
use crate::commands::facts::Facts;
use crate::commands::help::help_lines;
use crate::failure::{Outcome, SYNTAX};
use crate::glob;
use crate::reply::Reply;

/// The family.
pub(super) const COMMANDS: &[Command] = &[Command {
    name: "command",
    full_name: "command",
    arity: -1,
    flags: 0,
    keys: (0, 0, 0),
    run: list_all,
    subcommands: SUBCOMMANDS,
}];

const SUBCOMMANDS: &[Command] = &[
    Command::sub("command|count", "count", 2, 0, count),
    Command::sub("command|info", "info", -2, 0, info),
    Command::sub("command|docs", "docs", -2, 0, docs),
    Command::sub("command|list", "list", -2, 0, list),
    Command::sub("command|getkeys", "getkeys", -4, 0, getkeys),
    Command::sub("command|getkeysandflags", "getkeysandflags", -4, 0, getkeysandflags),
    Command::sub("command|help", "help", 2, 0, help),
];

const FLAGS: &[(u32, &str)] = &[
    (WRITE, "write"),
    (READ, "readonly"),
    (DENY_OOM, "denyoom"),
    (ADMIN, "admin"),
    (FAST, "fast"),
    (NO_AUTH, "no_auth"),
    (NO_MULTI, "no_multi"),
    (BLOCKING, "blocking"),
    (MOVABLE_KEYS, "movablekeys"),
];

/// The categories of ACL that follow from a flag.
const CATEGORIES: &[(u32, &str)] = &[
    (WRITE, "@write"),
    (READ, "@read"),
    (SET, "@set"),
    (SORTED_SET, "@sortedset"),
    (STREAM, "@stream"),
    (LIST, "@list"),
    (HASH, "@hash"),
    (ADMIN, "@admin"),
    (FAST, "@fast"),
    (BLOCKING, "@blocking"),
];

fn describe(command: &Command, reply: &mut Reply) {
    reply.array(10);
    reply.bulk(command.full_name.as_bytes());
    reply.integer(i64::from(command.arity));
    match Facts::of(command.full_name) {
        Some(facts) => facts.describe(reply),
        None => describe_own(command, reply),
    }
    reply.set(command.subcommands.len());
    for subcommand in command.subcommands {
        describe(subcommand, reply);
    }
}

/// Describes a command that Redis does not have.
fn describe_own(command: &Command, reply: &mut Reply) {
    let flags: Vec<&str> =
        FLAGS.iter().filter(|(flag, _)| command.has(*flag)).map(|(_, name)| *name).collect();
    reply.set(flags.len());
    for flag in flags {
        reply.simple(flag);
    }
    let (first, last, step) = command.keys;
    for number in [first, last, step] {
        reply.integer(i64::from(number));
    }
    let has = |flag: &&(u32, &str)| command.has(flag.0);
    let mut categories: Vec<&str> = CATEGORIES.iter().filter(has).map(|(_, name)| *name).collect();
    if !command.has(FAST) {
        categories.push("@slow");
    }
    reply.set(categories.len());
    categories.iter().for_each(|category| reply.simple(category));
    reply.set(0);
    reply.set(0);
}

fn list_all(context: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    reply.array(context.table.all().count());
    context.table.all().for_each(|command| describe(command, reply));
    Ok(())
}

fn count(context: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    reply.integer(context.table.all().count() as i64);
    Ok(())
}

fn info(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.count() == 2 {
        return list_all(context, args, reply);
    }
    reply.array(args.count() - 2);
    for name in args.from(2) {
        match find(context.table, name) {
            Some(command) => describe(command, reply),
            None => reply.null(),
        }
    }
    Ok(())
}

/// The names of all commands and subcommands, or of those that a filter lets through.
fn list(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let is_wanted = |name: &str| match args.count() {
        2 => true,
        _ if args.is(3, "PATTERN") => glob::matches(args.at(4), name.as_bytes(), true),
        // No command comes from a module.
        _ if args.is(3, "MODULE") => false,
        _ => {
            let category = args.at(4).to_ascii_lowercase();
            Facts::of(name).is_some_and(|facts| facts.is_of_category(&category))
        }
    };
    let is_known = ["PATTERN", "MODULE", "ACLCAT"].iter().any(|word| args.is(3, word));
    if args.count() > 2 && !(args.count() == 5 && args.is(2, "FILTERBY") && is_known) {
        return Err(SYNTAX.into());
    }
    let mut names: Vec<&str> = Vec::new();
    for command in context.table.all() {
        names.push(command.full_name);
        names.extend(command.subcommands.iter().map(|subcommand| subcommand.full_name));
    }
    names.retain(|name| is_wanted(name));
    reply.array(names.len());
    names.iter().for_each(|name| reply.bulk(name.as_bytes()));
    Ok(())
}

fn help(_: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    let lines = [
        "(no subcommand)",
        "    Return details about all commands.",
        "COUNT",
        "    Return the total number of commands in this server.",
        "LIST [FILTERBY <filter> <value>]",
        "    Return a list of all commands in this server; filters: PATTERN, ACLCAT, MODULE.",
        "INFO [<command-name> ...]",
        "    Return details about multiple commands.",
        "DOCS [<command-name> ...]",
        "    Return documentation details about multiple commands.",
        "GETKEYS <full-command>",
        "    Return the keys from a full command.",
        "GETKEYSANDFLAGS <full-command>",
        "    Return the keys and the access flags from a full command.",
    ];
    help_lines(reply, "COMMAND", &lines);
    Ok(())
}
