//! LATENCY: how long commands, events and the stages of turns take.

use hdrhistogram::{Counter, Histogram};

use crate::args::Args;
use crate::command::{ADMIN, Command, Context};
use crate::commands::help::help_lines;
use crate::failure::Outcome;
use crate::latency::Stage;
use crate::observed::Event;
use crate::reply::Reply;

/// The family.
pub(super) const COMMANDS: &[Command] = &[Command::container("latency", 0, LATENCY)];

const LATENCY: &[Command] = &[
    Command::sub("latency|doctor", "doctor", 2, ADMIN, doctor),
    Command::sub("latency|graph", "graph", 3, ADMIN, graph),
    Command::sub("latency|histogram", "histogram", -2, ADMIN, histogram),
    Command::sub("latency|history", "history", 3, ADMIN, history),
    Command::sub("latency|latest", "latest", 2, ADMIN, latest),
    Command::sub("latency|reset", "reset", -2, ADMIN, reset),
    Command::sub("latency|help", "help", 2, 0, help),
];

/// The stage of a turn that is named as `tembo.turn`.
fn stage(name: &[u8]) -> Option<Stage> {
    let name = name.strip_prefix(b"tembo.")?;
    Stage::ALL.into_iter().find(|stage| name.eq_ignore_ascii_case(stage.name().as_bytes()))
}

/// The commands that a name stands for, by number: a container has its subcommands.
fn named(context: &Context<'_, '_>, name: &[u8]) -> Vec<(&'static Command, usize)> {
    let mut parts = name.splitn(2, |&byte| byte == b'|');
    let Some((command, number)) = context.table.find_numbered(parts.next().unwrap_or_default())
    else {
        return Vec::new();
    };
    let subcommands = command.subcommands.iter().zip(number + 1..);
    match parts.next() {
        Some(second) => {
            let is_named = |sub: &&Command| sub.name.as_bytes().eq_ignore_ascii_case(second);
            subcommands.filter(|(sub, _)| is_named(sub)).collect()
        }
        None => std::iter::once((command, number)).chain(subcommands).collect(),
    }
}

/// Calls, and how many took up to so many microseconds, by powers of two. `unit`: of the histogram, in microseconds.
fn describe<C: Counter>(reply: &mut Reply, name: &str, times: &Histogram<C>, unit_per_us: u64) {
    reply.bulk(name.as_bytes());
    reply.map(2);
    reply.bulk(b"calls");
    reply.integer(times.len() as i64);
    reply.bulk(b"histogram_usec");
    let mut count = 0;
    let mut steps: Vec<(u64, u64)> = Vec::new();
    for step in times.iter_log(unit_per_us, 2.0) {
        if step.count_since_last_iteration() > 0 {
            count += step.count_since_last_iteration();
            steps.push(((step.value_iterated_to() + 1) / unit_per_us, count));
        }
    }
    reply.map(steps.len());
    for (up_to_us, count) in steps {
        reply.integer(up_to_us as i64);
        reply.integer(count as i64);
    }
}

fn histogram(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let mut commands: Vec<(&Command, usize)> = Vec::new();
    let mut stages: Vec<Stage> = Vec::new();
    if args.count() == 2 {
        commands = context.table.all_numbered().collect();
    }
    for name in args.from(2) {
        match stage(name) {
            Some(stage) => stages.push(stage),
            None => commands.extend(named(context, name)),
        }
    }
    let times = &context.shared.observed.times;
    let known = |(command, number): (&'static Command, usize)| {
        Some((command.full_name, times.of(number)?.histogram.as_deref()?))
    };
    let commands: Vec<_> = commands.into_iter().filter_map(known).collect();
    let latency = &context.shared.latency;
    let stages: Vec<_> =
        stages.into_iter().filter_map(|stage| Some((stage, latency.of(stage)?))).collect();
    let stages: Vec<_> = stages.into_iter().filter(|(_, times)| !times.is_empty()).collect();
    reply.map(commands.len() + stages.len());
    for (name, times) in commands {
        describe(reply, name, times, 1000);
    }
    for (stage, times) in stages {
        describe(reply, &format!("tembo.{}", stage.name()), times, 1);
    }
    Ok(())
}

