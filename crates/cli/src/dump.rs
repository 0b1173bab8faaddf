//! `tembo dump`: every key as a line of JSON.

use std::path::PathBuf;

use crate::exit::Exit;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The pool
    pool: PathBuf,
    /// The file to write; standard output without
    #[arg(long)]
    out: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let _ = args;
    Ok(Exit::Done)
}
