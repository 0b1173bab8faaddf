//! `tembo-lab bench`: experiments, each by its name.

mod disk;
mod experiments;
mod files_cell;
mod rivals_index;
mod snapshot_held;
mod trials;

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Subcommand;
use tembo_bench::{Config, Kind};

use self::trials::Trials;
use crate::contender;
use crate::exit::{Exit, refuse};

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, after_help = experiments::names())]
pub(crate) struct Args {
    #[command(flatten)]
    named: Option<experiments::Named>,
    #[command(subcommand)]
    experiment: Option<Experiment>,
}

#[derive(Debug, Subcommand)]
enum Experiment {
    /// Ordered indexes: 8-byte keys and values, every operation, every contender
    Nvtree(Nvtree),
    /// Records of given sizes through the store, each operation a strict commit
    Records(Sizes),
    /// Stores on a disk with more data than memory, each in a memory group; beside fjall, RocksDB, LMDB and others
    Disk(Box<disk::Args>),
    #[command(hide = true)]
    DiskCell(disk::CellArgs),
    /// Our index beside LB+-Tree, P-ART, FAST&FAIR and Abseil's B-Tree, from checkouts that you name
    RivalsIndex(Box<rivals_index::Args>),
    #[command(hide = true)]
    RivalsIndexCell(rivals_index::CellArgs),
    #[command(hide = true)]
    FilesCell(files_cell::Args),
    /// A snapshot held open while everything is overwritten
    SnapshotHeld(snapshot_held::Args),
}

#[derive(Debug, clap::Args)]
struct Sizes {
    /// Records in a store
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
    /// Bytes of a key, 8 to 1024
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(8..=1024))]
    key_size: u16,
    /// Bytes of a value, at most 1048576
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(..=1_048_576))]
    value_size: u32,
    /// Store the records without checksums
    #[arg(long)]
    without_checksums: bool,
    /// Rounds, each with stores of its own
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Folder for the pools, which are kept with flush instructions whatever the medium
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    path: PathBuf,
    /// Where keys and orders come from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct Nvtree {
    /// Keys in each structure
    #[arg(long, default_value_t = 1_000_000)]
    keys: u64,
    /// Rounds, each with structures of its own
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// The contenders, with commas between; all of them unless given
    #[arg(long, value_delimiter = ',', value_parser = contender::parse, default_values = contender::names())]
    contenders: Vec<Kind>,
    /// Folder for the pools, which are kept with flush instructions whatever the medium
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    path: PathBuf,
    /// Bytes in a node of every tree in a pool: 256, 512, 1024, 2048 or 4096
    #[arg(long, default_value_t = 1024, value_parser = node_size)]
    node_size: u32,
    /// Where keys and orders come from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Few keys and two rounds: to see that everything works, not how fast it is
    #[arg(long, conflicts_with_all = ["keys", "rounds"])]
    quick: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const QUICK_KEYS: u64 = 10_000;
const QUICK_ROUNDS: u32 = 2;

fn node_size(text: &str) -> Result<u32, String> {
    let known = [256, 512, 1024, 2048, 4096];
    let size = text.parse().ok().filter(|size| known.contains(size));
    size.ok_or_else(|| format!("known are {known:?}"))
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    match (&args.experiment, &args.named) {
        (Some(Experiment::Nvtree(args)), _) => nvtree(args),
        (Some(Experiment::Records(args)), _) => records(args),
        (Some(Experiment::Disk(args)), _) => disk::run(args),
        (Some(Experiment::DiskCell(args)), _) => disk::cell(args),
        (Some(Experiment::RivalsIndex(args)), _) => rivals_index::run(args),
        (Some(Experiment::RivalsIndexCell(args)), _) => rivals_index::cell(args),
        (Some(Experiment::FilesCell(args)), _) => files_cell::run(args),
        (Some(Experiment::SnapshotHeld(args)), _) => snapshot_held::run(args),
        (None, Some(args)) => experiments::run(args),
        (None, None) => {
            refuse(Exit::Usage, "tell an experiment; `tembo-lab bench --help` names them")
        }
    }
}

fn nvtree(args: &Nvtree) -> anyhow::Result<Exit> {
    let (keys, rounds) =
        if args.quick { (QUICK_KEYS, QUICK_ROUNDS) } else { (args.keys, args.rounds) };
    if keys == 0 || rounds == 0 {
        return refuse(Exit::Usage, "nothing to do: --keys and --rounds are at least 1");
    }
    let config = Config {
        keys,
        rounds,
        contenders: args.contenders.clone(),
        folder: args.path.clone(),
        seed: args.seed,
        node_size: args.node_size,
    };
    let trials = Trials::new(config.trials())?;
    let outcome = tembo_bench::run(&config, &mut |_, what| trials.begin(what))?;
    drop(trials);
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&outcome)?)?;
    } else {
        write!(out, "{outcome}")?;
    }
    out.flush()?;
    Ok(Exit::Done)
}

fn records(args: &Sizes) -> anyhow::Result<Exit> {
    let config = tembo_bench::Records {
        count: args.count,
        key_size: args.key_size.into(),
        value_size: args.value_size as usize,
        checksums: !args.without_checksums,
        rounds: args.rounds,
        folder: args.path.clone(),
        seed: args.seed,
    };
    let trials = Trials::new(config.trials())?;
    let rates = tembo_bench::records(&config, &mut |_, what| trials.begin(what))?;
    drop(trials);
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&rates)?)?;
        return Ok(Exit::Done);
    }
    writeln!(out, "thousand operations a second: median (best) of thread CPU time, of the wall")?;
    let mut rows: Vec<(&str, &str)> = Vec::new();
    for rate in &rates {
        if !rows.contains(&(rate.index, rate.operation)) {
            rows.push((rate.index, rate.operation));
        }
    }
    for (index, operation) in rows {
        let of = |figure: fn(&tembo_bench::Rate) -> f64| {
            let mine = rates.iter().filter(|r| (r.index, r.operation) == (index, operation));
            let mut all: Vec<f64> = mine.map(figure).collect();
            all.sort_by(f64::total_cmp);
            let best = all.last().copied().unwrap_or_default();
            format!("{:8.0} ({best:.0})", all[all.len() / 2])
        };
        let (cpu, wall) = (of(|rate| rate.cpu_kops), of(|rate| rate.wall_kops));
        writeln!(out, "{index:8} {operation:10} {cpu:20} {wall}")?;
    }
    Ok(Exit::Done)
}
