//! `tembo mount` and `tembo umount`: the file system of a pool at a directory.

mod background;
mod honoured;
mod remount;

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::ValueEnum;
use honoured::Honoured;
use tembo_fs::{Format, Fs};
use tembo_fs_fuse::{Durable, Mount, MountOptions, Unmounter};
use tembo_kv::{Retention, Store};

use crate::exit::{self, Exit, refuse};
use crate::files::{now, own_root};
use crate::output::line;
use crate::signals;
use crate::store::{MAIN, StoreArgs};

/// How often a mount looks whether it is to end.
const POLL: Duration = Duration::from_millis(50);

/// How long the calls under way may take to end, and programs to leave a mount that can only disappear from its directory.
const PATIENCE: Duration = Duration::from_secs(4);

/// How long a mount waits for a pool that another process has: the one of a mount that has just ended still closes it.
const CLOSING: Duration = Duration::from_secs(5);

/// When what a program writes is durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum When {
    /// When it closes the file, or says so by fsync
    #[default]
    Close,
    /// When it says so by fsync
    Fsync,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The pool; it is made, with a file system, if there is none
    pool: PathBuf,
    /// The directory at which it appears, until `tembo umount`
    directory: PathBuf,
    /// When what a program writes is durable, as far as --sync says
    #[arg(long, value_enum, default_value_t)]
    durable: When,
    /// Keep so many versions, each of which is one call, to be read below .tembo/versions and .tembo/at; from then on, until another number is given
    #[arg(long, value_name = "COUNT", conflicts_with = "read_only")]
    keep_versions: Option<u64>,
    /// Change nothing
    #[arg(long)]
    read_only: bool,
    /// Other users than this one see it
    #[arg(long)]
    allow_other: bool,
    #[command(flatten)]
    honoured: Honoured,
    /// Return when it is mounted, and serve it from a process in the background
    #[arg(long)]
    background: bool,
    /// Of what is mounted there, set --read-only, --suid, --dev and --noexec anew, and nothing else
    #[arg(long)]
    remount: bool,
    /// Threads that serve programs
    #[arg(long, default_value_t = 4, value_name = "COUNT")]
    threads: usize,
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct UmountArgs {
    /// The directory
    directory: PathBuf,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    match (args.remount, args.background) {
        (true, _) => remount::remount(&args.directory, args.read_only, &args.honoured),
        (false, true) => background::start(),
        (false, false) => serve(args),
    }
}

fn serve(args: &Args) -> anyhow::Result<Exit> {
    let store = open(args)?;
    let fs = if args.read_only {
        Fs::open(&store)?
    } else {
        Fs::open_or_format(&store, &Format { root: own_root(), ..Format::default() }, now())?
    };
    if let Some(count) = args.keep_versions {
        let kept = if count == 0 { Retention::Nothing } else { Retention::Versions(count) };
        store.retain(kept)?;
    }
    fs.note_time(now())?;
    fs.set_limit(args.store.size_max);
    let options = MountOptions {
        durable: match args.durable {
            When::Close => Durable::Close,
            When::Fsync => Durable::Fsync,
        },
        read_only: args.read_only,
        allow_other: args.allow_other,
        suid: args.honoured.suid,
        dev: args.honoured.dev,
        noexec: args.honoured.noexec,
        source: args.pool.display().to_string(),
        threads: args.threads,
    };
    let stopped = signals::stopped()?;
    unmount_dead(&args.directory);
    let mut mount = Mount::new(fs.clone(), &args.directory, &options)
        .with_context(|| format!("mounting at {}", args.directory.display()))?;
    let unmounter = mount.unmounter();
    line(format_args!("{} is mounted at {}", args.pool.display(), args.directory.display()))?;
    let (ended, ends) = mpsc::channel();
    std::thread::Builder::new().name("serve".into()).spawn(move || {
        // It comes too late only for a process that has waited long enough.
        let _ = ended.send(mount.serve());
    })?;
    match served(&ends, &stopped) {
        Some(served) => served.context("serving the kernel")?,
        None => {
            // What could not be synced, the close of the store reports.
            let _ = fs.sync();
            if !unmounted(&ends, unmounter) {
                // The system notifies its programs when this process ends. To close the store would wait for their calls.
                fs.sync().context("making durable what was written")?;
                return Ok(Exit::Done);
            }
        }
    }
    drop(fs);
    store.close()?;
    Ok(Exit::Done)
}

/// Opens the store, when no other process has it.
fn open(args: &Args) -> anyhow::Result<Store> {
    let end = Instant::now() + CLOSING;
    loop {
        let opened = if args.read_only {
            args.store.open_to_read(&args.pool, MAIN)
        } else {
            args.store.open_or_create_ordered(&args.pool, MAIN, "a file system")
        };
        match opened {
            Err(error) if exit::of(&error) == Exit::Held && Instant::now() < end => {
                std::thread::sleep(POLL);
            }
            opened => return opened,
        }
    }
}

/// Waits until a mount ends; `None`: it is to be ended.
fn served(ends: &Receiver<io::Result<()>>, stopped: &AtomicBool) -> Option<io::Result<()>> {
    while !stopped.load(Ordering::Relaxed) {
        match ends.recv_timeout(POLL) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(served) => return Some(served),
            // It has panicked.
            Err(RecvTimeoutError::Disconnected) => {
                return Some(Err(io::Error::other("the thread that serves it has ended")));
            }
        }
    }
    None
}

/// Unmounts, also what is in use; false: some programs still use it.
fn unmounted(ends: &Receiver<io::Result<()>>, mut unmounter: Unmounter) -> bool {
    // Of another error: it is not at its directory any more.
    if unmounter.unmount().is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy) {
        // Where that is not permitted, the end of this process does it.
        let _ = unmounter.force();
    }
    ends.recv_timeout(PATIENCE).is_ok()
}

/// Unmounts what the process has left that served a mount at the directory and was killed.
fn unmount_dead(directory: &Path) {
    let found = std::fs::metadata(directory);
    if found.is_err_and(|error| error.kind() == io::ErrorKind::NotConnected) {
        // Programs may have files of it open for ever. If it fails, so does the mount.
        unmount_by_system(directory, [&["-u", "-z"], &["--lazy"]]);
    }
}

/// Unmounts by the programs of the system, which may do it for other users too.
fn unmount_by_system(directory: &Path, options: [&[&str]; 2]) -> bool {
    ["fusermount3", "umount"].into_iter().zip(options).any(|(program, options)| {
        let done = Command::new(program).args(options).arg(directory).status();
        done.is_ok_and(|status| status.success())
    })
}

pub(crate) fn umount(args: &UmountArgs) -> anyhow::Result<Exit> {
    if unmount_by_system(&args.directory, [&["-u"], &[]]) {
        return Ok(Exit::Done);
    }
    refuse(Exit::Other, format!("{} was not unmounted", args.directory.display()))
}
