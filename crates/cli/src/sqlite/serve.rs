//! `tembo sqlite serve`: owns a pool, for programs that come and go.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tembo_sqlite::Owner;

use crate::exit::Exit;
use crate::output::line;
use crate::signals;
use crate::store::StoreArgs;

/// How often it looks whether it is to end.
const POLL: Duration = Duration::from_millis(50);

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The pool, which no other process holds
    pool: PathBuf,
    #[command(flatten)]
    store: StoreArgs,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let owner = Owner::new(&args.pool, args.store.open(&args.pool)?)?;
    let stopped = signals::stopped()?;
    line(format_args!("{} is served at {}", args.pool.display(), owner.socket().display()))?;
    while !stopped.load(Ordering::Relaxed) {
        std::thread::sleep(POLL);
    }
    owner.sync()?;
    Ok(Exit::Done)
}
