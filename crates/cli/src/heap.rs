//! `tembo heap`: what the heap of a pool holds.

use std::io::Write;
use std::path::PathBuf;

use clap::Subcommand;
use serde::Serialize;
use tembo_heap::{FROM_CYCLES, HeapFile, ObjectReport, PoolOptions, Referral, TypeReport};

use crate::bytes::Bytes;
use crate::compact;
use crate::exit::{Exit, refuse};
use crate::output::{Lines, print, print_line};
use crate::progress;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the types of a heap with their objects
    Ls(PoolArgs),
    /// Say how large a heap is
    Stat(PoolArgs),
    /// Verify a heap, and account for every byte of its pool
    Check(PoolArgs),
    /// Write every object of a heap as JSON lines
    Dump(PoolArgs),
    /// List what refers to an object
    Refs(RefsArgs),
    /// Move objects together, and give back what is free then
    Compact(PoolArgs),
}

#[derive(Debug, clap::Args)]
struct PoolArgs {
    /// The pool
    pool: PathBuf,
    /// The heap's name; the first heap of the pool unless given
    #[arg(long)]
    name: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct RefsArgs {
    #[command(flatten)]
    pool: PoolArgs,
    /// Where the object lies, in bytes from the start of the pool, as `tembo heap dump` says it
    offset: u64,
}

#[derive(Serialize)]
struct Type {
    name: String,
    version: u32,
    objects: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct Stat {
    pool: String,
    types: u64,
    objects: u64,
    object_bytes: u64,
    pool_bytes: u64,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    match &args.command {
        Command::Ls(args) => ls(args),
        Command::Stat(args) => stat(args),
        Command::Check(args) => check(args),
        Command::Dump(args) => dump(args),
        Command::Refs(args) => refs(args),
        Command::Compact(args) => make_compact(args),
    }
}

/// Opens a heap without changing its pool.
fn open(args: &PoolArgs) -> anyhow::Result<HeapFile> {
    open_to(args, true)
}

fn open_to(PoolArgs { pool, name, .. }: &PoolArgs, read_only: bool) -> anyhow::Result<HeapFile> {
    let mut options = PoolOptions { kinds: tembo_kv::kinds(), ..PoolOptions::default() };
    options.region.read_only = read_only;
    let opened = match name {
        Some(name) => HeapFile::open_named(pool, name, &options),
        None => HeapFile::open(pool, &options),
    };
    opened.map_err(|error| match error {
        // The exit code is that of the pool's error.
        tembo_heap::Error::Pool(error) => error.into(),
        error => error.into(),
    })
}

fn types(heap: &HeapFile) -> anyhow::Result<Vec<Type>> {
    let of = |TypeReport { name, version, objects, bytes }| Type { name, version, objects, bytes };
    Ok(heap.report()?.into_iter().map(of).collect())
}

fn ls(args: &PoolArgs) -> anyhow::Result<Exit> {
    for one in types(&open(args)?)? {
        let bytes = Bytes(one.bytes).to_string();
        let line =
            format!("{:>10} {bytes:>12}  {} (version {})", one.objects, one.name, one.version);
        print_line(args.json, &one, &line)?;
    }
    Ok(Exit::Done)
}

fn stat(args: &PoolArgs) -> anyhow::Result<Exit> {
    let heap = open(args)?;
    let types = types(&heap)?;
    let stat = Stat {
        pool: args.pool.display().to_string(),
        types: types.len() as u64,
        objects: types.iter().map(|one| one.objects).sum(),
        object_bytes: types.iter().map(|one| one.bytes).sum(),
        pool_bytes: heap.pool().region().size(),
    };
    let mut lines = Lines::default();
    lines.add("pool", &stat.pool);
    lines.add("types", stat.types);
    lines.add("objects", stat.objects);
    lines.add("object bytes", Bytes(stat.object_bytes));
    lines.add("pool bytes", Bytes(stat.pool_bytes));
    print(args.json, &stat, &lines)?;
    Ok(Exit::Done)
}

#[derive(Serialize)]
struct Checked {
    pool: String,
    objects: u64,
    waiting: u64,
    cyclic: u64,
    leaked: u64,
}

fn check(args: &PoolArgs) -> anyhow::Result<Exit> {
    let heap = open(args)?;
    let found = heap.check()?;
    let name = heap.name();
    let tenant = found.tenants.into_iter().find(|(other, _)| *other == name).map(|(_, of)| of);
    let tenant = tenant.unwrap_or_default();
    let checked = Checked {
        pool: args.pool.display().to_string(),
        objects: tenant.objects,
        waiting: tenant.pending,
        cyclic: tenant.counts.iter().filter(|(name, _)| name == FROM_CYCLES).map(|of| of.1).sum(),
        leaked: found.account.leaked,
    };
    let mut lines = Lines::default();
    lines.add("pool", &checked.pool);
    lines.add("objects", checked.objects);
    lines.add("wait to be destroyed", checked.waiting);
    lines.add(FROM_CYCLES, checked.cyclic);
    lines.add("leaked", checked.leaked);
    print(args.json, &checked, &lines)?;
    Ok(if checked.leaked == 0 { Exit::Done } else { Exit::CheckFailed })
}

fn dump(args: &PoolArgs) -> anyhow::Result<Exit> {
    let mut out = std::io::stdout().lock();
    open(args)?.objects(&mut |object: ObjectReport| {
        let ObjectReport { offset, type_name, bytes, references, is_doomed, json, .. } = object;
        let name = serde_json::to_string(&type_name)?;
        writeln!(
            out,
            "{{\"offset\":{offset},\"type\":{name},\"bytes\":{bytes},\"references\":{references},\"waits\":{is_doomed},\"value\":{json}}}"
        )?;
        Ok::<(), anyhow::Error>(())
    })?;
    out.flush()?;
    Ok(Exit::Done)
}

#[derive(Serialize)]
struct Referrer {
    /// `None`: the heap itself, whose root the object is.
    offset: Option<u64>,
    #[serde(rename = "type")]
    type_name: Option<String>,
    weak: bool,
}

fn refs(RefsArgs { pool, offset }: &RefsArgs) -> anyhow::Result<Exit> {
    let heap = open(pool)?;
    let (mut is_there, mut found) = (false, Vec::new());
    if heap.root_offset()? == Some(*offset) {
        found.push(Referrer { offset: None, type_name: None, weak: false });
    }
    heap.objects(&mut |object: ObjectReport| {
        is_there |= object.offset == *offset;
        for Referral { is_weak, .. } in object.refers_to.iter().filter(|one| one.to == *offset) {
            let type_name = Some(object.type_name.clone());
            found.push(Referrer { offset: Some(object.offset), type_name, weak: *is_weak });
        }
        Ok::<(), anyhow::Error>(())
    })?;
    if !is_there {
        let pool = pool.pool.display();
        let what = format!("{pool} has no object at {offset}: `tembo heap dump {pool}` lists them");
        return refuse(Exit::Usage, what);
    }
    for one in found {
        let kind = if one.weak { "weak" } else { "counted" };
        let line = match (&one.offset, &one.type_name) {
            (Some(offset), Some(name)) => format!("{offset:>12}  {kind:<7}  {name}"),
            _ => format!("{:>12}  {kind:<7}  the root of the heap", "-"),
        };
        print_line(pool.json, &one, &line)?;
    }
    Ok(Exit::Done)
}

#[derive(Serialize)]
struct Compacted {
    pool: String,
    bytes_before: u64,
    bytes_after: u64,
    moved: u64,
    moved_bytes: u64,
    stayed: u64,
}

fn make_compact(args: &PoolArgs) -> anyhow::Result<Exit> {
    let bytes_before = compact::size(&args.pool)?;
    let heap = open_to(args, false)?;
    let progress = progress::objects();
    let done = heap.compact(&mut |done| progress.set_position(done.moved))?;
    progress.finish_and_clear();
    heap.close()?;
    let compacted = Compacted {
        pool: args.pool.display().to_string(),
        bytes_before,
        bytes_after: compact::size(&args.pool)?,
        moved: done.moved,
        moved_bytes: done.moved_bytes,
        stayed: done.stayed,
    };
    let mut lines = Lines::default();
    lines.add("pool", &compacted.pool);
    lines.add("size before", Bytes(compacted.bytes_before));
    lines.add("size", Bytes(compacted.bytes_after));
    lines.add("objects moved", compacted.moved);
    lines.add("their bytes", Bytes(compacted.moved_bytes));
    lines.add("objects that stayed", compacted.stayed);
    print(args.json, &compacted, &lines)?;
    Ok(Exit::Done)
}
