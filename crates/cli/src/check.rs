//! `tembo check`: walks everything and accounts for every byte.

use std::path::PathBuf;

use serde::Serialize;

use crate::bytes::Bytes;
use crate::entries::{self, Audit};
use crate::exit::{Exit, refuse};
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
    #[serde(flatten)]
    audit: Audit,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let store = open_as_is(&args.pool)?;
    let version = store.visible();
    let audit = entries::audit(&store)?;
    store.close()?;
    let checked = Checked { pool: args.pool.display().to_string(), version, audit };
    print(args.json, &checked, &lines(&checked))?;
    match checked.audit.faults.len() {
        0 => Ok(Exit::Done),
        count => refuse(Exit::CheckFailed, format!("{count} faults in {}", checked.pool)),
    }
}

fn lines(checked: &Checked) -> Lines {
    let mut lines = Lines::default();
    lines.add("pool", &checked.pool);
    lines.add("version", checked.version);
    lines.add("keys", checked.audit.keys);
    lines.add("keys that expire", checked.audit.expiring);
    lines.add("bytes of keys", Bytes(checked.audit.key_bytes));
    lines.add("bytes of values", Bytes(checked.audit.value_bytes));
    for fault in &checked.audit.faults {
        lines.add("FAULT", fault);
    }
    if checked.audit.faults.is_empty() {
        lines.add("result", "clean");
    }
    lines
}
