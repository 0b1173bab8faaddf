//! `tembo-lab bench files-cell`: what one process does of a measurement of small files.

use std::path::PathBuf;

use crate::exit::Exit;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Where the files are made
    #[arg(long, value_name = "DIR")]
    directory: PathBuf,
    /// Number of the first
    #[arg(long)]
    first: u64,
    /// How many
    #[arg(long)]
    count: u64,
    /// Begin when the input ends
    #[arg(long)]
    waits: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    tembo_bench::files_cell(&args.directory, args.first, args.count, args.waits)?;
    Ok(Exit::Done)
}
