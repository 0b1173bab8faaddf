//! `tembo fs`: the file system of a pool, without a mount.

mod attributes;
mod clone;
mod export;
mod import;

use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use tembo_fs::{
    ACCESS_LIST, Condition, DifferenceKind, Error, FileKind, Format, Fs, New, Time, Tree,
};
use tembo_kv::{Durability, Snapshot, Store, is_own_name};

use crate::exit::{Exit, refuse};
use crate::files::{COPIED, now, own_root};
use crate::output::line;
use crate::snapshots::check_free;
use crate::store::{open_as_is, open_to_read};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List a directory
    Ls(At),
    /// Print a file
    Cat(At),
    /// Copy a file, or a directory with all below it, into the pool: all or nothing
    Import {
        /// The pool; it is made if there is none
        pool: PathBuf,
        /// What is copied
        source: PathBuf,
        /// Where it comes to be; what is there is an error
        path: PathBuf,
    },
    /// Copy a file, or a directory with all below it, out of the pool
    Export {
        /// The pool
        pool: PathBuf,
        /// What is copied
        path: PathBuf,
        /// Where it comes to be; what is there is an error
        target: PathBuf,
        #[command(flatten)]
        when: When,
    },
    /// Copy a file within the pool
    Cp {
        /// The pool
        pool: PathBuf,
        /// What is copied
        from: PathBuf,
        /// Where it comes to be; what is there is an error
        to: PathBuf,
    },
    /// Copy a file, or a directory with all below it, within the pool, also out of a snapshot: all or nothing
    Clone {
        /// The pool
        pool: PathBuf,
        /// What is copied
        from: PathBuf,
        /// Where it comes to be; what is there is an error
        to: PathBuf,
        #[command(flatten)]
        when: When,
    },
    /// Compare all that the file system says of itself
    Check {
        /// The pool
        pool: PathBuf,
    },
    /// Name what is there now, to be read and gone back to
    Snapshot {
        /// The pool
        pool: PathBuf,
        /// The name
        name: String,
    },
    /// Take back everything that was done after a snapshot, or after a time
    Rollback {
        /// The pool
        pool: PathBuf,
        /// The name of the snapshot
        #[arg(required_unless_present = "at")]
        name: Option<String>,
        /// Instead of a snapshot, a time, as 2026-11-24T12:00:00Z
        #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "name")]
        at: Option<Time>,
    },
    /// List the snapshots
    Log {
        /// The pool
        pool: PathBuf,
        /// List the times that can be gone back to, instead
        #[arg(long)]
        times: bool,
    },
    /// List what is different since a snapshot: + added, - removed, M changed
    Diff {
        /// The pool
        pool: PathBuf,
        /// Its name
        from: String,
        /// Another one; what is there now unless given
        to: Option<String>,
    },
}

/// A path of a pool.
#[derive(Debug, clap::Args)]
struct At {
    /// The pool
    pool: PathBuf,
    /// From its root on
    #[arg(default_value = "/")]
    path: PathBuf,
    #[command(flatten)]
    when: When,
}

/// A version of a pool.
#[derive(Clone, Debug, Default, clap::Args)]
struct When {
    /// As it was in this snapshot
    #[arg(long)]
    snapshot: Option<String>,
    /// As it was at this time, as 2026-11-24T12:00:00Z; of a pool whose mount keeps versions
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "snapshot")]
    at: Option<Time>,
}

fn time(text: &str) -> Result<Time, String> {
    Time::of_text(text).ok_or_else(|| "a time is written as 2026-11-24T12:00:00Z".to_owned())
}

