//! `tembo load`: lines of JSON, as `dump` writes them, into a pool.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;

use anyhow::Context;
use serde::Serialize;

use crate::entries::Writer;
use crate::exit::{Exit, refuse};
use crate::line::Entry;
use crate::output::{Lines, print};
use crate::progress;
use crate::store::{StoreArgs, StoreName};

#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Args {
    /// The pool, created if there is none
    pool: PathBuf,
    /// The file to read; standard input without
    file: Option<PathBuf>,
    #[command(flatten)]
    name: StoreName,
    #[command(flatten)]
    store: StoreArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Loaded {
    pool: String,
    keys: u64,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    // First, so that no pool is made for a file that is not there.
    let (input, size): (Box<dyn BufRead>, Option<u64>) = match &args.file {
        None => (Box::new(io::stdin().lock()), None),
        Some(path) => {
            let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
            let size = file.metadata()?.len();
            (Box::new(BufReader::new(file)), Some(size))
        }
    };
    let store = args.store.open_or_create(&args.pool, &args.name.store_name)?;
    let progress = progress::bytes(size);
    let mut writer = Writer::new(&store);
    for (index, line) in input.lines().enumerate() {
        let line = line.context("reading lines")?;
        progress.inc(line.len() as u64 + 1);
        if line.trim().is_empty() {
            continue;
        }
        match Entry::from_line(&line) {
            Ok(entry) => writer.put(entry)?,
            Err(what) => {
                writer.commit()?;
                store.close()?;
                return refuse(Exit::BadLine, format!("line {}: {what}", index + 1));
            }
        }
    }
    writer.commit()?;
    let loaded = Loaded { pool: args.pool.display().to_string(), keys: writer.count };
    progress.finish_and_clear();
    store.close()?;
    let mut lines = Lines::default();
    lines.add("pool", &loaded.pool);
    lines.add("keys", loaded.keys);
    print(args.json, &loaded, &lines)?;
    Ok(Exit::Done)
}
