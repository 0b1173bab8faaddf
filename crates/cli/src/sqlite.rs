//! `tembo sqlite`: the SQLite databases of a pool, which are devices.

mod serve;

use std::path::PathBuf;

use clap::Subcommand;
use serde::Serialize;
use tembo_array::DeviceSnapshot;
use tembo_sqlite::DatabaseHeader;

use crate::bytes::Bytes;
use crate::device;
use crate::devices::{PoolArgs, Then, close, existing, made, shown, to_read};
use crate::exit::Exit;
use crate::output::{Lines, print, print_line};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the databases
    List(PoolArgs),
    /// Copy a database file into the pool, with what its hot journal or WAL has: all or nothing. The pool is made if there is none
    Import(Import),
    /// Copy a database to an ordinary file
    Export(Export),
    /// Name what the whole pool holds now, in constant time: `file:POOL?vfs=tembo&snapshot=NAME` opens it
    Snapshot(device::Snapshot),
    /// Make a database that begins as another one, in constant time and space: `file:POOL/CLONE?vfs=tembo` opens it
    Clone(Clone),
    /// Verify the pages of all databases, and account for every byte of the pool; `PRAGMA integrity_check` is for tables
    Check(PoolArgs),
    /// Say how large a database is, and what it takes
    Stat(Stat),
    /// Own the pool for programs that come and go: without this, the first of them owns it
    Serve(Box<serve::Args>),
}

/// A database of a pool.
#[derive(Debug, clap::Args)]
struct Named {
    #[command(flatten)]
    pool: PoolArgs,
    /// The database; one that has the pool for itself is `main`
    #[arg(long, default_value = "main")]
    name: String,
}

#[derive(Debug, clap::Args)]
struct Import {
    #[command(flatten)]
    named: Named,
    /// The database file; it stays as it is
    file: PathBuf,
}

#[derive(Debug, clap::Args)]
struct Export {
    #[command(flatten)]
    named: Named,
    /// Where it comes to be; what is there is an error
    file: PathBuf,
    #[command(flatten)]
    then: Then,
}

#[derive(Debug, clap::Args)]
struct Clone {
    #[command(flatten)]
    named: Named,
    /// The name of the database that is made
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

/// A database, described.
#[derive(Serialize)]
struct Described {
    name: String,
    bytes: u64,
    /// Bytes in blocks that are stored, those of what it was cloned from included.
    stored: u64,
    pages: u64,
    page_size: u32,
    free_pages: u32,
    schema_version: u32,
    user_version: u32,
    application_id: u32,
    /// Of the SQLite that has written it last.
    sqlite_version: String,
    is_clone: bool,
    version: u64,
}

/// What was copied.
#[derive(Serialize)]
struct Copied {
    database: String,
    bytes: u64,
    pages: u64,
    /// Pages that came from a hot journal or a WAL.
    recovered: u64,
    version: u64,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    match &args.command {
        Command::List(args) => list(args),
        Command::Import(args) => import(args),
        Command::Export(args) => export(args),
        Command::Snapshot(args) => device::snapshot(args),
        Command::Clone(Clone { named, clone, then }) => {
            device::clone(&named.pool, &named.name, clone, then.snapshot.as_deref())
        }
        Command::Check(args) => check(args),
        Command::Stat(args) => stat(args),
        Command::Serve(args) => serve::run(args),
    }
}

/// `None`: the device holds no database.
fn described(shown: &DeviceSnapshot) -> anyhow::Result<Option<Described>> {
    let Some(header) = tembo_sqlite::header(shown)? else { return Ok(None) };
    let version = header.sqlite_version;
    let (major, minor, patch) = (version / 1_000_000, version / 1000 % 1000, version % 1000);
    Ok(Some(Described {
        name: shown.name().to_owned(),
        bytes: shown.len(),
        stored: shown.stored()?.iter().map(|range| range.end - range.start).sum(),
        pages: shown.len() / u64::from(header.page_size),
        page_size: header.page_size,
        free_pages: header.free_page_count,
        schema_version: header.schema_version,
        user_version: header.user_version,
        application_id: header.application_id,
        sqlite_version: format!("{major}.{minor}.{patch}"),
        is_clone: shown.is_clone(),
        version: shown.version(),
    }))
}

fn list(args: &PoolArgs) -> anyhow::Result<Exit> {
    /// A clone that cannot be read: whether it is a database is not known.
    #[derive(Serialize)]
    struct Lost<'n> {
        name: &'n str,
        /// The version of which it is, and which the pool does not have.
        lost: u64,
    }
    let Some(array) = to_read(&args.pool)? else { return Ok(Exit::Done) };
    let lost = array.lost()?;
    for name in array.devices()? {
        if let Some((name, lost)) = lost.iter().find(|(other, _)| *other == name) {
            let text =
                format!("{:>10} {name}: a clone of version {lost}, which is not here", "lost");
            print_line(args.json, &Lost { name, lost: *lost }, &text)?;
            continue;
        }
        if let Some(one) = described(&shown(&array, &name, None)?)? {
            let (bytes, stored) = (Bytes(one.bytes).to_string(), Bytes(one.stored).to_string());
            let line = format!("{bytes:>10} {stored:>10} stored  {} pages  {name}", one.pages);
            print_line(args.json, &one, &line)?;
        }
    }
    Ok(Exit::Done)
}

