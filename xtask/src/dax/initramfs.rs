//! The guest's first and only file system beside the medium.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::archive::Archive;
use super::kernel::Kernel;
use super::programs::libraries;

/// Console and null, which are wanted before there is a file system of devices.
const DEVICES: [(&str, (u32, u32)); 2] = [("dev/console", (5, 1)), ("dev/null", (1, 3))];

/// What is in it beside the kernel's modules.
pub(super) struct Contents {
    /// The script that is the first process.
    pub(super) init: &'static str,
    /// Statically linked.
    pub(super) busybox: PathBuf,
    /// Programs of the host, and where they stand in the guest.
    pub(super) programs: Vec<(PathBuf, String)>,
    /// Links, and what they name.
    pub(super) links: Vec<(&'static str, String)>,
    /// Modules, without those that they need.
    pub(super) modules: Vec<String>,
}

/// Writes the archive that the kernel unpacks.
pub(super) fn write(to: &Path, kernel: &Kernel, contents: &Contents) -> anyhow::Result<()> {
    let mut archive = Archive::default();
    for folder in ["dev", "proc", "sys", "tmp", "bin", "pmem", "etc"] {
        archive.folder(folder);
    }
    DEVICES.iter().for_each(|(path, number)| archive.device(path, *number));
    archive.file("init", 0o755, contents.init.as_bytes());
    archive.copy(&contents.busybox, "bin/busybox")?;
    archive.link("bin/sh", "busybox");
    let mut needed: BTreeSet<PathBuf> = BTreeSet::new();
    for (from, to) in &contents.programs {
        archive.copy(from, to)?;
        needed.extend(libraries(from)?);
    }
    contents.links.iter().for_each(|(path, to)| archive.link(path, to));
    for library in needed {
        archive.copy(&library, &library.to_string_lossy())?;
    }
    let modules: Vec<&str> = contents.modules.iter().map(String::as_str).collect();
    let modules = kernel.closure(&modules)?;
    let place = format!("lib/modules/{}", kernel.version);
    for module in modules.iter().map(String::as_str).chain(["modules.dep"]) {
        archive.copy(&kernel.modules.join(module), &format!("{place}/{module}"))?;
    }
    Ok(std::fs::write(to, archive.finish())?)
}
