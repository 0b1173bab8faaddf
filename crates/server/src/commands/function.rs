//! FUNCTION and its subcommands, FCALL, FCALL_RO. A library is durable with the turn that loads it.

use crate::args::Args;
use crate::command::{Command, Context, DENY_OOM, MOVABLE_KEYS, REPLICATED, WRITE};
use crate::commands::function_dump::{dump, restore};
use crate::commands::help::help_lines;
use crate::commands::script_run::{Call, check_keys, is_command, kill, run};
use crate::commands::stored_libraries::{load_stored, store};
use crate::failure::Outcome;
use crate::glob;
use crate::libraries::add;
use crate::number::parse_integer;
use crate::reply::Reply;

/// The family.
pub(super) const COMMANDS: &[Command] = &[
    Command::container("function", 0, SUBCOMMANDS),
    Command::new("fcall", -3, MOVABLE_KEYS | REPLICATED, fcall),
    Command::new("fcall_ro", -3, MOVABLE_KEYS, fcall_ro),
];

const SUBCOMMANDS: &[Command] = &[
    Command::sub("function|delete", "delete", 3, WRITE, delete),
    Command::sub("function|dump", "dump", 2, 0, dump),
    Command::sub("function|flush", "flush", -2, WRITE, flush),
    Command::sub("function|help", "help", 2, 0, help),
    Command::sub("function|kill", "kill", 2, 0, kill_function),
    Command::sub("function|list", "list", -2, 0, list),
    Command::sub("function|load", "load", -3, WRITE | DENY_OOM, load),
    Command::sub("function|restore", "restore", -3, WRITE | DENY_OOM, restore),
    Command::sub("function|stats", "stats", 2, 0, stats),
];

fn load(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let last = args.count() - 1;
    for at in 2..last {
        if !args.is(at, "REPLACE") {
            let option = String::from_utf8_lossy(args.at(at));
            return Err(format!("ERR Unknown option given: {option}").into());
        }
    }
    if context.shared.scripts.running.is_some() {
        return Err("ERR a script is running".into());
    }
    load_stored(context)?;
    let (engine, libraries) = context.shared.scripts.libraries.loaded(is_command)?;
    let before = libraries.clone();
    let name = add(engine, libraries, args.at(last), last > 2)?;
    store(context, &before)?;
    reply.bulk(&name);
    Ok(())
}

fn delete(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    load_stored(context)?;
    let (_, libraries) = context.shared.scripts.libraries.loaded(is_command)?;
    let before = libraries.clone();
    if libraries.remove(args.at(2)).is_none() {
        return Err("ERR Library not found".into());
    }
    store(context, &before)?;
    reply.ok();
    Ok(())
}

fn flush(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.count() > 3 {
        return Err(
            "ERR unknown subcommand or wrong number of arguments for 'flush'. Try FUNCTION HELP."
                .into(),
        );
    }
    if args.count() == 3 && !args.is(2, "SYNC") && !args.is(2, "ASYNC") {
        return Err("ERR FUNCTION FLUSH only supports SYNC|ASYNC option".into());
    }
    load_stored(context)?;
    let (_, libraries) = context.shared.scripts.libraries.loaded(is_command)?;
    let before = std::mem::take(libraries);
    store(context, &before)?;
    reply.ok();
    Ok(())
}

