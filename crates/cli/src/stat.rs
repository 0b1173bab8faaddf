//! `tembo stat`: what a pool holds and how it is kept.

use std::path::PathBuf;

use serde::Serialize;
use tembo_kv::{Fragmentation, Progress};

use crate::bytes::Bytes;
use crate::entries;
use crate::exit::Exit;
use crate::output::{Lines, print};
use crate::store::{StoreName, beside};

/// Steps of recovery between two looks at whether it has ended.
const RECOVERY_STEPS: usize = 256;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The pool
    pool: PathBuf,
    #[command(flatten)]
    store: StoreName,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Stat {
    pool: String,
    domain: String,
    /// Persistent memory was only pretended.
    emulated: bool,
    /// The domain, with what must be known of its medium.
    #[serde(skip)]
    domain_on_medium: String,
    index: &'static str,
    version: u64,
    keys: u64,
    expiring: u64,
    key_bytes: u64,
    value_bytes: u64,
    keyspaces: Vec<String>,
    snapshots: Vec<(String, u64)>,
    /// What the pool holds beside the store: name and kind.
    beside: Vec<(String, String)>,
    pool_bytes: u64,
    used_bytes: u64,
    /// How densely chunks are used.
    space: Space,
    /// Every version from here on can be read.
    oldest: u64,
    /// What holds versions that are not visible any more.
    held_by: Vec<String>,
    recovery_us: u64,
}

/// How densely chunks are used; see [`Fragmentation`].
#[derive(Default, Serialize)]
struct Space {
    used_chunk_bytes: u64,
    free_chunk_bytes: u64,
    longest_free_bytes: u64,
    /// Size of the objects, how many, and the bytes of their chunks.
    classes: Vec<(u64, u64, u64)>,
}

impl From<Fragmentation> for Space {
    fn from(found: Fragmentation) -> Space {
        let Fragmentation { used_chunk_bytes, free_chunk_bytes, longest_free_bytes, .. } = found;
        let classes = found.classes.into_iter();
        let classes = classes.map(|class| (class.object_size, class.objects, class.chunk_bytes));
        Space { used_chunk_bytes, free_chunk_bytes, longest_free_bytes, classes: classes.collect() }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let store = args.store.open_to_read(&args.pool)?;
    let audit = entries::audit(&store)?;
    // What is used is known when recovery has marked what is reachable.
    while store.report().recovering {
        if store.maintain(RECOVERY_STEPS)? == Progress::Idle {
            // The store's own thread is at it.
            std::thread::yield_now();
        }
    }
    let report = store.report();
    let stat = Stat {
        pool: args.pool.display().to_string(),
        emulated: report.emulated,
        domain_on_medium: report.domain_on_medium(),
        domain: report.domain,
        index: report.index.name(),
        version: report.visible,
        keys: audit.keys,
        expiring: audit.expiring,
        key_bytes: audit.key_bytes,
        value_bytes: audit.value_bytes,
        keyspaces: store.keyspaces().into_iter().map(|(name, _)| name).collect(),
        snapshots: store.snapshots(),
        beside: beside(&store)?,
        pool_bytes: report.pool_bytes,
        used_bytes: report.used_bytes,
        space: store.fragmentation().map(Space::from).unwrap_or_default(),
        oldest: store.oldest(),
        held_by: report.horizon.holders.iter().map(ToString::to_string).collect(),
        recovery_us: report.recovery_us,
    };
    store.close()?;
    print(args.json, &stat, &lines(&stat))?;
    Ok(Exit::Done)
}

fn lines(stat: &Stat) -> Lines {
    let mut lines = Lines::default();
    lines.add("pool", &stat.pool);
    lines.add("domain", &stat.domain_on_medium);
    lines.add("index", stat.index);
    lines.add("version", stat.version);
    lines.add("oldest version", stat.oldest);
    lines.add("keys", stat.keys);
    lines.add("keys that expire", stat.expiring);
    lines.add("bytes of keys", Bytes(stat.key_bytes));
    lines.add("bytes of values", Bytes(stat.value_bytes));
    for (name, version) in &stat.snapshots {
        lines.add("snapshot", format_args!("{name}, version {version}"));
    }
    for (name, kind) in &stat.beside {
        lines.add("beside it", format_args!("{name}, a {kind}"));
    }
    lines.add("size", Bytes(stat.pool_bytes));
    lines.add("used", Bytes(stat.used_bytes));
    let space = &stat.space;
    let share = |part: u64, whole: u64| part as f64 * 100.0 / whole.max(1) as f64;
    let dense = share(stat.used_bytes, space.used_chunk_bytes);
    let chunks = Bytes(space.used_chunk_bytes);
    lines.add("chunks in use", format_args!("{chunks}, {dense:.0} % of it used"));
    for &(size, objects, bytes) in &space.classes {
        let (dense, chunks) = (share(size * objects, bytes), Bytes(bytes));
        let what = format_args!("{objects} of {size} B in {chunks}, {dense:.0} % of it used");
        lines.add("objects", what);
    }
    lines.add("free chunks between", Bytes(space.free_chunk_bytes));
    lines.add("longest free run", Bytes(space.longest_free_bytes));
    lines.add("opened in", format_args!("{:.1} ms", stat.recovery_us as f64 / 1e3));
    lines
}
