//! `tembo stat`: what a pool holds and how it is kept.

use std::path::PathBuf;

use serde::Serialize;

use crate::bytes::Bytes;
use crate::entries;
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
struct Stat {
    pool: String,
    domain: String,
    version: u64,
    keys: u64,
    pool_bytes: u64,
    used_bytes: u64,
    recovery_us: u64,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let store = open_as_is(&args.pool)?;
    let report = store.report();
    let stat = Stat {
        pool: args.pool.display().to_string(),
        domain: report.domain,
        version: report.visible,
        keys: entries::count(&store)?,
        pool_bytes: report.pool_bytes,
        used_bytes: report.used_bytes,
        recovery_us: report.recovery_us,
    };
    let mut lines = Lines::default();
    lines.add("pool", &stat.pool);
    lines.add("domain", &stat.domain);
    lines.add("version", stat.version);
    lines.add("keys", stat.keys);
    lines.add("size", Bytes(stat.pool_bytes));
    lines.add("used", Bytes(stat.used_bytes));
    lines.add("opened in", format_args!("{:.1} ms", stat.recovery_us as f64 / 1e3));
    print(args.json, &stat, &lines)?;
    store.close()?;
    Ok(Exit::Done)
}