fn history(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let Some(event) = Event::named(args.at(2)) else {
        reply.array(0);
        return Ok(());
    };
    let times = context.shared.observed.events.of(event);
    reply.array(times.len());
    for (at_s, took_ms) in times {
        reply.array(2);
        reply.integer(at_s as i64);
        reply.integer(took_ms as i64);
    }
    Ok(())
}

fn latest(context: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    let latest = context.shared.observed.events.latest();
    reply.array(latest.len());
    for (event, (at_s, took_ms), max_ms) in latest {
        reply.array(4);
        reply.bulk(event.name().as_bytes());
        reply.integer(at_s as i64);
        reply.integer(took_ms as i64);
        reply.integer(max_ms as i64);
    }
    Ok(())
}

fn reset(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let events: Vec<Event> = if args.count() == 2 {
        Event::ALL.to_vec()
    } else {
        args.from(2).filter_map(Event::named).collect()
    };
    let stages: Vec<Stage> = args.from(2).filter_map(stage).collect();
    let shared = &mut *context.shared;
    let of_events: i64 =
        events.into_iter().map(|event| i64::from(shared.observed.events.reset(event))).sum();
    let of_stages: i64 =
        stages.into_iter().map(|stage| i64::from(shared.latency.reset(stage))).sum();
    reply.integer(of_events + of_stages);
    Ok(())
}

/// The times of an event as a graph: a column for each, a row for each eighth of the longest.
fn graph(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    const ROWS: u64 = 8;
    let event = Event::named(args.at(2));
    let times: Vec<(u64, u64)> =
        event.map(|event| context.shared.observed.events.of(event).collect()).unwrap_or_default();
    let (Some(event), Some(max_ms)) = (event, times.iter().map(|time| time.1).max()) else {
        let name = String::from_utf8_lossy(args.at(2)).into_owned();
        return Err(format!("ERR No samples available for event '{name}'").into());
    };
    let min_ms = times.iter().map(|time| time.1).min().unwrap_or(0);
    let mut text = format!("{} - high {max_ms} ms, low {min_ms} ms\n", event.name());
    for row in (0..ROWS).rev() {
        let is_high = |took_ms: u64| took_ms * ROWS > row * max_ms;
        text.extend(times.iter().map(|&(_, took_ms)| if is_high(took_ms) { '#' } else { ' ' }));
        text.push('\n');
    }
    reply.verbatim(text.as_bytes());
    Ok(())
}

fn doctor(context: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    let threshold_ms = context.shared.settings.latency_threshold_ms;
    let latest = context.shared.observed.events.latest();
    let mut text = String::new();
    if threshold_ms == 0 {
        text += "Nothing is watched: CONFIG SET latency-monitor-threshold to the milliseconds that are too long.\n";
    } else if latest.is_empty() {
        text += &format!("Nothing took {threshold_ms} ms or longer.\n");
    }
    for (event, (_, took_ms), max_ms) in latest {
        let count = context.shared.observed.events.of(event).len();
        let name = event.name();
        text += &format!(
            "{name}: {count} times, the last took {took_ms} ms, the longest {max_ms} ms.\n"
        );
        text += match event {
            Event::ExpireCycle => "  Many keys expire at one time: give them different times.\n",
            Event::Command | Event::FastCommand => {
                "  SLOWLOG GET shows which commands took long.\n"
            }
        };
    }
    text += "LATENCY HISTOGRAM tembo.sync tembo.commit tembo.execute separates the disk's time from that of commands.\n";
    reply.verbatim(text.as_bytes());
    Ok(())
}

fn help(_: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    let lines = [
        "DOCTOR",
        "    Return what took long, in words.",
        "GRAPH <event>",
        "    Return the times of an event as a graph.",
        "HISTOGRAM [<command> ...]",
        "    Return how often commands took up to so many microseconds. Default: all commands. The stages of a turn",
        "    have names, too: tembo.turn, tembo.expiry, tembo.execute, tembo.lock, tembo.commit, tembo.sync. What the",
        "    disk took is in tembo.sync.",
        "HISTORY <event>",
        "    Return the times of an event: command, fast-command, expire-cycle.",
        "LATEST",
        "    Return the last and the longest time of each event.",
        "RESET [<event> ...]",
        "    Forget the times of events, or of stages that are named. Default: all events.",
    ];
    help_lines(reply, "LATENCY", &lines);
    Ok(())
}