/// The bytes of a path.
fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// The folder of a path, and the name in it.
fn place(path: &Path) -> anyhow::Result<(&[u8], &[u8])> {
    let name = path.file_name().ok_or_else(|| anyhow::anyhow!("{} has no name", path.display()))?;
    let folder = path.parent().map_or(&b""[..], bytes);
    Ok((folder, name.as_bytes()))
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    match &args.command {
        Command::Ls(at) => read(&at.pool, &at.when, |tree| list(tree, &at.path)),
        Command::Cat(at) => read(&at.pool, &at.when, |tree| print(tree, &at.path)),
        Command::Export { pool, path, target, when } => {
            read(pool, when, |tree| export::export(tree, bytes(path), target))
        }
        Command::Import { pool, source, path } => {
            let fs = made(pool)?;
            import::import((&fs, pool), source, place(path)?)?;
            close(fs)
        }
        Command::Cp { pool, from, to } => copy(pool, from, to),
        Command::Clone { pool, from, to, when } => {
            let fs = Fs::open(&open_as_is(pool)?)?;
            let source = fs.tree(version(&fs, when)?);
            clone::clone(&fs, source, bytes(from), place(to)?)?;
            close(fs)
        }
        Command::Check { pool } => check(pool),
        Command::Snapshot { pool, name } => {
            check_free(name)?;
            let store = open_as_is(pool)?;
            Fs::open(&store)?.store().save_snapshot(name)?;
            store.close()?;
            Ok(Exit::Done)
        }
        Command::Rollback { pool, name, at } => {
            let fs = Fs::open(&open_as_is(pool)?)?;
            match (name, at) {
                (Some(name), _) => {
                    known(fs.store(), name)?;
                    fs.rollback_to(name)?;
                }
                (None, &at) => {
                    // It is read no more when its number is known.
                    let version = version(&fs, &When { snapshot: None, at })?.version();
                    fs.rollback(version)?;
                }
            }
            close(fs)
        }
        Command::Log { pool, times: true } => {
            for point in Fs::open(&open_to_read(pool)?)?.points()? {
                line(format_args!("{}\t{}", point.version, point.time))?;
            }
            Ok(Exit::Done)
        }
        Command::Log { pool, times: false } => {
            let store = open_to_read(pool)?;
            let mut all = store.snapshots();
            all.retain(|(name, _)| !is_own_name(name));
            all.sort_by_key(|(_, version)| *version);
            for (name, version) in all {
                line(format_args!("{version}\t{name}"))?;
            }
            Ok(Exit::Done)
        }
        Command::Diff { pool, from, to } => differences(pool, from, to.as_deref()),
    }
}

/// The file system of a pool, which is made if there is none.
fn made(pool: &Path) -> anyhow::Result<Fs> {
    let store = match pool.try_exists() {
        Ok(false) => Store::create(pool, &tembo_kv::Options::new())?,
        _ => open_as_is(pool)?,
    };
    let format = Format { root: own_root(), ..Format::default() };
    Ok(Fs::open_or_format(&store, &format, now())?)
}

fn close(fs: Fs) -> anyhow::Result<Exit> {
    fs.note_time(now())?;
    let store = fs.store().clone();
    drop(fs);
    store.sync()?;
    store.close()?;
    Ok(Exit::Done)
}

/// That a snapshot of that name is there.
fn known(store: &Store, name: &str) -> anyhow::Result<()> {
    match store.snapshots().iter().any(|(other, _)| other == name && !is_own_name(name)) {
        true => Ok(()),
        false => refuse(Exit::NotKept, format!("there is no snapshot named {name:?}")),
    }
}

fn snapshot(store: &Store, name: Option<&str>) -> anyhow::Result<Snapshot> {
    let Some(name) = name else { return Ok(store.snapshot()?) };
    known(store, name)?;
    Ok(store.snapshot_named(name)?)
}

fn version(fs: &Fs, when: &When) -> anyhow::Result<Snapshot> {
    let Some(time) = when.at else { return snapshot(fs.store(), when.snapshot.as_deref()) };
    Ok(fs.snapshot_at(time)?)
}

