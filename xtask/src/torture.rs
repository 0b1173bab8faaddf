//! `cargo xtask torture`: the tests that take too long for every change.

use std::path::Path;
use std::process::Command;

use anyhow::Context;

use crate::ci::step;

/// How long the tests go on. All are numbers for command lines and environments.
struct Extent {
    /// Rounds of the kill test in each domain.
    rounds: &'static str,
    /// Rounds of the kill test of SQLite.
    sqlite_rounds: &'static str,
    /// Times as many plans of threads as in the tests.
    schedules: &'static str,
    /// Times as many random sequences of operations.
    sequences: &'static str,
    /// Times as many changes by concurrent threads.
    stress: &'static str,
    /// Transfers of the bank, and programs on a heap.
    transfers: &'static str,
    /// The same on a disk, where each waits for the disk.
    disk_transfers: &'static str,
    /// Times that the bank, or the process of the programs, is killed.
    kills: &'static str,
    /// Operations of each history.
    operations: &'static str,
    /// Images that the crash test looks at of each structure on each medium.
    images: &'static str,
}

const FULL: Extent = Extent {
    rounds: "200",
    sqlite_rounds: "500",
    schedules: "200",
    sequences: "50",
    stress: "10",
    transfers: "1000000",
    disk_transfers: "100000",
    kills: "100",
    operations: "1000000",
    images: "3000000",
};

/// To see that all of it works.
const BRIEF: Extent = Extent {
    rounds: "4",
    sqlite_rounds: "10",
    schedules: "1",
    sequences: "1",
    stress: "1",
    transfers: "20000",
    disk_transfers: "2000",
    kills: "10",
    operations: "50000",
    images: "20000",
};

/// Runs the kill test with `rounds` rounds in each domain, then schedules of threads, random sequences,
/// threads under stress, the bank and the histories, then the long crash test; all of it in minutes if it
/// `is_brief`, else in hours.
pub(crate) fn run(root: &Path, rounds: Option<&str>, is_brief: bool) -> anyhow::Result<()> {
    let extent = if is_brief { BRIEF } else { FULL };
    let rounds = rounds.unwrap_or(extent.rounds);
    rounds.parse::<u32>().with_context(|| format!("`{rounds}` is no number of rounds"))?;
    crate::miri::run(root)?;
    let mut kill = test(root, "tembo-cli", "kill");
    kill.args(["--", "--nocapture", "--test-threads=1"]).env("TEMBO_KILL_ROUNDS", rounds);
    step("kill test", &mut kill)?;
    let mut shared = test(root, "tembo-torture", "shared");
    shared.args(["--", "--nocapture"]).env("TEMBO_KILL_ROUNDS", rounds);
    step("kill test of a shared pool", &mut shared)?;
    let mut heap = test(root, "tembo-heap", "killed");
    heap.args(["--", "--nocapture", "--test-threads=1"]).env("TEMBO_KILL_ROUNDS", rounds);
    step("kill test of a heap", &mut heap)?;
    for (name, target) in [("SQLite", "hosts"), ("processes on one database", "processes")] {
        let mut sqlite = test(root, "tembo-sqlite", target);
        sqlite.arg("kill").env("TEMBO_SQLITE_ROUNDS", extent.sqlite_rounds);
        step(&format!("kill test of {name}"), &mut sqlite)?;
    }
    let mut schedules = test(root, "tembo-torture", "schedules");
    schedules.args(["--", "--nocapture"]).env("TEMBO_SCHEDULES", extent.schedules);
    step("schedules", &mut schedules)?;
    let mut sequences = test(root, "tembo-torture", "crashes");
    step("sequences", sequences.arg("sequences").env("TEMBO_SEQUENCES", extent.sequences))?;
    let mut lanes = test(root, "tembo-kv", "lanes");
    step("lanes", lanes.env("TEMBO_STRESS", extent.stress))?;
    // The histories of a server start the binary `tembo` that stands beside `tembo-lab`.
    let packages = ["--package", "tembo-cli", "--package", "tembo-lab"];
    step("build", cargo(root, &["build", "--release"]).args(packages))?;
    for (name, words) in lab_runs(&extent) {
        let mut lab = cargo(root, &["run", "--release", "--package", "tembo-lab", "--"]);
        step(name, lab.args(words))?;
    }
    Ok(())
}

/// The runs of `tembo-lab`, by name.
fn lab_runs(extent: &Extent) -> Vec<(&'static str, Vec<&'static str>)> {
    let shm = ["--path", "/dev/shm", "--domain", "flush"];
    let bank = ["torture", "bank", "--kills", extent.kills, "--transfers"];
    let programs = ["torture", "heap", "--kills", extent.kills, "--programs"];
    let crashtest = ["crashtest", "--images", extent.images];
    vec![
        ("bank", [&bank[..], &[extent.transfers], &shm].concat()),
        (
            "bank over the B-Tree",
            [&bank[..], &[extent.transfers], &shm, &["--index", "cdds"]].concat(),
        ),
        (
            "banks in two stores of one pool",
            [&bank[..], &[extent.transfers], &shm, &["--stores", "2"]].concat(),
        ),
        (
            "bank on a disk",
            [&bank[..], &[extent.disk_transfers, "--path", "target", "--domain", "logged"]]
                .concat(),
        ),
        ("programs on a heap", [&programs[..], &[extent.transfers], &shm].concat()),
        (
            "programs on a heap on a disk",
            [&programs[..], &[extent.disk_transfers, "--path", "target", "--domain", "logged"]]
                .concat(),
        ),
        ("histories", vec!["torture", "histories", "--operations", extent.operations]),
        ("crash test", [&crashtest[..], &["--model", "flush", "--model", "logged"]].concat()),
        ("crash test without caches", [&crashtest[..], &["--model", "eadr"]].concat()),
        ("crash test with each step broken", vec!["crashtest", "--mutate"]),
    ]
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
