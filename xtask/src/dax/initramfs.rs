//! The guest's first and only file system beside the medium.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::archive::Archive;
use super::kernel::Kernel;
use super::programs::{Programs, libraries};

const INIT: &str = include_str!("init.sh");
const MODULES: [&str; 3] = ["nfit", "nd_pmem", "dax_pmem"];
/// Console and null, which are wanted before there is a file system of devices.
const DEVICES: [(&str, (u32, u32)); 2] = [("dev/console", (5, 1)), ("dev/null", (1, 3))];

/// Writes the archive that the kernel unpacks.
pub(super) fn write(
    to: &Path,
    kernel: &Kernel,
    programs: &Programs,
    filesystem: &str,
) -> anyhow::Result<()> {
    let mut archive = Archive::default();
    for folder in ["dev", "proc", "sys", "tmp", "bin", "pmem", "etc"] {
        archive.folder(folder);
    }
    DEVICES.iter().for_each(|(path, number)| archive.device(path, *number));
    archive.file("init", 0o755, INIT.as_bytes());
    archive.copy(&programs.busybox, "bin/busybox")?;
    archive.link("bin/sh", "busybox");
    let mut needed: BTreeSet<PathBuf> = BTreeSet::new();
    let ours = [
        (&programs.ndctl, "bin/ndctl"),
        (&programs.mkfs, "bin/mkfs"),
        (&programs.load, "bin/load"),
    ];
    let tests = programs.tests.iter().map(|(name, file)| (file, format!("tests/{name}")));
    let tembo = (&programs.tembo, programs.tembo.to_string_lossy().into_owned());
    for (from, to) in
        ours.map(|(from, to)| (from, to.to_owned())).into_iter().chain(tests).chain([tembo])
    {
        archive.copy(from, &to)?;
        needed.extend(libraries(from)?);
    }
    archive.link("bin/tembo", &programs.tembo.to_string_lossy());
    for library in needed {
        archive.copy(&library, &library.to_string_lossy())?;
    }
    let modules = kernel.closure(&[&MODULES[..], &[filesystem, "crc32c_generic"]].concat())?;
    let place = format!("lib/modules/{}", kernel.version);
    for module in modules.iter().map(String::as_str).chain(["modules.dep"]) {
        archive.copy(&kernel.modules.join(module), &format!("{place}/{module}"))?;
    }
    Ok(std::fs::write(to, archive.finish())?)
}