fn list(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (mut with_code, mut pattern) = (false, None);
    let mut at = 2;
    while at < args.count() {
        if !with_code && args.is(at, "WITHCODE") {
            with_code = true;
        } else if pattern.is_none() && args.is(at, "LIBRARYNAME") {
            at += 1;
            if at == args.count() {
                return Err("ERR library name argument was not given".into());
            }
            pattern = Some(args.at(at));
        } else {
            let argument = String::from_utf8_lossy(args.at(at));
            return Err(format!("ERR Unknown argument {argument}").into());
        }
        at += 1;
    }
    load_stored(context)?;
    let (_, libraries) = context.shared.scripts.libraries.loaded(is_command)?;
    let matching: Vec<_> = libraries
        .iter()
        .filter(|(name, _)| pattern.is_none_or(|pattern| glob::matches(pattern, name, true)))
        .collect();
    reply.array(matching.len());
    for (name, library) in matching {
        reply.map(if with_code { 4 } else { 3 });
        reply.bulk(b"library_name");
        reply.bulk(name);
        reply.bulk(b"engine");
        reply.bulk(b"LUA");
        reply.bulk(b"functions");
        reply.array(library.functions.len());
        for function in &library.functions {
            reply.map(3);
            reply.bulk(b"name");
            reply.bulk(&function.name);
            reply.bulk(b"description");
            match &function.description {
                Some(description) => reply.bulk(description),
                None => reply.null(),
            }
            reply.bulk(b"flags");
            reply.set(function.flags.names().count());
            function.flags.names().for_each(|flag| reply.simple(flag));
        }
        if with_code {
            reply.bulk(b"library_code");
            reply.bulk(&library.code);
        }
    }
    Ok(())
}

fn stats(context: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    if context.shared.scripts.running.is_none() {
        load_stored(context)?;
    }
    let scripts = &context.shared.scripts;
    reply.map(2);
    reply.bulk(b"running_script");
    match &scripts.running {
        Some(running) if running.is_eval => {
            return Err(crate::commands::script_run::busy(true).into());
        }
        Some(running) => {
            reply.map(3);
            reply.bulk(b"name");
            reply.bulk(running.name.as_bytes());
            reply.bulk(b"command");
            reply.array(running.command.len());
            running.command.iter().for_each(|word| reply.bulk(word));
            reply.bulk(b"duration_ms");
            reply.integer(running.began.elapsed().as_millis() as i64);
        }
        None => reply.null(),
    }
    let (libraries, functions) = scripts.libraries.counts();
    reply.bulk(b"engines");
    reply.map(1);
    reply.bulk(b"LUA");
    reply.map(2);
    reply.bulk(b"libraries_count");
    reply.integer(libraries as i64);
    reply.bulk(b"functions_count");
    reply.integer(functions as i64);
    Ok(())
}

fn kill_function(context: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    kill(context, false)?;
    reply.ok();
    Ok(())
}

fn fcall(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    execute(context, args, false, reply)
}

fn fcall_ro(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    execute(context, args, true, reply)
}

fn execute(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    is_read_only: bool,
    reply: &mut Reply,
) -> Outcome {
    load_stored(context)?;
    let Some((engine, function)) = context.shared.scripts.libraries.find(args.at(1)) else {
        return Err("ERR Function not found".into());
    };
    let Some(count) = parse_integer(args.at(2)) else {
        return Err("ERR Bad number of keys provided".into());
    };
    let keys = check_keys(count, args)?;
    let name = String::from_utf8_lossy(&function.name);
    let call = Call {
        engine: &engine,
        function: &function.function,
        flags: Some(function.flags),
        name: &name,
        is_eval: false,
        is_read_only,
        was_short: &function.was_short,
    };
    run(context, &call, (args, keys), reply)
}

fn help(_: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    let lines = [
        "LOAD [REPLACE] <code>",
        "    Load a library of functions. It is durable when this is replied.",
        "DELETE <library>",
        "    Remove a library.",
        "LIST [LIBRARYNAME <pattern>] [WITHCODE]",
        "    The libraries: name, engine, functions, and their code if asked for.",
        "STATS",
        "    The function that runs, and how many libraries and functions there are.",
        "KILL",
        "    End the function that runs, if it has not written.",
        "FLUSH [ASYNC|SYNC]",
        "    Remove all libraries.",
        "DUMP",
        "    All libraries, for FUNCTION RESTORE of this server or of Redis.",
        "RESTORE <dump> [FLUSH|APPEND|REPLACE]",
        "    Load the libraries of a dump: in the place of all others, beside them, or in the place of those of the same name.",
    ];
    help_lines(reply, "FUNCTION", &lines);
    Ok(())
}
