//! `tembo-lab bench snapshot-held`.

use std::io::{self, Write};
use std::path::PathBuf;

use indicatif::HumanBytes;
use tembo_bench::{Latencies, SnapshotHeld};

use super::trials::Trials;
use crate::exit::Exit;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Keys in a store; a number that 7919 does not divide
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    keys: u64,
    /// Updates while the snapshot is open
    #[arg(long, default_value_t = 10_000_000)]
    updates: u64,
    /// Bytes of a value, 8 to 1048576
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(8..=1_048_576))]
    value_size: u32,
    /// Rounds, each with stores of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Folder for the pools, which are kept with flush instructions whatever the medium
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    path: PathBuf,
    /// Where keys come from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let config = SnapshotHeld {
        keys: args.keys,
        updates: args.updates,
        value_size: args.value_size as usize,
        rounds: args.rounds,
        folder: args.path.clone(),
        seed: args.seed,
    };
    let trials = Trials::new(config.trials())?;
    let all = tembo_bench::snapshot_held(&config, &mut |_, what| trials.begin(what))?;
    drop(trials);
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&all)?)?;
        return Ok(Exit::Done);
    }
    writeln!(out, "updates: thousand a second, then ns: half, 99 %, 99.9 %, longest")?;
    for held in &all {
        let which = if held.is_held { "snapshot held" } else { "no snapshot" };
        let [before, during, after] = held.used_bytes.map(HumanBytes);
        writeln!(out, "round {}: {}, {which}", held.round, held.index)?;
        writeln!(out, "  updates     {}", line(&held.updates))?;
        writeln!(out, "  afterwards  {}", line(&held.afterwards))?;
        writeln!(out, "  used        {before}, then {during}, in the end {after}")?;
        if held.is_held {
            writeln!(out, "  reads       {} from the snapshot, all right", held.reads)?;
        }
    }
    out.flush()?;
    Ok(Exit::Done)
}

fn line(latencies: &Latencies) -> String {
    let Latencies { kops, p50_ns, p99_ns, p999_ns, max_ns } = latencies;
    format!("{kops:8.1} {p50_ns:>7} {p99_ns:>7} {p999_ns:>7} {max_ns:>9}")
}
