//! `cargo xtask torture`: the tests that take too long for every change.

use std::path::Path;
use std::process::Command;

use anyhow::Context;

use crate::ci::step;

const ROUNDS: &str = "200";

/// Images that the crash test looks at of each structure on each medium.
const IMAGES: &str = "3000000";

/// Times as many plans as in the tests.
const SCHEDULES: &str = "200";

/// Times as many sequences of operations by chance.
const SEQUENCES: &str = "50";

/// Times as many changes by threads beside each other.
const STRESS: &str = "10";

/// The bank on a disk makes fewer transfers: each waits for the disk.
const DISK_TRANSFERS: &str = "100000";

/// The runs of `tembo-lab`, by name.
const RUNS: &[(&str, &[&str])] = &[
    ("bank", &["torture", "bank", "--path", "/dev/shm", "--domain", "flush"]),
    (
        "bank over the B-Tree",
        &["torture", "bank", "--path", "/dev/shm", "--domain", "flush", "--index", "cdds"],
    ),
    (
        "bank on a disk",
        &[
            "torture",
            "bank",
            "--path",
            "target",
            "--domain",
            "logged",
            "--transfers",
            DISK_TRANSFERS,
        ],
    ),
    ("histories", &["torture", "histories"]),
    ("crash test", &["crashtest", "--images", IMAGES, "--model", "flush", "--model", "logged"]),
    ("crash test without caches", &["crashtest", "--images", IMAGES, "--model", "eadr"]),
    ("crash test with each step broken", &["crashtest", "--mutate"]),
];

/// Runs the kill test with `rounds` rounds in each domain, then schedules of threads, sequences by
/// chance, threads under stress, the bank and the histories, then the long crash test.
pub(crate) fn run(root: &Path, rounds: Option<&str>) -> anyhow::Result<()> {
    let rounds = rounds.unwrap_or(ROUNDS);
    rounds.parse::<u32>().with_context(|| format!("`{rounds}` is no number of rounds"))?;
    let mut kill = test(root, "tembo-cli", "kill");
    kill.args(["--", "--nocapture", "--test-threads=1"]).env("TEMBO_KILL_ROUNDS", rounds);
    step("kill test", &mut kill)?;
    let mut schedules = test(root, "tembo-torture", "schedules");
    schedules.args(["--", "--nocapture"]).env("TEMBO_SCHEDULES", SCHEDULES);
    step("schedules", &mut schedules)?;
    let mut sequences = test(root, "tembo-torture", "crashes");
    step("sequences", sequences.arg("sequences").env("TEMBO_SEQUENCES", SEQUENCES))?;
    let mut lanes = test(root, "tembo-kv", "lanes");
    step("lanes", lanes.env("TEMBO_STRESS", STRESS))?;
    // The histories of a server start the binary `tembo` that stands beside `tembo-lab`.
    let packages = ["--package", "tembo-cli", "--package", "tembo-lab"];
    step("build", cargo(root, &["build", "--release"]).args(packages))?;
    for (name, words) in RUNS {
        let mut lab = cargo(root, &["run", "--release", "--package", "tembo-lab", "--"]);
        step(name, lab.args(*words))?;
    }
    Ok(())
}

fn cargo(root: &Path, words: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.args(words).current_dir(root);
    command
}

/// A test of a package, in a release build.
fn test(root: &Path, package: &str, name: &str) -> Command {
    cargo(root, &["test", "--release", "--package", package, "--test", name])
}
