//! `tembo txn`: a program whose changes of files happen as a whole or not at all.
//!
//! ```text
//!  tembo txn DIR -- CMD      opens .tembo/begin: a transaction begins, whose end is the end of the open file
//!   └ tembo txn-inside       enters a mount namespace, in which the view of the transaction lies over the mount
//!      └ CMD                 takes its place, and all that it starts is in the namespace too
//! ```
//!
//! The first process stays outside and commits when the program ends with 0. If it dies, its file is closed by the system,
//! and the transaction is dropped; the program is killed then.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use rustix::io::Errno;
use rustix::process::{Signal, getegid, geteuid, getpid, getppid, set_parent_process_death_signal};
use signal_hook::consts::{SIGINT, SIGQUIT};

use crate::exit::{Exit, refuse};
use crate::mounted;

/// What a shell returns for a program that cannot be executed, and for one that is not there.
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The directory of a mount, or one in it
    directory: PathBuf,
    /// The program, and what it is given
    #[arg(last = true, required = true, num_args = 1.., value_name = "CMD")]
    command: Vec<OsString>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct InsideArgs {
    /// The tree of the transaction
    view: PathBuf,
    /// The directory of the mount
    mount: PathBuf,
    /// The process that holds the transaction
    holder: i32,
    #[arg(last = true, required = true, num_args = 1..)]
    command: Vec<OsString>,
}

/// The directory that a file system of a pool is mounted at, of a directory in it.
fn mount_of(directory: &Path) -> anyhow::Result<PathBuf> {
    let full = directory.canonicalize().with_context(|| directory.display().to_string())?;
    let mounts = mounted::mounts()?;
    match full
        .ancestors()
        .find(|above| mounted::is_mount(above, &mounts) && above.join(".tembo/begin").exists())
    {
        Some(mount) => Ok(mount.to_path_buf()),
        None => refuse(Exit::NotMounted, format!("{} is in no mount", directory.display())),
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mount = mount_of(&args.directory)?;
    let control = mount.join(".tembo");
    let begin = OpenOptions::new().read(true).write(true).open(control.join("begin"));
    let mut begun = begin.context("beginning a transaction")?;
    let mut number = [0; 32];
    let len = begun.read(&mut number)?;
    let number = str::from_utf8(&number[..len])?.trim().parse::<u64>();
    let number = number.context("reading the number of the transaction")?;
    let view = control.join("transactions").join(number.to_string());
    // The program decides what it does when the user interrupts it.
    for signal in [SIGINT, SIGQUIT] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    let status = Command::new(std::env::current_exe()?)
        .arg("txn-inside")
        .args([&view, &mount])
        .arg(getpid().as_raw_nonzero().to_string())
        .arg("--")
        .args(&args.command)
        .status()?;
    if !status.success() {
        // To close the file does it too.
        let _ = begun.write_all(b"abort\n");
        return Ok(Exit::Program(code(status)));
    }
    // What a program has written through a mapping reaches the file system with this.
    rustix::fs::syncfs(File::open(&view)?)?;
    let Err(error) = begun.write_all(b"commit\n") else { return Ok(Exit::Done) };
    match Errno::from_io_error(&error) {
        Some(Errno::CANCELED) => refuse(Exit::Conflict, "the transaction was not committed"),
        Some(Errno::IO) => {
            refuse(Exit::NotDurable, "the commit of the transaction could not be made durable")
        }
        _ => Err(error).context("the transaction was not committed"),
    }
}

/// What a shell would return.
fn code(status: ExitStatus) -> u8 {
    let signal = || 128 + status.signal().unwrap_or_default();
    u8::try_from(status.code().unwrap_or_else(signal)).unwrap_or(u8::MAX)
}

/// Takes the place of this process by the program, with the view over the mount.
pub(crate) fn inside(args: &InsideArgs) -> anyhow::Result<Exit> {
    let folder = std::env::current_dir();
    if let Err(error) = enter() {
        let what = format!("entering a namespace of mounts: {error}");
        return refuse(Exit::NoNamespace, what);
    }
    // What is mounted here is not seen outside.
    let none = None::<&Path>;
    mount(none, "/", none, MsFlags::MS_SLAVE | MsFlags::MS_REC, none)
        .context("separating the mounts")?;
    mount(Some(&args.view), &args.mount, none, MsFlags::MS_BIND, none)
        .context("putting the view over the mount")?;
    if let Ok(folder) = folder {
        // The same path, which may lie in the view.
        std::env::set_current_dir(folder)?;
    }
    // Another user or namespace would have reset it.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid().map(|parent| parent.as_raw_nonzero().get()) != Some(args.holder) {
        return Ok(Exit::Other);
    }
    let [program, rest @ ..] = &args.command[..] else { return Ok(Exit::Usage) };
    let error = Command::new(program).args(rest).exec();
    // Nothing is to be committed, and the report is as of a shell.
    let _ = writeln!(io::stderr().lock(), "tembo: {}: {error}", program.display());
    let is_missing = error.kind() == io::ErrorKind::NotFound;
    Ok(Exit::Program(if is_missing { NOT_FOUND } else { NOT_EXECUTABLE }))
}

/// Enters a namespace of mounts; unprivileged, one of users too, in which this user has its own number.
fn enter() -> io::Result<()> {
    match unshare(CloneFlags::CLONE_NEWNS) {
        Err(nix::errno::Errno::EPERM) => {}
        entered => return Ok(entered?),
    }
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)?;
    let maps = [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("{user} {user} 1")),
        ("gid_map", format!("{group} {group} 1")),
    ];
    for (name, map) in maps {
        std::fs::write(Path::new("/proc/self").join(name), map)?;
    }
    Ok(())
}
