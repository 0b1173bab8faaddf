//! `tembo check`: walks everything and accounts for every byte.

mod account;
mod tenants;

use std::path::PathBuf;

use serde::Serialize;
use tembo_kv::{Kind, Store};

use crate::entries::{self, Audit};
use crate::exit::{Exit, refuse};
use crate::output::{Lines, print};
use crate::store::{MAIN, beside, held, pool_to_read, store_of};
use account::Account;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The pool
    pool: PathBuf,
    /// The store whose keys are counted and verified, of a pool that holds several [default: main; without such a store, none]
    #[arg(long, value_name = "NAME")]
    store: Option<String>,
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

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let pool = pool_to_read(&args.pool)?;
    let held = held(&pool)?;
    let is_main =
        |(name, kind): &(String, String)| name == MAIN && *kind == Kind::STORE.to_string();
    let count = match &args.store {
        None if !held.is_empty() && !held.iter().any(is_main) => {
            tenants::check(&args.pool, pool, args.json)?
        }
        name => {
            let store = store_of(&pool, &args.pool, name.as_deref().unwrap_or(MAIN))?;
            drop(pool);
            check(args, store)?
        }
    };
    match count {
        0 => Ok(Exit::Done),
        count => refuse(Exit::CheckFailed, format!("{count} faults in {}", args.pool.display())),
    }
}

/// Checks the pool by its store, and reports both; how many faults there are.
fn check(args: &Args, store: Store) -> anyhow::Result<usize> {
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
    let bytes = Account::from(found.account);
    audit.faults.extend(bytes.faults());
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
    Ok(checked.audit.faults.len())
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
    checked.bytes.add_to(&mut lines, &checked.audit.faults);
    lines
}
