//! `tembo dump`: every key as a line of JSON.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use anyhow::Context;

use crate::entries;
use crate::exit::Exit;
use crate::progress;
use crate::store::StoreName;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The pool
    pool: PathBuf,
    #[command(flatten)]
    store: StoreName,
    /// The file to write, which must not exist; standard output without
    #[arg(long)]
    out: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let store = args.store.open_to_read(&args.pool)?;
    let mut out: Box<dyn Write> = match &args.out {
        None => Box::new(BufWriter::new(io::stdout().lock())),
        Some(path) => {
            let file =
                File::create_new(path).with_context(|| format!("creating {}", path.display()))?;
            Box::new(BufWriter::new(file))
        }
    };
    let progress = progress::keys(args.out.is_some());
    entries::each(&store, &mut |entry| {
        progress.inc(1);
        Ok(writeln!(out, "{}", entry.to_line()?)?)
    })?;
    out.flush()?;
    progress.finish_and_clear();
    store.close()?;
    Ok(Exit::Done)
}
