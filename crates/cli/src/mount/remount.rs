//! `tembo mount --remount`: what the system permits and honours of files that are mounted already.

use std::path::Path;

use anyhow::Context;
use nix::mount::{MsFlags, mount};

use super::Honoured;
use crate::exit::Exit;

/// Sets it. The system keeps it: the process that serves the mount need not know. A pool that was opened to be read stays so.
pub(super) fn remount(
    directory: &Path,
    read_only: bool,
    honoured: &Honoured,
) -> anyhow::Result<Exit> {
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
    Ok(Exit::Done)
}
