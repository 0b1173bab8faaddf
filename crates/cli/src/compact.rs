//! `tembo compact`: makes the file of a pool as small as what the pool holds.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Serialize;

use crate::bytes::Bytes;
use crate::exit::Exit;
use crate::output::{Lines, print};
use crate::store::StoreName;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The pool, which no server holds
    pool: PathBuf,
    #[command(flatten)]
    store: StoreName,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Compacted {
    pool: String,
    bytes_before: u64,
    bytes_after: u64,
    /// Named snapshots, which keep what they see where it is.
    snapshots: Vec<(String, u64)>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let bytes_before = size(&args.pool).unwrap_or(0);
    let store = args.store.open_as_is(&args.pool)?;
    store.compact()?;
    let snapshots = store.snapshots();
    store.close()?;
    let bytes_after = size(&args.pool)?;
    let pool = args.pool.display().to_string();
    let found = Compacted { pool, bytes_before, bytes_after, snapshots };
    print(args.json, &found, &lines(&found))?;
    Ok(Exit::Done)
}

/// Bytes of a file.
pub(crate) fn size(path: &Path) -> anyhow::Result<u64> {
    let file = std::fs::metadata(path).with_context(|| format!("measuring {}", path.display()))?;
    Ok(file.len())
}

fn lines(found: &Compacted) -> Lines {
    let mut lines = Lines::default();
    lines.add("pool", &found.pool);
    lines.add("size before", Bytes(found.bytes_before));
    lines.add("size", Bytes(found.bytes_after));
    for (name, version) in &found.snapshots {
        lines.add("kept by snapshot", format_args!("{name}, version {version}"));
    }
    lines
}
