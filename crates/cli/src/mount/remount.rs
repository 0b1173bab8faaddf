//! `tembo mount --remount`: what the system permits and honours of files that are mounted already.

use std::fs::File;
use std::path::Path;

use anyhow::Context;
use nix::mount::{MsFlags, mount};

use super::honoured::Honoured;
use crate::exit::{Exit, refuse};
use crate::mounted;

/// Sets it. The system keeps it: the process that serves the mount need not know. A pool that was opened to be read stays so. What was
/// written before it is read-only is durable then: the system does not ask for that of file systems of processes.
pub(super) fn remount(
    directory: &Path,
    read_only: bool,
    honoured: &Honoured,
) -> anyhow::Result<Exit> {
    check(directory)?;
    if read_only {
        sync(directory)?;
    }
    let flags = [
        (read_only, MsFlags::MS_RDONLY),
        (!honoured.suid, MsFlags::MS_NOSUID),
        (!honoured.dev, MsFlags::MS_NODEV),
        (honoured.noexec, MsFlags::MS_NOEXEC),
    ];
    let flags = flags.into_iter().filter(|(set, _)| *set).map(|(_, flag)| flag);
    let flags = flags.fold(MsFlags::MS_REMOUNT, |all, flag| all | flag);
    let none = None::<&str>;
    mount(none, directory, none, flags, none)
        .map_err(std::io::Error::from)
        .with_context(|| format!("mounting again at {}", directory.display()))?;
    if read_only {
        sync(directory)?;
    }
    Ok(Exit::Done)
}

/// Makes durable what was written.
fn sync(directory: &Path) -> anyhow::Result<()> {
    File::open(directory)
        .and_then(|directory| directory.sync_all())
        .with_context(|| format!("making durable what was written to {}", directory.display()))
}

/// That a pool is mounted at the directory.
fn check(directory: &Path) -> anyhow::Result<()> {
    let point = directory.canonicalize().with_context(|| directory.display().to_string())?;
    if mounted::is_mount(&point, &mounted::mounts()?) {
        return Ok(());
    }
    refuse(Exit::NotMounted, format!("no pool is mounted at {}", directory.display()))
}
