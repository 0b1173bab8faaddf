//! ACL: users and what they may do.

use crate::acl::{CATEGORIES, DEFAULT_USER, Denied, Selector, category};
use crate::args::Args;
use crate::command::{ADMIN, Command, Context};
use crate::commands::argument::integer;
use crate::commands::help::help_lines;
use crate::dispatch::lookup;
use crate::failure::{Failure, Outcome};
use crate::permission::{disconnect, disconnect_subscribers, update_all};
use crate::reply::Reply;
use crate::secret::secret_digits;

/// Most bits of a password that is made.
const BITS_MAX: i64 = 4096;

/// The family.
pub(super) const COMMANDS: &[Command] = &[Command::container("acl", 0, SUBCOMMANDS)];

const SUBCOMMANDS: &[Command] = &[
    Command::sub("acl|cat", "cat", -2, 0, cat),
    Command::sub("acl|deluser", "deluser", -3, ADMIN, deluser),
    Command::sub("acl|dryrun", "dryrun", -4, ADMIN, dryrun),
    Command::sub("acl|genpass", "genpass", -2, 0, genpass),
    Command::sub("acl|getuser", "getuser", 3, ADMIN, getuser),
    Command::sub("acl|help", "help", 2, 0, help),
    Command::sub("acl|list", "list", 2, ADMIN, list),
    Command::sub("acl|load", "load", 2, ADMIN, load),
    Command::sub("acl|log", "log", -2, ADMIN, log),
    Command::sub("acl|save", "save", 2, ADMIN, save),
    Command::sub("acl|setuser", "setuser", -3, ADMIN, setuser),
    Command::sub("acl|users", "users", 2, ADMIN, users),
    Command::sub("acl|whoami", "whoami", 2, 0, whoami),
];

/// The error of a subcommand with arguments of the wrong number.
fn wrong_count(args: Args<'_>) -> Failure {
    let name = String::from_utf8_lossy(args.at(1)).into_owned();
    format!("ERR unknown subcommand or wrong number of arguments for '{name}'. Try ACL HELP.")
        .into()
}

fn cat(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    match args.count() {
        2 => {
            reply.array(CATEGORIES.len());
            CATEGORIES.iter().for_each(|name| reply.bulk(name.as_bytes()));
        }
        3 => {
            let name = args.at(2);
            let Some(category) = category(name) else {
                let name = String::from_utf8_lossy(&name[..name.len().min(128)]).into_owned();
                return Err(format!("ERR Unknown category '{name}'").into());
            };
            let catalog = context.shared.acl.catalog();
            let of_it = (0..catalog.count()).filter(|&number| catalog.is_of(number, category));
            let entries: Vec<_> = of_it.filter_map(|number| catalog.entry(number)).collect();
            reply.array(entries.len());
            entries.iter().for_each(|entry| reply.bulk(entry.name.as_bytes()));
        }
        _ => return Err(wrong_count(args)),
    }
    Ok(())
}

/// Makes or changes a user. It is durable after ACL SAVE or CONFIG REWRITE.
fn setuser(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let rules: Vec<Vec<u8>> = args.from(3).map(<[u8]>::to_vec).collect();
    let name = args.at(2);
    let before = context.shared.acl.set_user(name, &rules).map_err(|text| format!("ERR {text}"))?;
    if before.is_some() {
        disconnect_subscribers(context, name);
    }
    update_all(context);
    reply.ok();
    Ok(())
}

fn deluser(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.from(2).any(|name| name == DEFAULT_USER) {
        return Err("ERR The 'default' user cannot be removed".into());
    }
    let mut removed = Vec::new();
    for name in args.from(2) {
        if context.shared.acl.remove_user(name) {
            removed.push(name);
        }
    }
    disconnect(context, |session| removed.contains(&session.user.as_slice()));
    update_all(context);
    reply.integer(removed.len() as i64);
    Ok(())
}

fn getuser(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let acl = &context.shared.acl;
    let Some(user) = acl.user(args.at(2)) else {
        reply.null();
        return Ok(());
    };
    reply.map(6);
    reply.bulk(b"flags");
    let flags = user.flags();
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"passwords");
    reply.array(user.passwords().len());
    user.passwords().iter().for_each(|hash| reply.bulk(hash.as_bytes()));
    let describe = |selector: &Selector, reply: &mut Reply| {
        reply.bulk(b"commands");
        reply.bulk(selector.describe_commands(acl.catalog()).as_bytes());
        reply.bulk(b"keys");
        reply.bulk(&selector.describe_keys());
        reply.bulk(b"channels");
        reply.bulk(&selector.describe_channels());
    };
    let [own, others @ ..] = user.selectors() else { return Ok(()) };
    describe(own, reply);
    reply.bulk(b"selectors");
    reply.array(others.len());
    for selector in others {
        reply.map(3);
        describe(selector, reply);
    }
    Ok(())
}

fn list(context: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    let lines = context.shared.acl.lines();
    reply.array(lines.len());
    lines.iter().for_each(|line| reply.bulk(line));
    Ok(())
}

