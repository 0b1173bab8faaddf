//! `tembo snapshots`: the named snapshots of a pool, and the end of some.

use std::path::PathBuf;

use serde::Serialize;
use tembo_kv::{BASE_NAME, is_own_name};

use crate::exit::{Exit, refuse};
use crate::output::{Lines, print};
use crate::store::StoreName;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The pool, which no server holds
    pool: PathBuf,
    #[command(flatten)]
    store: StoreName,
    /// Drop this one, so that what only it keeps is given back; may be given several times. Without it the pool is only read
    #[arg(long, value_name = "NAME")]
    drop: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Snapshots {
    pool: String,
    /// The newest version in the store.
    version: u64,
    /// Name and version of each.
    snapshots: Vec<(String, u64)>,
    dropped: Vec<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let store = match args.drop.is_empty() {
        true => args.store.open_to_read(&args.pool)?,
        false => args.store.open_as_is(&args.pool)?,
    };
    args.drop.iter().try_for_each(|name| check_free(name))?;
    let there = store.snapshots();
    let is_missing = |name: &&String| there.iter().all(|(other, _)| other != *name);
    if let Some(name) = args.drop.iter().find(is_missing) {
        return refuse(Exit::NotKept, format!("there is no snapshot named {name:?}"));
    }
    for name in &args.drop {
        store.drop_snapshot(name)?;
    }
    let mut snapshots = store.snapshots();
    snapshots.retain(|(name, _)| !is_own_name(name));
    let found = Snapshots {
        pool: args.pool.display().to_string(),
        version: store.visible(),
        snapshots,
        dropped: args.drop.clone(),
    };
    store.close()?;
    print(args.json, &found, &lines(&found))?;
    Ok(Exit::Done)
}

/// That a snapshot's name may be given or dropped: it is none of Tembo's own.
pub(crate) fn check_free(name: &str) -> anyhow::Result<()> {
    if is_own_name(name) {
        let (keeps, advice) = match name {
            BASE_NAME => ("what a replica goes back to", "let the server be whole or promoted"),
            _ => ("what clones read", "remove or detach the clones"),
        };
        let what = format!(
            "{name:?} is a name by which Tembo keeps {keeps}: use another name; to have it dropped, {advice}"
        );
        return refuse(Exit::Usage, what);
    }
    Ok(())
}

fn lines(found: &Snapshots) -> Lines {
    let mut lines = Lines::default();
    lines.add("pool", &found.pool);
    lines.add("version", found.version);
    for (name, version) in &found.snapshots {
        lines.add("snapshot", format_args!("{name}, version {version}"));
    }
    for name in &found.dropped {
        lines.add("dropped", name);
    }
    lines
}
