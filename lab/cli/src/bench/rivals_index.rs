//! `tembo-lab bench rivals-index`: our index beside published ones, which the person has checked out.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Context;
use tembo_bench::{Candidate, RivalSources, RivalsConfig};

use super::trials::Trials;
use crate::exit::{Exit, refuse};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A checkout of LB+-Tree
    #[arg(long, value_name = "DIR")]
    lbtree: Option<PathBuf>,
    /// A checkout of FAST&FAIR
    #[arg(long, value_name = "DIR")]
    fastfair: Option<PathBuf>,
    /// A checkout of RECIPE, which has P-ART
    #[arg(long, value_name = "DIR")]
    recipe: Option<PathBuf>,
    /// The contenders, with commas between; all of them unless given
    #[arg(long, value_delimiter = ',', value_parser = candidate, default_values = names())]
    contenders: Vec<Candidate>,
    /// Keys in each structure; given again, another table [default: 1000000 and 10000000]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    keys: Vec<u64>,
    /// Keys of 16 to 32 bytes with values of 100, in a table of their own; 0 for none
    #[arg(long, default_value_t = 1_000_000)]
    string_keys: u64,
    /// Rounds, each with structures of its own
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Threads on a structure, with commas between: 1, or 1,2
    #[arg(long, value_delimiter = ',', default_values_t = [1], value_parser = clap::value_parser!(u32).range(1..=2))]
    threads: Vec<u32>,
    /// No instructions, whose count takes a minute
    #[arg(long)]
    no_instructions: bool,
    /// Folder in memory for pools and files, which are gone when the run ends
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    path: PathBuf,
    /// Folder for the drivers, which are compiled with $CXX, or g++
    #[arg(long, value_name = "DIR", default_value = "target/rivals-index")]
    build: PathBuf,
    /// Where keys and orders come from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What serves the commands of one trial after the other: a process that `rivals-index` starts.
#[derive(Debug, clap::Args)]
pub(super) struct CellArgs {
    words: Vec<String>,
}

/// The word for [`CellArgs`] on the command line.
const CELL: &str = "rivals-index-cell";

/// Keys of the tables unless they are given.
const KEYS: [u64; 2] = [1_000_000, 10_000_000];

fn names() -> [&'static str; Candidate::ALL.len()] {
    Candidate::ALL.map(Candidate::name)
}

fn candidate(name: &str) -> Result<Candidate, String> {
    Candidate::named(name).ok_or_else(|| format!("known are {}", names().join(", ")))
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    if args.path.to_str().is_none_or(|path| path.contains(char::is_whitespace)) {
        return refuse(Exit::Usage, "--path has no space");
    }
    let lab = std::env::current_exe().context("finding this program")?;
    let sources = RivalSources {
        lbtree: args.lbtree.clone(),
        fastfair: args.fastfair.clone(),
        recipe: args.recipe.clone(),
    };
    let config = RivalsConfig {
        sources,
        candidates: args.contenders.clone(),
        keys: if args.keys.is_empty() { KEYS.into() } else { args.keys.clone() },
        string_keys: args.string_keys,
        rounds: args.rounds,
        has_pairs: args.threads.contains(&2),
        has_counts: !args.no_instructions,
        folder: args.path.clone(),
        build: args.build.clone(),
        seed: args.seed,
        cell: (lab, ["bench", CELL].map(str::to_owned).into()),
    };
    let trials = Trials::new(config.trials())?;
    let report = tembo_bench::rivals_index(&config, &mut |label, what| {
        trials.begin(&format!("{label}, {what}"))
    })?;
    drop(trials);
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&report)?)?;
    } else {
        write!(out, "{report}")?;
    }
    out.flush()?;
    Ok(Exit::Done)
}

/// The process that measures.
pub(super) fn cell(args: &CellArgs) -> anyhow::Result<Exit> {
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    tembo_bench::rivals_index_cell(&args.words, &mut input, &mut output)?;
    Ok(Exit::Done)
}
