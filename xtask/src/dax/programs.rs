//! What runs in the guest: programs of the host, and ours.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

/// Programs for the guest.
pub(super) struct Programs {
    /// Statically linked.
    pub(super) busybox: PathBuf,
    pub(super) ndctl: PathBuf,
    /// Makes the file system.
    pub(super) mkfs: PathBuf,
    /// The command line; stands in the guest where it was built, for the tests look for it there.
    pub(super) tembo: PathBuf,
    /// The load and what compares.
    pub(super) load: PathBuf,
    /// Tests that run in the guest: name and file.
    pub(super) tests: Vec<(&'static str, PathBuf)>,
}

/// The tests that meet the medium: package and name.
const TESTS: [(&str, &str); 3] =
    [("tembo-pmem", "flush_domain"), ("tembo-kv", "store"), ("tembo-cli", "kill")];

/// The busybox of the host, which needs nothing else.
pub(super) fn busybox() -> anyhow::Result<PathBuf> {
    let busybox = installed("busybox", "busybox-static")?;
    if !libraries(&busybox)?.is_empty() {
        bail!("busybox is not statically linked: apt-get install busybox-static");
    }
    Ok(busybox)
}

/// Builds an example for a release; where it is.
pub(super) fn example(root: &Path, package: &str, name: &str) -> anyhow::Result<PathBuf> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--package", package, "--example", name]).current_dir(root);
    crate::ci::step("dax: build", &mut cargo)?;
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| root.join("target"), PathBuf::from);
    Ok(std::path::absolute(target.join("release/examples").join(name))?)
}

/// Finds the host's programs and builds ours.
pub(super) fn build(root: &Path, filesystem: &str) -> anyhow::Result<Programs> {
    let busybox = busybox()?;
    let ndctl = installed("ndctl", "ndctl")?;
    let mkfs = match filesystem {
        "xfs" => installed("mkfs.xfs", "xfsprogs")?,
        _ => installed("mkfs.ext4", "e2fsprogs")?,
    };
    let cargo = |words: &[&str]| {
        let mut command = Command::new("cargo");
        command.args(words).current_dir(root);
        command
    };
    let tembo = std::path::absolute(crate::ci::build_tembo(root)?)?;
    let load = example(root, "tembo-torture", "dax_load")?;
    let mut tests = Vec::new();
    for (package, test) in TESTS {
        let words = ["test", "--release", "--no-run", "--package", package, "--test", test];
        let built = cargo(&words).output().context("cargo")?;
        let text = String::from_utf8_lossy(&built.stderr).into_owned();
        let file = text.lines().find_map(|line| line.trim().strip_prefix("Executable "));
        let file = file.and_then(|rest| rest.split(['(', ')']).nth(1));
        let file = file.with_context(|| format!("building the test {test}:\n{text}"))?;
        tests.push((test, root.join(file)));
    }
    Ok(Programs { busybox, ndctl, mkfs, tembo, load, tests })
}

/// A program of the host; what to install if it is not there.
pub(super) fn installed(program: &str, package: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    let mut files = folders.map(|folder: PathBuf| folder.join(program));
    let found = files.find(|file| file.is_file());
    found.with_context(|| format!("{program} is missing: apt-get install {package}"))
}

/// The libraries that a program is linked with, its loader too.
pub(super) fn libraries(program: &Path) -> anyhow::Result<BTreeSet<PathBuf>> {
    let listed = Command::new("ldd").arg(program).output().context("ldd (package libc-bin)")?;
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let path = |line: &str| {
        let words = line.split_whitespace();
        words.map(PathBuf::from).find(|word| word.is_absolute())
    };
    Ok(text.lines().filter_map(path).collect())
}

/// Runs a command; what it prints.
pub(super) fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} ({}): {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
