//! The server as a whole: FLUSHDB, FLUSHALL, SAVE, SHUTDOWN, TIME, LOLWUT.

use crate::args::Args;
use crate::command::{ADMIN, Command, Context, FAST, NO_MULTI, SAVE, WRITE};
use crate::commands::argument::integer;
use crate::failure::{Failure, Outcome, READ_ONLY, SYNTAX};
use crate::reply::Reply;

/// The family.
pub(super) const COMMANDS: &[Command] = &[
    Command::new("flushdb", -1, WRITE, flushdb),
    Command::new("flushall", -1, WRITE, flushall),
    Command::new("save", 1, ADMIN | NO_MULTI | SAVE, save),
    Command::new("bgsave", -1, ADMIN | SAVE, bgsave),
    Command::new("bgrewriteaof", 1, ADMIN, bgrewriteaof),
    Command::new("lastsave", 1, FAST, lastsave),
    Command::new("shutdown", -1, ADMIN | NO_MULTI, shutdown),
    Command::new("time", 1, FAST, time),
    Command::new("lolwut", -1, FAST, lolwut),
];

/// Clearing takes constant time either way, so that ASYNC and SYNC are the same.
fn check_flush_options(args: Args<'_>) -> Outcome {
    match args.count() {
        1 => Ok(()),
        2 if args.is(1, "ASYNC") || args.is(1, "SYNC") => Ok(()),
        _ => Err(SYNTAX.into()),
    }
}

fn flushdb(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    check_flush_options(args)?;
    context.data.clear(context.session.db)?;
    reply.ok();
    Ok(())
}

fn flushall(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    check_flush_options(args)?;
    context.data.all_or_nothing(|data| (0..data.databases()).try_for_each(|db| data.clear(db)))?;
    reply.ok();
    Ok(())
}

/// Names the current version durably, in constant time: nothing is copied.
fn save(context: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    let store = context.commit_early()?;
    store.save_snapshot("save").map_err(Failure::Store)?;
    context.shared.saved_s = context.shared.clock.wall_s();
    context.shared.stats.changes = 0;
    context.shared.stats.saves += 1;
    reply.ok();
    Ok(())
}

fn bgsave(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.count() > 2 || args.count() == 2 && !args.is(1, "SCHEDULE") {
        return Err(SYNTAX.into());
    }
    context.shared.save_wanted = true;
    reply.simple("Background saving started");
    Ok(())
}

/// There is no log of commands that grows: nothing has to be written anew.
fn bgrewriteaof(_: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    reply.simple("Background append only file rewriting started");
    Ok(())
}

fn lastsave(context: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    reply.integer(context.shared.saved_s as i64);
    Ok(())
}

fn shutdown(context: &mut Context<'_, '_>, args: Args<'_>, _: &mut Reply) -> Outcome {
    let (mut save, mut nosave) = (false, false);
    for at in 1..args.count() {
        if args.is(at, "SAVE") {
            save = true;
        } else if args.is(at, "NOSAVE") {
            nosave = true;
        } else if args.is(at, "ABORT") && args.count() == 2 {
            return Err("ERR No shutdown in progress.".into());
        } else if !args.is(at, "NOW") && !args.is(at, "FORCE") {
            return Err(SYNTAX.into());
        }
    }
    if save && nosave {
        return Err(SYNTAX.into());
    }
    if save && context.data.is_read_only() {
        return Err(READ_ONLY.into());
    }
    context.shared.save_wanted |= save;
    context.shared.shutdown = true;
    context.session.closing = true;
    Ok(())
}

fn time(context: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    let now_us = context.shared.clock.wall_us as i64;
    reply.array(2);
    reply.bulk_integer(now_us / 1_000_000);
    reply.bulk_integer(now_us % 1_000_000);
    Ok(())
}

/// An elephant, and the version. It is the same for each that is asked for.
fn lolwut(_: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    const ELEPHANT: &str = r"
     __     __
    /  \~~~/  \    (
   (    ..     )  /
    \__     __/~~~
      |)   |
      |_| |_|
";
    if args.count() > 2 && args.is(1, "VERSION") {
        integer(args.at(2))?;
    }
    let version = env!("CARGO_PKG_VERSION");
    reply.verbatim(format!("{ELEPHANT}\nTembo ver. {version}\n").as_bytes());
    Ok(())
}