fn users(context: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    let users = context.shared.acl.users();
    reply.array(users.len());
    users.for_each(|(name, _)| reply.bulk(name));
    Ok(())
}

fn whoami(context: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    reply.bulk(&context.session.user);
    Ok(())
}

/// A password of random digits, from the system.
fn genpass(_: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let bits = match args.count() {
        2 => 256,
        3 => integer(args.at(2))?,
        _ => return Err(wrong_count(args)),
    };
    if !(1..=BITS_MAX).contains(&bits) {
        return Err(format!(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to {BITS_MAX}"
        )
        .into());
    }
    let digits = (bits as usize).div_ceil(4);
    let text = secret_digits(digits).map_err(|error| format!("ERR no random numbers: {error}"))?;
    reply.bulk(text.as_bytes());
    Ok(())
}

fn log(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let denials = &mut context.shared.acl.denials;
    let count = match args.count() {
        2 => 10,
        3 if args.is(2, "RESET") => {
            denials.clear();
            reply.ok();
            return Ok(());
        }
        3 => integer(args.at(2))?.max(0) as usize,
        _ => return Err(wrong_count(args)),
    };
    let now_ms = context.shared.clock.steady_ms;
    reply.array(count.min(denials.iter().len()));
    for denial in denials.iter().take(count) {
        reply.map(7);
        reply.bulk(b"count");
        reply.integer(denial.count as i64);
        for (name, value) in [("reason", denial.reason), ("context", denial.context)] {
            reply.bulk(name.as_bytes());
            reply.bulk(value.as_bytes());
        }
        for (name, value) in [("object", &denial.object), ("username", &denial.user)] {
            reply.bulk(name.as_bytes());
            reply.bulk(value);
        }
        reply.bulk(b"age-seconds");
        reply.double(now_ms.saturating_sub(denial.at_ms) as f64 / 1000.0);
        reply.bulk(b"client-info");
        reply.bulk(denial.client.as_bytes());
    }
    Ok(())
}

fn dryrun(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let shown = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
    let user = args.at(2);
    if context.shared.acl.user(user).is_none() {
        return Err(format!("ERR User '{}' not found", shown(user)).into());
    }
    let request = args.skip(3);
    let Some((command, number)) = lookup(context.table, request) else {
        return Err(format!("ERR Command '{}' not found", shown(args.at(3))).into());
    };
    if !command.takes(request.count()) {
        let name = command.full_name;
        return Err(format!("ERR wrong number of arguments for '{name}' command").into());
    }
    let text = match context.shared.acl.check(user, number, request) {
        Ok(()) => {
            reply.ok();
            return Ok(());
        }
        Err(Denied::Command) => {
            format!("This user has no permissions to run the '{}' command", command.full_name)
        }
        Err(Denied::Key(at)) => {
            format!("This user has no permissions to access the '{}' key", shown(request.at(at)))
        }
        Err(Denied::Channel(at)) => {
            let channel = shown(request.at(at));
            format!("This user has no permissions to access the '{channel}' channel")
        }
    };
    reply.bulk(text.as_bytes());
    Ok(())
}

fn check_file(context: &Context<'_, '_>) -> Result<(), Failure> {
    if context.shared.acl.has_file() {
        return Ok(());
    }
    Err("ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER \
         command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store users \
         in the Redis configuration."
        .into())
}

/// Takes all users from their file. Clients of all users but the default one are disconnected.
fn load(context: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    check_file(context)?;
    context.shared.acl.load().map_err(|text| format!("ERR {text}"))?;
    disconnect(context, |session| session.user != DEFAULT_USER);
    update_all(context);
    reply.ok();
    Ok(())
}

/// Writes all users to their file. Durable when it returns.
fn save(context: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    check_file(context)?;
    let saved = context.shared.acl.save();
    saved.map_err(|error| format!("ERR There was an error trying to save the ACLs: {error}"))?;
    reply.ok();
    Ok(())
}

fn help(_: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    let lines = [
        "CAT [<category>]",
        "    List all commands that belong to <category>, or all command categories",
        "    when no category is specified.",
        "DELUSER <username> [<username> ...]",
        "    Delete a list of users.",
        "DRYRUN <username> <command> [<arg> ...]",
        "    Returns whether the user can execute the given command without executing the command.",
        "GETUSER <username>",
        "    Get the user's details.",
        "GENPASS [<bits>]",
        "    Generate a secure 256-bit user password. The optional `bits` argument can",
        "    be used to specify a different size.",
        "LIST",
        "    Show users details in config file format.",
        "LOAD",
        "    Reload users from the ACL file.",
        "LOG [<count> | RESET]",
        "    Show the ACL log entries.",
        "SAVE",
        "    Save the current config to the ACL file.",
        "SETUSER <username> <attribute> [<attribute> ...]",
        "    Create or modify a user with the specified attributes.",
        "USERS",
        "    List all the registered usernames.",
        "WHOAMI",
        "    Return the current connection username.",
    ];
    help_lines(reply, "ACL", &lines);
    Ok(())
}
