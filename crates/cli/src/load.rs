//! `tembo load`: lines of JSON, as `dump` writes them, into a pool.

use std::path::PathBuf;

use crate::exit::Exit;
use crate::store::StoreArgs;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The pool, created if there is none
    pool: PathBuf,
    /// The file to read; standard input without
    file: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let _ = args;
    Ok(Exit::Done)
}
