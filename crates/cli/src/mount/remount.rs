//! `tembo mount --remount`: what the system permits and honours of files that are mounted already.

use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::Context;
use nix::mount::{MsFlags, mount};

use super::honoured::Honoured;
use crate::exit::{Exit, refuse};

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
    let mounts = std::fs::read_to_string("/proc/self/mounts").context("the system's mounts")?;
    // The last one lies above the others.
    let mut of_it = mounts.lines().rev().map(|line| line.split(' '));
    let mounted = of_it.find_map(|mut words| {
        (words.nth(1).map(unescaped)? == point.as_os_str().as_bytes()).then(|| words.next())
    });
    if mounted.flatten() == Some("fuse.tembo") {
        return Ok(());
    }
    refuse(Exit::NotMounted, format!("no pool is mounted at {}", directory.display()))
}

/// A path as it stands in the list of mounts, where blanks are octal numbers.
fn unescaped(text: &str) -> Vec<u8> {
    let mut parts = text.split('\\');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (code, rest) = part.split_at_checked(3).unwrap_or((part, ""));
        bytes.extend(u8::from_str_radix(code, 8));
        bytes.extend(rest.as_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_path_in_the_list_of_mounts_is_read_back() {
        assert_eq!(super::unescaped("/a\\040b\\134"), b"/a b\\");
        assert_eq!(super::unescaped("/a"), b"/a");
    }
}
