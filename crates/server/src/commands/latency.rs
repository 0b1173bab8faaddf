//! LATENCY: how long the stages of turns take.

use crate::args::Args;
use crate::command::{ADMIN, Command, Context};
use crate::commands::help::help_lines;
use crate::failure::Outcome;
use crate::latency::Stage;
use crate::reply::Reply;

/// The family.
pub(super) const COMMANDS: &[Command] = &[Command::container("latency", 0, LATENCY)];

const LATENCY: &[Command] = &[
    Command::sub("latency|histogram", "histogram", -2, ADMIN, histogram),
    Command::sub("latency|reset", "reset", -2, ADMIN, reset),
    Command::sub("latency|help", "help", 2, 0, help),
];

/// The stages that are named, in the order of their names in the command; all, if none is.
fn stages(args: Args<'_>) -> Vec<Stage> {
    if args.count() == 2 {
        return Stage::ALL.to_vec();
    }
    let named = args.from(2).filter_map(|name| {
        let is_named = |stage: &&Stage| name.eq_ignore_ascii_case(stage.name().as_bytes());
        Stage::ALL.iter().find(is_named).copied()
    });
    named.collect()
}

/// As Redis replies for commands: calls, and how many took up to so many microseconds, by powers of two.
fn histogram(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let latency = &context.shared.latency;
    let known: Vec<_> =
        stages(args).into_iter().filter_map(|stage| Some((stage, latency.of(stage)?))).collect();
    let with_times: Vec<_> = known.into_iter().filter(|(_, times)| !times.is_empty()).collect();
    reply.map(with_times.len());
    for (stage, times) in with_times {
        reply.bulk(stage.name().as_bytes());
        reply.map(2);
        reply.bulk(b"calls");
        reply.integer(times.len() as i64);
        reply.bulk(b"histogram_usec");
        let mut count = 0;
        let steps: Vec<(u64, u64)> = times
            .iter_log(1, 2.0)
            .filter(|step| step.count_since_last_iteration() > 0)
            .map(|step| {
                count += step.count_since_last_iteration();
                (step.value_iterated_to() + 1, count)
            })
            .collect();
        reply.map(steps.len());
        for (up_to_us, count) in steps {
            reply.integer(up_to_us as i64);
            reply.integer(count as i64);
        }
    }
    Ok(())
}

fn reset(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let stages = stages(args).into_iter();
    let latency = &mut context.shared.latency;
    reply.integer(stages.map(|stage| i64::from(latency.reset(stage))).sum());
    Ok(())
}

fn help(_: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    let lines = [
        "HISTOGRAM [stage [stage ...]]",
        "    Return how often the stages of a turn took up to so many microseconds: turn, expiry,",
        "    execute, lock, commit, sync. What the disk took is in sync. Default: all stages.",
        "RESET [stage [stage ...]]",
        "    Forget the times of the stages. Default: all stages.",
    ];
    help_lines(reply, "LATENCY", &lines);
    Ok(())
}