fn read(
    pool: &Path,
    when: &When,
    work: impl FnOnce(&mut Tree<Snapshot>) -> anyhow::Result<()>,
) -> anyhow::Result<Exit> {
    let store = open_to_read(pool)?;
    let fs = Fs::open(&store)?;
    work(&mut fs.tree(version(&fs, when)?))?;
    Ok(Exit::Done)
}

fn list(tree: &mut Tree<Snapshot>, path: &Path) -> anyhow::Result<()> {
    let inode = tree.resolve(bytes(path))?;
    let mut names = Vec::new();
    if inode.is_directory() {
        tree.list(inode.number, 0, &mut |entry| {
            names.push((entry.name, entry.inode));
            true
        })?;
        names.sort();
    } else {
        names.push((path.file_name().unwrap_or_default().as_bytes().to_vec(), inode.number));
    }
    let mut out = std::io::stdout().lock();
    for (name, number) in names {
        let inode = tree.inode(number)?;
        let (mode, links, size) = (inode.mode(), inode.links, inode.size);
        write!(out, "{mode:06o} {links:>4} {:>6} {:>6} {size:>12} ", inode.user, inode.group)?;
        out.write_all(&name)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

fn print(tree: &mut Tree<Snapshot>, path: &Path) -> anyhow::Result<()> {
    let number = tree.resolve(bytes(path))?.number;
    let (mut offset, mut buffer, mut out) = (0, vec![0; COPIED], std::io::stdout().lock());
    loop {
        let len = tree.read(number, offset, &mut buffer)?;
        if len == 0 {
            return Ok(());
        }
        out.write_all(&buffer[..len])?;
        offset += len as u64;
    }
}

fn copy(pool: &Path, from: &Path, to: &Path) -> anyhow::Result<Exit> {
    let fs = Fs::open(&open_as_is(pool)?)?;
    let (folder, name) = place(to)?;
    fs.write(now(), Durability::Strict, |tree| {
        let source = tree.tree().resolve(bytes(from))?;
        let folder = tree.tree().resolve(folder)?.number;
        let (permissions, user, group) = (source.permissions, source.user, source.group);
        let new = New { kind: FileKind::Regular, permissions, user, group, device: 0, umask: None };
        let copy = tree.create(folder, name, &new)?;
        if source.attributes > 0 {
            // Without its access list the permissions would say something else.
            match tree.tree().attribute(source.number, ACCESS_LIST) {
                Err(Error::NoSuchAttribute { .. }) => {}
                found => tree.set_attribute(copy.number, ACCESS_LIST, &found?, Condition::Any)?,
            }
        }
        tree.copy_range((source.number, 0), (copy.number, 0), u64::MAX)
    })?;
    close(fs)
}

fn check(pool: &Path) -> anyhow::Result<Exit> {
    let store = open_to_read(pool)?;
    let found = Fs::open(&store)?.snapshot()?.check()?;
    for finding in &found.findings {
        line(format_args!("inode {}: {}", finding.inode, finding.what))?;
    }
    line(format_args!(
        "{} inodes, {} entries, {} pieces, {} orphans: {} findings",
        found.inodes,
        found.entries,
        found.pieces,
        found.orphans,
        found.findings.len()
    ))?;
    Ok(if found.findings.is_empty() { Exit::Done } else { Exit::Damaged })
}

fn differences(pool: &Path, from: &str, to: Option<&str>) -> anyhow::Result<Exit> {
    let store = open_to_read(pool)?;
    let (from, to) = (snapshot(&store, Some(from))?, snapshot(&store, to)?);
    let mut out = std::io::stdout().lock();
    for difference in Fs::open(&store)?.differences(&from, &to)? {
        let kind = match difference.kind {
            DifferenceKind::Added => b"+ ",
            DifferenceKind::Removed => b"- ",
            DifferenceKind::Changed => b"M ",
        };
        out.write_all(&[kind, &difference.path[..], b"\n"].concat())?;
    }
    Ok(Exit::Done)
}
