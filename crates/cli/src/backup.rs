//! `tembo backup` and `tembo restore`.

mod remote;
mod saved;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tembo_array::Array;
use tembo_kv::backup::{self, SaveOptions, Since};
use tembo_kv::{BackupError, Kind, Store};

use crate::exit::{Exit, refuse};
use crate::output::{Lines, print};
use crate::progress;
use crate::snapshots::check_free;
use crate::store::{StoreArgs, StoreName, beside, listed};
use saved::Saved;

#[derive(Debug, clap::Args)]
#[command(allow_missing_positional = true)]
pub(crate) struct Args {
    /// The pool, which no server holds
    #[arg(required_unless_present = "server", conflicts_with = "server")]
    pool: Option<PathBuf>,
    /// The file to write, which must not exist; one that was interrupted is continued. With --server a
    /// name: the file is written by the server, into its --backup-dir
    out: PathBuf,
    #[command(flatten)]
    store: StoreName,
    /// Have a running server write the backup of the store that it serves, and wait until it ends; a signal cancels it
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "store_name")]
    server: Option<String>,
    /// A file with the password of the server (or set TEMBO_REQUIREPASS)
    #[arg(long, value_name = "FILE", requires = "server")]
    requirepass_file: Option<PathBuf>,
    /// Only what has changed since: a backup, the name of a snapshot, or the number of a version that is kept
    #[arg(long, value_name = "BACKUP|VERSION")]
    since: Option<String>,
    /// Keep the version under this name in the pool, so that a later --since can begin with it
    #[arg(long, value_name = "NAME")]
    keep: Option<String>,
    /// Leave out what the pool holds beside the store: each other store has a backup of its own, a heap has none
    #[arg(long, conflicts_with = "server")]
    store_only: bool,
    /// Save the pool though it has clones of devices, which cannot be read where the backup is restored
    #[arg(long, conflicts_with = "server")]
    lose_clones: bool,
    /// Leave the pool as it is: a backup that is interrupted begins anew, and nothing is kept for a later --since
    #[arg(long, conflicts_with_all = ["server", "keep"])]
    read_only: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct RestoreArgs {
    /// The pool to make, which must not exist
    pool: PathBuf,
    /// A backup, and the incremental ones that follow it, in order
    #[arg(required = true)]
    backups: Vec<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Restored {
    pool: String,
    backups: Vec<Saved>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let saved = match (&args.pool, &args.server) {
        (_, Some(server)) => remote::save(
            server,
            &remote::Request {
                out: &args.out,
                requirepass_file: args.requirepass_file.as_deref(),
                since: args.since.as_deref(),
                keep: args.keep.as_deref(),
            },
        )?,
        (Some(pool), None) => save(args, pool)?,
        (None, None) => return refuse(Exit::Usage, "neither a pool nor a server is named"),
    };
    let mut lines = Lines::default();
    saved.add_to(&mut lines);
    print(args.json, &saved, &lines)?;
    Ok(Exit::Done)
}

fn save(args: &Args, pool: &Path) -> anyhow::Result<Saved> {
    let store = match args.read_only {
        true => args.store.open_to_read(pool)?,
        false => args.store.open_as_is(pool)?,
    };
    let others = beside(&store)?;
    if !others.is_empty() && !args.store_only {
        return refuse(Exit::Usage, left_out(pool, store.name(), &others));
    }
    args.keep.iter().try_for_each(|name| check_free(name))?;
    if !args.lose_clones {
        check_clones(pool, &store)?;
    }
    let since = args.since.as_deref().map(|since| meant(&store, since)).transpose()?;
    let progress = progress::written();
    let options = SaveOptions { since, keep: args.keep.clone() };
    let mut advance = |bytes| {
        progress.inc(bytes);
        ControlFlow::Continue(())
    };
    let info = store.save(&args.out, &options, &mut advance)?;
    progress.finish_and_clear();
    store.close()?;
    Ok(Saved::new(&args.out, &info))
}

/// What a backup of the store leaves out, and how each of it is saved.
fn left_out(pool: &Path, store: &str, others: &[(String, String)]) -> String {
    let (stores, rest): (Vec<_>, Vec<_>) = others.iter().partition(|other| is_store(other));
    let mut what =
        format!("the pool also holds {}: --store-only saves {store} alone", listed(others));
    for (name, _) in stores {
        let command = format!("tembo backup {} FILE --store-only --store {name}", pool.display());
        what += &format!("; `{command}` saves {name}");
    }
    if let Some((_, kind)) = rest.first() {
        let pool = pool.display();
        what += &format!(
            "; a {kind} has no backup: copy the closed pool file, which `tembo check {pool}` verifies"
        );
    }
    what
}

/// Refuses a store that has clones of devices: a backup has no past, and so not what they read there.
fn check_clones(pool: &Path, store: &Store) -> anyhow::Result<()> {
    if !Array::is_in(store) {
        return Ok(());
    }
    let array = Array::open(store)?;
    // Of one that cannot be read as it is, nothing more is lost.
    let lost = array.lost()?;
    let is_lost = |name: &String| lost.iter().any(|(other, _)| other == name);
    let mut clones = array.clones()?;
    clones.retain(|name| !is_lost(name));
    let Some(first) = clones.first() else { return Ok(()) };
    let (pool, names) = (pool.display(), clones.join(", "));
    let what = format!(
        "a backup has no past, and so not what clones of devices read there: {names}; \
         `tembo device detach {pool} {first}` gives one blocks of its own, and --lose-clones leaves it unreadable \
         where the backup is restored"
    );
    refuse(Exit::Usage, what)
}

fn is_store((_, kind): &(String, String)) -> bool {
    *kind == Kind::STORE.to_string()
}

/// The version that is meant: of a backup of this store, by the name of a snapshot, or by its number.
fn meant(store: &Store, since: &str) -> anyhow::Result<Since> {
    let path = Path::new(since);
    let is_name = || store.snapshots().iter().any(|(name, _)| name == since);
    match since.parse() {
        Ok(version) if !path.exists() => Ok(Since::Version(version)),
        _ if !path.exists() && is_name() => Ok(Since::Name(since.to_owned())),
        _ => {
            let (identity, version) = backup::peek(path)?;
            if identity != store.identity() {
                return Err(BackupError::OtherPool { path: path.to_owned() }.into());
            }
            Ok(Since::Version(version))
        }
    }
}

pub(crate) fn restore(args: &RestoreArgs) -> anyhow::Result<Exit> {
    let sizes = args.backups.iter().map(|path| std::fs::metadata(path).map(|file| file.len()));
    // Each is read twice. The restore itself reports one that does not exist.
    let size = sizes.sum::<Result<u64, _>>().ok().map(|size| 2 * size);
    if let Some(domain) = args.store.has_no_file() {
        return refuse(Exit::Usage, format!("--domain {domain} makes no pool"));
    }
    let progress = progress::bytes(size);
    let backups: Vec<&Path> = args.backups.iter().map(PathBuf::as_path).collect();
    let options = args.store.options();
    let found = backup::restore(&backups, &args.pool, &options, &mut |bytes| progress.inc(bytes))?;
    progress.finish_and_clear();
    let backups: Vec<Saved> =
        backups.iter().zip(&found).map(|(path, info)| Saved::new(path, info)).collect();
    let restored = Restored { pool: args.pool.display().to_string(), backups };
    let mut lines = Lines::default();
    lines.add("pool", &restored.pool);
    restored.backups.iter().for_each(|saved| saved.add_to(&mut lines));
    print(args.json, &restored, &lines)?;
    Ok(Exit::Done)
}
