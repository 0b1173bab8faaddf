//! `tembo-lab torture soak`: mixed load on a store in a small memory group.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use indicatif::HumanBytes;
use parse_size::Config;
use serde::Serialize;
use tembo_bench::MemoryGroup;
use tembo_torture::soak::{SoakConfig, Soaked, soak};

use crate::exit::{Exit, refuse};
use crate::output::{Lines, print};
use crate::store::StoreArgs;

#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Args {
    /// How long, in minutes
    #[arg(long, default_value_t = 60.0)]
    minutes: f64,
    /// Threads, each with keys of its own
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=64))]
    threads: u64,
    /// Keys of a thread; a value has 1600 bytes on average
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    keys: u64,
    /// Memory of the group, in bytes or with K, M, G (powers of 1024); the store may have half of it
    #[arg(long, value_parser = size, default_value = "128M", value_name = "SIZE")]
    memory: u64,
    /// An operation that takes longer, in ms, is a stall
    #[arg(long, default_value_t = 50)]
    stall_ms: u64,
    /// Stalls are a failure, unless a write beside the store took half as long at that time
    #[arg(long)]
    strict: bool,
    /// Folder for the pool, which is kept if something is wrong with it
    #[arg(long, value_name = "DIR", default_value = ".")]
    path: PathBuf,
    /// Where chance begins
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    store: StoreArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn size(text: &str) -> Result<u64, parse_size::Error> {
    Config::new().with_binary().parse_size(text)
}

/// What was seen, and what was allowed.
#[derive(Serialize)]
struct Report {
    seconds: f64,
    group: String,
    operations: u64,
    keys: u64,
    longest_ms: Vec<(&'static str, u64, f64)>,
    stalls: u64,
    stalls_shared: u64,
    probe_ms: f64,
    memory_bytes: u64,
    memory_limit: u64,
    live_bytes: u64,
    file_bytes: u64,
    file_limit: u64,
    file_bytes_at_end: u64,
    live_bytes_at_end: u64,
}

/// Files may take twice what they hold at most, and this: the log with what stands behind it, and space that is kept.
const FILES_BESIDE: u64 = 192 << 20;

/// The store's memory may be exceeded by one part in this many, and by this: threads, and the program.
const MEMORY_EXCESS: u64 = 10;
const MEMORY_BESIDE: u64 = 16 << 20;

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let folder = args.path.join(format!("tembo-soak-{}", std::process::id()));
    std::fs::create_dir(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let group = MemoryGroup::new(args.memory).and_then(|mut group| group.enter().map(|()| group));
    let config = SoakConfig {
        length: Duration::from_secs_f64(args.minutes.clamp(0.0, 1e6) * 60.0),
        threads: args.threads,
        keys: args.keys,
        memory: args.memory / 2,
        stall: Duration::from_millis(args.stall_ms),
        seed: args.seed,
    };
    let name = match &group {
        Ok(group) => group.name().to_owned(),
        Err(error) => format!("none could be made: {error}"),
    };
    let soaked = soak(&folder, &args.store.logged(), &config);
    drop(group);
    let kept = || format!("kept: {}", folder.display());
    let seen = match soaked {
        Ok(seen) => seen,
        Err(error) => return refuse(Exit::Violated, format!("{error}; {}", kept())),
    };
    let report = report(&config, name, &seen);
    print(args.json, &report, &lines(&report))?;
    if let Some(what) = violation(args, &report) {
        return refuse(Exit::Violated, format!("{what}; {}", kept()));
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(Exit::Done)
}

fn report(config: &SoakConfig, group: String, seen: &Soaked) -> Report {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let longest = seen.longest.iter().map(|(name, count, time)| (*name, *count, ms(*time)));
    Report {
        seconds: config.length.as_secs_f64(),
        group,
        operations: seen.operations,
        keys: seen.keys,
        longest_ms: longest.collect(),
        stalls: seen.stalls.1,
        stalls_shared: seen.stalls.0,
        probe_ms: ms(seen.probe),
        memory_bytes: seen.memory,
        memory_limit: config.memory + config.memory / MEMORY_EXCESS + MEMORY_BESIDE,
        live_bytes: seen.live,
        file_bytes: seen.files,
        file_limit: 2 * seen.live + FILES_BESIDE,
        file_bytes_at_end: seen.end.0,
        live_bytes_at_end: seen.end.1,
    }
}

fn lines(report: &Report) -> Lines {
    let mut lines = Lines::default();
    let of = |bytes, limit| format!("{} of {}", HumanBytes(bytes), HumanBytes(limit));
    lines.add("operations", format!("{}, of {} keys", report.operations, report.keys));
    lines.add("memory group", &report.group);
    lines.add("memory", of(report.memory_bytes, report.memory_limit));
    lines.add("keys and values", HumanBytes(report.live_bytes));
    lines.add("files", of(report.file_bytes, report.file_limit));
    let (files, live) = (report.file_bytes_at_end, report.live_bytes_at_end);
    lines.add("files in the end", format!("{} for {}", HumanBytes(files), HumanBytes(live)));
    for (name, count, ms) in &report.longest_ms {
        lines.add("longest", format!("{ms:.1} ms of {count} times {name}"));
    }
    let (own, shared) = (report.stalls, report.stalls_shared);
    lines.add("stalls", format!("{own}; {shared} more while a write beside the store waited too"));
    lines.add("write beside it", format!("{:.1} ms at most", report.probe_ms));
    lines.add("result", "every answer was right, before and after a reopening; the pool is sound");
    lines
}

fn violation(args: &Args, report: &Report) -> Option<&'static str> {
    if report.memory_bytes > report.memory_limit {
        return Some("the store takes more memory than it may");
    }
    if report.file_bytes > report.file_limit {
        return Some("the files take more room than they may");
    }
    (args.strict && report.stalls > 0).then_some("operations have waited for the store itself")
}
