//! `tembo check`: walks everything and accounts for every byte.

use std::path::PathBuf;

use serde::Serialize;

use crate::bytes::Bytes;
use crate::entries::{self, Audit};
use crate::exit::{Exit, refuse};
use crate::output::{Lines, print};
use crate::store::{beside, open_to_read};

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
    keyspaces: Vec<Tree>,
    /// What the pool holds beside the store: name, kind, and how many objects, if it was checked.
    beside: Vec<(String, String, Option<u64>)>,
    bytes: Account,
}

/// A keyspace's index.
#[derive(Serialize)]
struct Tree {
    name: String,
    entries: u64,
    leaves: u64,
    inner_nodes: u64,
    height: u32,
}

/// Where every byte of the pool is.
#[derive(Serialize)]
struct Account {
    total: u64,
    metadata: u64,
    objects: u64,
    free: u64,
    above_frontier: u64,
    /// Taken, and unreachable.
    leaked: u64,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let store = open_to_read(&args.pool)?;
    let found = store.check()?;
    let mut audit = entries::audit(&store)?;
    let objects = |name: &str| found.tenants.iter().find(|(other, _)| other == name);
    let with_objects = |(name, kind): (String, String)| {
        let objects = objects(&name).map(|(_, check)| check.objects);
        (name, kind, objects)
    };
    let beside: Vec<_> = beside(&store)?.into_iter().map(with_objects).collect();
    let version = store.visible();
    store.close()?;
    let account = found.account;
    let bytes = Account {
        total: account.total,
        metadata: account.metadata_bytes,
        objects: account.object_bytes,
        free: account.free_bytes,
        above_frontier: account.above_frontier_bytes,
        leaked: account.leaked_bytes,
    };
    if bytes.metadata + bytes.objects + bytes.free + bytes.above_frontier != bytes.total {
        audit.faults.push("the bytes do not add up".into());
    }
    if found.leaked > 0 {
        audit.faults.push(format!("{} objects are unreachable", found.leaked));
    }
    let tree = |(name, report): (String, tembo_kv::CheckReport)| Tree {
        name,
        entries: report.entry_count,
        leaves: report.leaf_count,
        inner_nodes: report.inner_count,
        height: report.height,
    };
    let keyspaces = found.keyspaces.into_iter().map(tree).collect();
    let pool = args.pool.display().to_string();
    let checked = Checked { pool, version, audit, keyspaces, beside, bytes };
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
    for tree in checked.keyspaces.iter().filter(|tree| tree.entries > 0) {
        let Tree { name, entries, leaves, inner_nodes, height } = tree;
        lines.add("keyspace", {
            let nodes = format!("{leaves} leaves, {inner_nodes} inner nodes, {height} levels");
            format!("{name}: {entries} entries, {nodes}")
        });
    }
    for (name, kind, objects) in &checked.beside {
        lines.add(
            "beside it",
            match objects {
                Some(objects) => format!("{name}, a {kind}: {objects} objects"),
                None => format!("{name}, a {kind}: not checked, its bytes count as free"),
            },
        );
    }
    let bytes = &checked.bytes;
    lines.add("metadata", Bytes(bytes.metadata));
    lines.add("objects", Bytes(bytes.objects));
    lines.add("free", Bytes(bytes.free));
    lines.add("never used", Bytes(bytes.above_frontier));
    lines.add("total", Bytes(bytes.total));
    for fault in &checked.audit.faults {
        lines.add("FAULT", fault);
    }
    if checked.audit.faults.is_empty() {
        lines.add("result", "clean");
    }
    lines
}