fn import(args: &Import) -> anyhow::Result<Exit> {
    let Named { pool, name } = &args.named;
    let array = made(&pool.pool)?;
    let done = tembo_sqlite::import(&array, name, &args.file)?;
    let copied = Copied {
        database: name.clone(),
        bytes: done.pages * u64::from(done.page_size),
        pages: done.pages,
        recovered: done.recovered,
        version: array.store().visible(),
    };
    close(array)?;
    report(pool.json, &copied)
}

fn report(json: bool, copied: &Copied) -> anyhow::Result<Exit> {
    let mut lines = Lines::default();
    lines.add("database", &copied.database);
    lines.add("copied", format_args!("{} in {} pages", Bytes(copied.bytes), copied.pages));
    if copied.recovered > 0 {
        lines.add("recovered", format_args!("{} pages of its journal or WAL", copied.recovered));
    }
    lines.add("version", copied.version);
    print(json, copied, &lines)?;
    Ok(Exit::Done)
}

fn export(args: &Export) -> anyhow::Result<Exit> {
    let Named { pool, name } = &args.named;
    let array = existing(&pool.pool, name)?;
    let shown = shown(&array, name, args.then.snapshot.as_deref())?;
    let bytes = tembo_sqlite::export(&shown, &args.file)?;
    let page_size = tembo_sqlite::header(&shown)?.map_or(1, |header| header.page_size);
    let copied = Copied {
        database: name.clone(),
        bytes,
        pages: bytes / u64::from(page_size),
        recovered: 0,
        version: shown.version(),
    };
    report(pool.json, &copied)
}

/// What does not fit in a database: what SQLite has noted of its pages, and what there is.
fn fault(shown: &DeviceSnapshot, header: &DatabaseHeader) -> Option<String> {
    let (len, page_size) = (shown.len(), u64::from(header.page_size));
    let needed = u64::from(header.page_count) * page_size;
    if len < needed || len % page_size != 0 {
        let pages = header.page_count;
        return Some(format!("{len} bytes, where {pages} pages of {page_size} should be"));
    }
    let is_free = header.free_page_count < header.page_count.max(1);
    (!is_free && header.page_count > 0)
        .then(|| format!("{} of {} pages free", header.free_page_count, header.page_count))
}

fn check(args: &PoolArgs) -> anyhow::Result<Exit> {
    #[derive(Default, Serialize)]
    struct Checked {
        pool: String,
        databases: u64,
        blocks: u64,
        /// Blocks that belong to no database.
        stray: u64,
        /// Bytes that are taken, and unreachable.
        leaked: u64,
        /// Name of a database, and what does not fit in it.
        faults: Vec<(String, String)>,
    }
    let mut found = Checked { pool: args.pool.display().to_string(), ..Checked::default() };
    if let Some(array) = to_read(&args.pool)? {
        let lost = array.lost()?;
        for name in array.devices()? {
            if let Some((name, version)) = lost.iter().find(|(other, _)| *other == name) {
                let what = format!("a clone of version {version}, which is not here: remove it");
                found.faults.push((name.clone(), what));
                continue;
            }
            let shown = shown(&array, &name, None)?;
            if let Some(header) = tembo_sqlite::header(&shown)? {
                found.databases += 1;
                found.faults.extend(fault(&shown, &header).map(|what| (name, what)));
            }
        }
        let check = array.check()?;
        (found.blocks, found.stray) = (check.blocks, check.stray);
        found.leaked = array.store().check()?.account.leaked;
    }
    let mut lines = Lines::default();
    lines.add("pool", &found.pool);
    lines.add("databases", found.databases);
    lines.add("blocks", found.blocks);
    lines.add("stray blocks", found.stray);
    lines.add("leaked", Bytes(found.leaked));
    for (name, what) in &found.faults {
        lines.add("fault", format_args!("{name}: {what}"));
    }
    print(args.json, &found, &lines)?;
    let is_sound = found.stray + found.leaked == 0 && found.faults.is_empty();
    Ok(if is_sound { Exit::Done } else { Exit::CheckFailed })
}

fn stat(args: &Stat) -> anyhow::Result<Exit> {
    let Named { pool, name } = &args.named;
    let array = existing(&pool.pool, name)?;
    let Some(one) = described(&shown(&array, name, args.then.snapshot.as_deref())?)? else {
        return Err(tembo_sqlite::FileError::NotADatabase { path: name.into() }.into());
    };
    let mut lines = Lines::default();
    lines.add("database", &one.name);
    lines.add("pages", format_args!("{} of {}", one.pages, Bytes(one.page_size.into())));
    lines.add("free pages", one.free_pages);
    lines.add("bytes", Bytes(one.bytes));
    lines.add("stored", Bytes(one.stored));
    lines.add("schema version", one.schema_version);
    lines.add("user version", one.user_version);
    lines.add("application id", one.application_id);
    lines.add("written by SQLite", &one.sqlite_version);
    lines.add("clone", one.is_clone);
    lines.add("version", one.version);
    print(pool.json, &one, &lines)?;
    Ok(Exit::Done)
}
