//! Debian's kernel, unpacked and not installed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use super::programs::output;

/// The package that depends on the newest kernel.
const PACKAGE: &str = "linux-image-amd64";

/// A kernel and where its modules lie.
pub(super) struct Kernel {
    /// What qemu boots.
    pub(super) image: PathBuf,
    /// `lib/modules/VERSION` below the unpacked package.
    pub(super) modules: PathBuf,
    /// The version.
    pub(super) version: String,
}

/// The kernel in `folder/kernel`, which is fetched if it is not there.
pub(super) fn find(folder: &Path) -> anyhow::Result<Kernel> {
    let unpacked = folder.join("kernel");
    if !unpacked.join("lib/modules").is_dir() {
        fetch(folder, &unpacked)?;
    }
    let only = |folder: PathBuf, prefix: &str| -> anyhow::Result<PathBuf> {
        let entries =
            std::fs::read_dir(&folder).with_context(|| format!("{}", folder.display()))?;
        let mut paths = entries.flatten().map(|entry| entry.path());
        let starts = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix))
        };
        paths.find(starts).with_context(|| format!("no {prefix} in {}", folder.display()))
    };
    let modules = only(unpacked.join("lib/modules"), "")?;
    let image = only(unpacked.join("boot"), "vmlinuz")?;
    let version = modules.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if !modules.join("modules.dep").is_file() {
        output(Command::new("busybox").arg("depmod").arg("-b").arg(&unpacked).arg(&version))?;
    }
    Ok(Kernel { image, modules, version })
}

fn fetch(folder: &Path, unpacked: &Path) -> anyhow::Result<()> {
    println!("==> dax: fetching {PACKAGE} (once)");
    let text = output(Command::new("apt-cache").args(["depends", PACKAGE]))
        .context("Debian's tools are needed to fetch a kernel")?;
    let name = text.lines().find_map(|line| line.trim().strip_prefix("Depends: "));
    let name = name.with_context(|| format!("{PACKAGE} is not known here: apt-get update"))?;
    output(Command::new("apt-get").args(["download", name]).current_dir(folder))?;
    let package = std::fs::read_dir(folder)?.flatten().map(|entry| entry.path()).find(|path| {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        file.starts_with(name) && file.ends_with(".deb")
    });
    let Some(package) = package else { bail!("apt-get has not downloaded {name}") };
    output(Command::new("dpkg-deb").arg("-x").arg(&package).arg(unpacked))?;
    Ok(std::fs::remove_file(package)?)
}

impl Kernel {
    /// The files of these modules and of all that they need, relative to [`Kernel::modules`].
    pub(super) fn closure(&self, wanted: &[&str]) -> anyhow::Result<BTreeSet<String>> {
        let text = std::fs::read_to_string(self.modules.join("modules.dep"))?;
        let mut found = BTreeSet::new();
        for module in wanted {
            let is_it = |path: &str| path.rsplit('/').next() == Some(&format!("{module}.ko"));
            let line = text.lines().find(|line| line.split(':').next().is_some_and(is_it));
            let line = line.with_context(|| format!("the kernel has no module {module}"))?;
            let files = line.split([':', ' ']).filter(|file| !file.is_empty());
            found.extend(files.map(str::to_owned));
        }
        Ok(found)
    }
}
