//! MEMORY: what a key takes, and what the data, the clients and the process take.

use crate::args::Args;
use crate::command::{Command, Context, READ};
use crate::commands::argument::integer;
use crate::commands::help::help_lines;
use crate::connection::Connection;
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::memory::resident_bytes;
use crate::reply::Reply;

/// Elements of a large collection that MEMORY USAGE looks at without SAMPLES.
const SAMPLES: u64 = 5;

/// The family.
pub(super) const COMMANDS: &[Command] = &[Command::container("memory", 0, SUBCOMMANDS)];

const SUBCOMMANDS: &[Command] = &[
    Command::sub("memory|usage", "usage", -3, READ, usage),
    Command::sub("memory|stats", "stats", 2, 0, stats),
    Command::sub("memory|doctor", "doctor", 2, 0, doctor),
    Command::sub("memory|malloc-stats", "malloc-stats", 2, 0, malloc_stats),
    Command::sub("memory|purge", "purge", 2, 0, purge),
    Command::sub("memory|help", "help", 2, 0, help),
];

fn usage(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let samples = match args.count() {
        3 => SAMPLES,
        5 if args.is(3, "SAMPLES") => {
            u64::try_from(integer(args.at(4))?).map_err(|_| Failure::from(SYNTAX))?
        }
        _ => return Err(SYNTAX.into()),
    };
    let samples = (samples > 0).then_some(samples);
    match context.data.usage(context.session.db, args.at(2), samples)? {
        Some(size) => reply.integer(size as i64),
        None => reply.null(),
    }
    Ok(())
}

/// Parts of a hundred.
fn percentage(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

/// The names are Redis's, of what there is here; those that begin with `tembo.` are as in INFO.
fn stats(context: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    let used = context.data.used_bytes();
    let peak = used.max(context.shared.report.used_bytes);
    let (resident, of_files) = resident_bytes();
    let mut keys = 0;
    for db in 0..context.data.databases() {
        keys += context.data.count(db)?.keys;
    }
    let scripts = &context.shared.scripts;
    let (of_scripts, of_functions) = (scripts.memory() as u64, scripts.libraries.memory() as u64);
    let clients = context.clients.iter().map(Connection::memory).sum::<usize>() as u64;
    let overhead = clients + of_scripts + of_functions;
    let bytes = [
        ("peak.allocated", peak),
        ("total.allocated", used),
        ("startup.allocated", 0),
        ("replication.backlog", 0),
        ("clients.slaves", 0),
        ("clients.normal", clients),
        ("cluster.links", 0),
        ("aof.buffer", 0),
        ("lua.caches", of_scripts),
        ("functions.caches", of_functions),
        ("overhead.total", overhead),
        ("keys.count", keys),
        ("keys.bytes-per-key", used.checked_div(keys).unwrap_or(0)),
        ("dataset.bytes", used),
        ("allocator.resident", resident.saturating_sub(of_files)),
        ("tembo.private-pages", context.shared.report.private_bytes),
        ("tembo.pool", context.shared.report.pool_bytes),
    ];
    let shares = [
        ("dataset.percentage", percentage(used, used + overhead)),
        ("peak.percentage", percentage(used, peak)),
    ];
    reply.map(bytes.len() + shares.len());
    for (name, number) in bytes {
        reply.bulk(name.as_bytes());
        reply.integer(number as i64);
    }
    for (name, share) in shares {
        reply.bulk(name.as_bytes());
        reply.double(share);
    }
    Ok(())
}

/// What takes more than this part of its limit is named.
const NEAR: f64 = 90.0;

/// A holder of so many versions is named.
const LAG_NAMED: u64 = 100_000;

fn doctor(context: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    let (report, most) = (&context.shared.report, context.shared.settings.maxmemory);
    let used = context.data.used_bytes();
    let mut advice = Vec::new();
    if most > 0 && percentage(used, most) >= NEAR {
        advice.push(format!(
            "The data ({used} bytes) is close to `maxmemory` ({most}): raise it, or choose a `maxmemory-policy` that evicts."
        ));
    }
    if report.private_limit > 0 && percentage(report.private_bytes, report.private_limit) >= NEAR {
        advice.push(format!(
            "Private pages ({} bytes) are close to their limit ({}): writes wait for checkpoints. `--memory` gives them more.",
            report.private_bytes, report.private_limit
        ));
    }
    let lag = report.horizon.visible - report.horizon.version;
    if let Some(holder) = report.horizon.holders.first()
        && lag >= LAG_NAMED
    {
        advice.push(format!(
            "The last {lag} versions are kept, and with them what was overwritten and removed since: {holder}."
        ));
    }
    if advice.is_empty() {
        advice.push(format!(
            "Nothing is out of the ordinary: the data takes {used} bytes of a pool of {}.",
            report.pool_bytes
        ));
    }
    advice.push(String::new());
    reply.verbatim(advice.join("\n").as_bytes());
    Ok(())
}

/// The allocator of the system's C library says nothing in words.
fn malloc_stats(_: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    reply.bulk(b"Stats not supported for the current allocator");
    Ok(())
}

/// As in a Redis over the C library's allocator, which gives memory back by itself: there is nothing to do.
fn purge(_: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    reply.ok();
    Ok(())
}

fn help(_: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    let lines = [
        "DOCTOR",
        "    Return what of memory is close to a limit, with what to do.",
        "MALLOC-STATS",
        "    Return what the allocator reports: nothing, of the C library's.",
        "PURGE",
        "    Reply OK: the allocator gives memory back by itself.",
        "STATS",
        "    Return what takes how much memory.",
        "USAGE <key> [SAMPLES <count>]",
        "    Return memory in bytes used by <key> and its value.",
    ];
    help_lines(reply, "MEMORY", &lines);
    Ok(())
}
