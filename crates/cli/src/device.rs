//! `tembo device`: the block devices of a pool.

mod check;
mod copy;
mod list;
mod serve;

use std::path::PathBuf;

use clap::Subcommand;
use serde::Serialize;
use tembo_array::{Array, DeviceOptions};

use crate::bytes::{self, Bytes};
use crate::devices::{PoolArgs, Then, close, existing, made, shown, to_write};
use crate::exit::Exit;
use crate::output::{Lines, print, print_line};
use crate::snapshots::check_free;
use list::described;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the devices
    List(list::Args),
    /// Make a device; what is not written takes no space
    Create(Create),
    /// Remove a device; its clones and, with --snapshot, what snapshots have of it stay readable
    Remove(Named),
    /// Copy an image, or standard input, into a device that is made: all or nothing
    Import(Import),
    /// Copy a device to a file
    Export(Export),
    /// Name what the whole pool holds now, in constant time
    Snapshot(Snapshot),
    /// Make a device that begins as another one, in constant time and space
    Clone(Clone),
    /// Give a clone blocks of its own, so that it is a clone no longer: takes the time and the space of a copy. A backup has it whole
    Detach(Named),
    /// Verify all devices, and account for every byte of the pool
    Check(PoolArgs),
    /// Say how large a device is, and what it takes
    Stat(Stat),
    /// List the ranges that have changed since a snapshot
    Changes(Changes),
    /// Serve the devices to NBD clients: each write is untorn, a snapshot is the export DEVICE@SNAPSHOT, to be read
    Serve(Box<serve::Args>),
}

#[derive(Debug, clap::Args)]
struct Named {
    #[command(flatten)]
    pool: PoolArgs,
    /// The device
    name: String,
}

/// The shape of a device that is made.
#[derive(Debug, clap::Args)]
struct Shape {
    /// Bytes in a block: a power of two from 512 to 65,536; a write to a part of a block writes all of it
    #[arg(long, value_parser = bytes::parse, default_value = "4096", value_name = "SIZE")]
    block_size: u64,
    /// Bytes of blocks that are stored as one where they are written together, up to 256K: large writes take less time, and the
    /// device up to twice its length. No more than a block: none are
    #[arg(long, value_parser = bytes::parse, default_value = "32K", value_name = "SIZE")]
    run_size: u64,
    /// A write beyond the end is an error; else it makes the device longer
    #[arg(long)]
    fixed: bool,
}

#[derive(Debug, clap::Args)]
struct Create {
    #[command(flatten)]
    named: Named,
    /// Bytes in the device, or with K, M, G or T (powers of 1024)
    #[arg(long, value_parser = bytes::parse, default_value = "0", value_name = "SIZE")]
    len: u64,
    #[command(flatten)]
    shape: Shape,
}

#[derive(Debug, clap::Args)]
struct Import {
    #[command(flatten)]
    named: Named,
    /// The image; `-` is standard input
    file: PathBuf,
    #[command(flatten)]
    shape: Shape,
}

#[derive(Debug, clap::Args)]
struct Export {
    #[command(flatten)]
    named: Named,
    /// Where it comes to be; what is there is an error, unless --since is given
    file: PathBuf,
    #[command(flatten)]
    then: Then,
    /// The file is there and holds the device as it was in this snapshot: write what has changed since. If that is interrupted,
    /// do it again
    #[arg(long, value_name = "NAME")]
    since: Option<String>,
}

/// What names a snapshot of a pool.
#[derive(Debug, clap::Args)]
pub(crate) struct Snapshot {
    #[command(flatten)]
    pool: PoolArgs,
    /// The name; `tembo snapshots` lists and drops them
    snapshot: String,
}

#[derive(Debug, clap::Args)]
struct Clone {
    #[command(flatten)]
    named: Named,
    /// The name of the device that is made
    clone: String,
    #[command(flatten)]
    then: Then,
}

#[derive(Debug, clap::Args)]
struct Stat {
    #[command(flatten)]
    named: Named,
    #[command(flatten)]
    then: Then,
}

#[derive(Debug, clap::Args)]
struct Changes {
    #[command(flatten)]
    named: Named,
    /// The snapshot before
    #[arg(long, value_name = "NAME")]
    since: String,
    #[command(flatten)]
    then: Then,
}

impl Shape {
    fn options(&self, len: u64) -> DeviceOptions {
        let block_size = usize::try_from(self.block_size).unwrap_or(usize::MAX);
        let run_blocks = (self.run_size / self.block_size.max(1)).max(1);
        let run_blocks = usize::try_from(run_blocks).unwrap_or(usize::MAX);
        DeviceOptions { block_size, len, grows: !self.fixed, run_blocks }
    }
}

