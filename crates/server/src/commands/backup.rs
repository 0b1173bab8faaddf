//! TEMBO.BACKUP: backups of the running server.

use crate::args::Args;
use crate::backup::{Backup, State};
use crate::command::{ADMIN, Command, Context, NO_MULTI};
use crate::commands::help::help_lines;
use crate::failure::{Outcome, SYNTAX};
use crate::reply::Reply;

/// The family.
pub(super) const COMMANDS: &[Command] = &[Command::container("tembo.backup", ADMIN, SUBCOMMANDS)];

const SUBCOMMANDS: &[Command] = &[
    Command::sub("tembo.backup|start", "start", -3, ADMIN | NO_MULTI, start),
    Command::sub("tembo.backup|status", "status", 2, ADMIN, status),
    Command::sub("tembo.backup|cancel", "cancel", -2, ADMIN | NO_MULTI, cancel),
    Command::sub("tembo.backup|help", "help", 2, 0, help),
];

fn start(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (mut since, mut keep) = (None, None);
    for at in (3..args.count()).step_by(2) {
        let option = if args.is(at, "SINCE") {
            &mut since
        } else if args.is(at, "KEEP") {
            &mut keep
        } else {
            return Err(SYNTAX.into());
        };
        if at + 1 == args.count() || option.replace(args.at(at + 1)).is_some() {
            return Err(SYNTAX.into());
        }
    }
    let now_s = context.shared.clock.wall_s();
    context.shared.backups.start(context.data.store(), (args.at(2), since, keep), now_s)?;
    reply.ok();
    Ok(())
}

fn status(context: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    let Some(backup) = context.shared.backups.last() else {
        reply.map(1);
        reply.bulk(b"state");
        reply.bulk(b"none");
        return Ok(());
    };
    let Backup { name, since, started_s, took, bytes, state } = backup;
    let so_far_us = context.shared.clock.wall_us.saturating_sub(started_s * 1_000_000);
    let took_us = took.map_or(so_far_us, |took| took.as_micros() as u64);
    let (version, entries) = match state {
        State::Done { version, entries } => (version, entries),
        _ => (0, 0),
    };
    reply.map(9);
    for (field, number) in [
        ("since", since.unwrap_or(0)),
        ("version", version),
        ("entries", entries),
        ("bytes", bytes),
        ("started", started_s),
        ("milliseconds", took_us / 1000),
    ] {
        reply.bulk(field.as_bytes());
        reply.integer(number as i64);
    }
    let error = if let State::Failed(error) = &state { error } else { "" };
    for (field, text) in [("state", state.name()), ("name", &name), ("error", error)] {
        reply.bulk(field.as_bytes());
        reply.bulk(text.as_bytes());
    }
    Ok(())
}

/// Without a name: cancels the running backup. With a name: removes what an interrupted one has left.
fn cancel(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    match args.count() {
        2 if context.shared.backups.cancel() => {}
        2 => return Err("ERR no backup is under way".into()),
        3 => {
            let store = context.commit_early()?;
            context.shared.backups.forget(store, args.at(2))?;
        }
        _ => return Err(SYNTAX.into()),
    }
    reply.ok();
    Ok(())
}

fn help(_: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    let lines = [
        "START <name> [SINCE <backup>|<version>] [KEEP <snapshot>]",
        "    Write a backup into the folder that the server was started with (--backup-dir), in the",
        "    background, or continue one that was interrupted. SINCE: only what has changed since.",
        "    KEEP: keep its version under a name, so that a later SINCE can begin with it.",
        "STATUS",
        "    The state of the running backup, or of the last one.",
        "CANCEL [<name>]",
        "    Cancel the running backup, or remove an interrupted one, and release its version.",
    ];
    help_lines(reply, "TEMBO.BACKUP", &lines);
    Ok(())
}
