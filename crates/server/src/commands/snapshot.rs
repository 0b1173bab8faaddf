//! TEMBO.SNAPSHOT: the named snapshots of the store, which SAVE and backups leave.

use tembo_kv::is_own_name;

use crate::args::Args;
use crate::command::{ADMIN, Command, Context, NO_MULTI, SAVE};
use crate::commands::help::help_lines;
use crate::failure::{Failure, Outcome};
use crate::reply::Reply;

/// The family.
pub(super) const COMMANDS: &[Command] = &[Command::container("tembo.snapshot", ADMIN, SUBCOMMANDS)];

const SUBCOMMANDS: &[Command] = &[
    Command::sub("tembo.snapshot|list", "list", 2, ADMIN, list),
    Command::sub("tembo.snapshot|drop", "drop", -3, ADMIN | NO_MULTI | SAVE, drop_named),
    Command::sub("tembo.snapshot|help", "help", 2, 0, help),
];

/// Name and version of each, but of Tembo's own.
fn list(context: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    let mut named = context.data.store().snapshots();
    named.retain(|(name, _)| !is_own_name(name));
    reply.map(named.len());
    for (name, version) in named {
        reply.bulk(name.as_bytes());
        reply.integer(version as i64);
    }
    Ok(())
}

/// How many of the names there were. Needs no room in the pool.
fn drop_named(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    // A name that is no text is no snapshot's.
    let names = (2..args.count()).filter_map(|at| std::str::from_utf8(args.at(at)).ok());
    let names: Vec<&str> = names.collect();
    if names.iter().any(|name| is_own_name(name)) {
        return Err("ERR such a name keeps what clones of devices read (remove the clones), or what a replica goes back \
                    to until it is whole or promoted"
            .into());
    }
    let store = context.commit_early()?;
    let mut dropped = 0;
    for name in names {
        dropped += i64::from(store.drop_snapshot(name).map_err(Failure::Store)?);
    }
    reply.integer(dropped);
    Ok(())
}

fn help(_: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    let lines = [
        "LIST",
        "    Names and versions of the snapshots that are kept: \"save\" is that of the last SAVE,",
        "    others are those of backups with KEEP. What was overwritten or deleted since takes space.",
        "DROP <name> [<name> ...]",
        "    Drop snapshots, so that what only they keep is given back. Returns how many there were.",
    ];
    help_lines(reply, "TEMBO.SNAPSHOT", &lines);
    Ok(())
}
