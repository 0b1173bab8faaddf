//! EVAL, EVALSHA, and those that only read.

use crate::args::Args;
use crate::command::{Command, Context, MOVABLE_KEYS, REPLICATED};
use crate::commands::script_run::{Call, check_keys, is_command, run};
use crate::failure::{Failure, NOT_AN_INTEGER, Outcome};
use crate::number::parse_integer;
use crate::reply::Reply;

/// The family.
pub(super) const COMMANDS: &[Command] = &[
    Command::new("eval", -3, MOVABLE_KEYS | REPLICATED, eval),
    Command::new("eval_ro", -3, MOVABLE_KEYS, eval_ro),
    Command::new("evalsha", -3, MOVABLE_KEYS | REPLICATED, evalsha),
    Command::new("evalsha_ro", -3, MOVABLE_KEYS, evalsha_ro),
];

/// EVALSHA of a script that is not known.
const NO_SCRIPT: &str = "NOSCRIPT No matching script. Please use EVAL.";

fn eval(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    execute(context, args, (false, false), reply)
}

fn eval_ro(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    execute(context, args, (false, true), reply)
}

fn evalsha(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    execute(context, args, (true, false), reply)
}

fn evalsha_ro(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    execute(context, args, (true, true), reply)
}

fn execute(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    (by_sha, is_read_only): (bool, bool),
    reply: &mut Reply,
) -> Outcome {
    if by_sha && args.at(1).len() != 40 {
        return Err(NO_SCRIPT.into());
    }
    let count = parse_integer(args.at(2)).ok_or(Failure::from(NOT_AN_INTEGER))?;
    let keys = check_keys(count, args)?;
    let scripts = &mut context.shared.scripts;
    let script = if by_sha {
        let sha = String::from_utf8_lossy(args.at(1)).to_ascii_lowercase();
        scripts.find(&sha).ok_or(Failure::from(NO_SCRIPT))?
    } else {
        scripts.add(args.at(1), is_command)?
    };
    let engine = scripts.engine(is_command)?;
    let call = Call {
        engine: &engine,
        function: &script.function,
        flags: script.flags,
        name: &script.sha,
        is_eval: true,
        is_read_only,
        was_short: &script.was_short,
    };
    run(context, &call, (args, keys), reply)
}