/// What a command has done to a device.
#[derive(Serialize)]
struct Done<'d> {
    device: &'d str,
    /// Bytes that were copied, zeros that take no space not counted.
    bytes: u64,
    /// The version of the pool that has it.
    version: u64,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    match &args.command {
        Command::List(args) => list::run(args),
        Command::Create(args) => create(args),
        Command::Remove(args) => {
            let array = to_write(&args.pool.pool)?;
            array.remove(&array.device(&args.name)?)?;
            close(array)
        }
        Command::Import(args) => import(args),
        Command::Export(args) => export(args),
        Command::Snapshot(args) => snapshot(args),
        Command::Clone(args) => {
            clone(&args.named.pool, &args.named.name, &args.clone, args.then.snapshot.as_deref())
        }
        Command::Detach(args) => detach(args),
        Command::Check(args) => check::run(args),
        Command::Stat(args) => stat(args),
        Command::Changes(args) => changes(args),
        Command::Serve(args) => serve::run(args),
    }
}

fn create(args: &Create) -> anyhow::Result<Exit> {
    let array = made(&args.named.pool.pool)?;
    array.create(&args.named.name, args.shape.options(args.len))?;
    finish(array, &args.named, 0)
}

/// Reports what was done, and closes the pool.
fn finish(array: Array, Named { pool, name }: &Named, bytes: u64) -> anyhow::Result<Exit> {
    let done = Done { device: name, bytes, version: array.store().visible() };
    close(array)?;
    reported(pool.json, &done)
}

fn reported(json: bool, done: &Done<'_>) -> anyhow::Result<Exit> {
    let mut lines = Lines::default();
    lines.add("device", done.device);
    lines.add("copied", Bytes(done.bytes));
    lines.add("version", done.version);
    print(json, done, &lines)?;
    Ok(Exit::Done)
}

fn import(args: &Import) -> anyhow::Result<Exit> {
    let array = made(&args.named.pool.pool)?;
    let bytes = copy::import(&array, &args.named.name, args.shape.options(0), &args.file)?;
    finish(array, &args.named, bytes)
}

fn export(args: &Export) -> anyhow::Result<Exit> {
    let Named { pool, name } = &args.named;
    let array = existing(&pool.pool, name)?;
    let now = shown(&array, name, args.then.snapshot.as_deref())?;
    let bytes = match &args.since {
        Some(since) => {
            let before = shown(&array, name, Some(since))?;
            copy::update(&now, &now.changed_since(&before)?, &args.file)?
        }
        None => copy::export(&now, &args.file)?,
    };
    reported(pool.json, &Done { device: name, bytes, version: now.version() })
}

/// Names what a pool holds.
pub(crate) fn snapshot(Snapshot { pool, snapshot: name }: &Snapshot) -> anyhow::Result<Exit> {
    #[derive(Serialize)]
    struct Named<'n> {
        snapshot: &'n str,
        version: u64,
    }
    check_free(name)?;
    let array = to_write(&pool.pool)?;
    let version = array.store().save_snapshot(name)?;
    close(array)?;
    let mut lines = Lines::default();
    lines.add("snapshot", name);
    lines.add("version", version);
    print(pool.json, &Named { snapshot: name, version }, &lines)?;
    Ok(Exit::Done)
}

/// Clones a device.
pub(crate) fn clone(
    args: &PoolArgs,
    of: &str,
    name: &str,
    then: Option<&str>,
) -> anyhow::Result<Exit> {
    let array = to_write(&args.pool)?;
    array.clone_device(&shown(&array, of, then)?, name)?;
    let done = Done { device: name, bytes: 0, version: array.store().visible() };
    close(array)?;
    reported(args.json, &done)
}

fn detach(args: &Named) -> anyhow::Result<Exit> {
    let array = to_write(&args.pool.pool)?;
    let bytes = array.detach(&array.device(&args.name)?)?;
    finish(array, args, bytes)
}

fn stat(args: &Stat) -> anyhow::Result<Exit> {
    let Named { pool, name } = &args.named;
    let array = existing(&pool.pool, name)?;
    let one = described(&shown(&array, name, args.then.snapshot.as_deref())?)?;
    let mut lines = Lines::default();
    lines.add("device", &one.name);
    lines.add("length", format_args!("{} ({} bytes)", Bytes(one.len), one.len));
    lines.add("block", Bytes(one.block_size));
    lines.add("stored", Bytes(one.stored));
    lines.add("grows", one.grows);
    lines.add("clone", one.is_clone);
    lines.add("version", one.version);
    print(pool.json, &one, &lines)?;
    Ok(Exit::Done)
}

fn changes(args: &Changes) -> anyhow::Result<Exit> {
    #[derive(Serialize)]
    struct Changed {
        offset: u64,
        len: u64,
    }
    let Named { pool, name } = &args.named;
    let array = existing(&pool.pool, name)?;
    let now = shown(&array, name, args.then.snapshot.as_deref())?;
    for range in now.changed_since(&shown(&array, name, Some(&args.since))?)? {
        let changed = Changed { offset: range.start, len: range.end - range.start };
        print_line(pool.json, &changed, &format!("{} {}", changed.offset, changed.len))?;
    }
    Ok(Exit::Done)
}
