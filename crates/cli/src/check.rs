//! `tembo check`: walks everything and accounts for every byte.

use std::path::PathBuf;

use serde::Serialize;

use crate::exit::Exit;
use crate::output::{Lines, print};
use crate::store::open_as_is;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The pool
    pool: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Checked {
    pool: String,
    version: u64,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let store = open_as_is(&args.pool)?;
    let checked = Checked { pool: args.pool.display().to_string(), version: store.visible() };
    let mut lines = Lines::default();
    lines.add("pool", &checked.pool);
    lines.add("version", checked.version);
    print(args.json, &checked, &lines)?;
    store.close()?;
    Ok(Exit::Done)
}
