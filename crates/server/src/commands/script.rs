//! SCRIPT and its subcommands.

use crate::args::Args;
use crate::command::{Command, Context};
use crate::commands::help::help_lines;
use crate::commands::script_run::{is_command, kill};
use crate::failure::Outcome;
use crate::reply::Reply;

/// The family.
pub(super) const COMMANDS: &[Command] = &[Command::container("script", 0, SUBCOMMANDS)];

const SUBCOMMANDS: &[Command] = &[
    Command::sub("script|debug", "debug", 3, 0, debug),
    Command::sub("script|exists", "exists", -3, 0, exists),
    Command::sub("script|flush", "flush", -2, 0, flush),
    Command::sub("script|help", "help", 2, 0, help),
    Command::sub("script|kill", "kill", 2, 0, kill_script),
    Command::sub("script|load", "load", 3, 0, load),
];

fn load(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let script = context.shared.scripts.add(args.at(2), is_command)?;
    reply.bulk(script.sha.as_bytes());
    Ok(())
}

fn exists(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    reply.array(args.count() - 2);
    for sha in args.from(2) {
        let known = std::str::from_utf8(sha).ok().and_then(|sha| context.shared.scripts.find(sha));
        reply.flag(known.is_some());
    }
    Ok(())
}

fn flush(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.count() > 3 || args.count() == 3 && !args.is(2, "SYNC") && !args.is(2, "ASYNC") {
        return Err("ERR SCRIPT FLUSH only support SYNC|ASYNC option".into());
    }
    context.shared.scripts.flush();
    reply.ok();
    Ok(())
}

fn kill_script(context: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    kill(context, true)?;
    reply.ok();
    Ok(())
}

/// There is no debugger.
fn debug(_: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.is(2, "YES") || args.is(2, "SYNC") {
        return Err("ERR Tembo has no debugger of scripts".into());
    }
    if !args.is(2, "NO") {
        return Err("ERR Use SCRIPT DEBUG YES/SYNC/NO".into());
    }
    reply.ok();
    Ok(())
}

fn help(_: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    let lines = [
        "DEBUG (YES|SYNC|NO)",
        "    Only NO: there is no debugger of scripts.",
        "EXISTS <sha1> [<sha1> ...]",
        "    Whether the scripts are known.",
        "FLUSH [ASYNC|SYNC]",
        "    Forget all scripts.",
        "KILL",
        "    End the script that runs, if it has not written.",
        "LOAD <script>",
        "    Compile a script, and reply its SHA-1 for EVALSHA. It is kept until the server stops.",
    ];
    help_lines(reply, "SCRIPT", &lines);
    Ok(())
}
