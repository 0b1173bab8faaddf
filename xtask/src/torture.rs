//! `cargo xtask torture`: the tests that take too long for every change.

use std::path::Path;
use std::process::Command;

use anyhow::Context;

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

/// Runs the kill test with `rounds` rounds in each domain, then schedules of threads, sequences by
/// chance, threads under stress, the bank and the histories, then the long crash test.
pub(crate) fn run(root: &Path, rounds: Option<&str>) -> anyhow::Result<()> {
    let rounds = rounds.unwrap_or(ROUNDS);
    rounds.parse::<u32>().with_context(|| format!("`{rounds}` is no number of rounds"))?;
    let mut test = Command::new("cargo");
    test.args(["test", "--release", "--package", "tembo-cli", "--test", "kill", "--"])
        .args(["--nocapture", "--test-threads=1"])
        .env("TEMBO_KILL_ROUNDS", rounds)
        .current_dir(root);
    crate::ci::step("kill test", &mut test)?;
    let mut test = Command::new("cargo");
    test.args(["test", "--release", "--package", "tembo-torture", "--test", "schedules", "--"])
        .arg("--nocapture")
        .env("TEMBO_SCHEDULES", SCHEDULES)
        .current_dir(root);
    crate::ci::step("schedules", &mut test)?;
    let mut test = Command::new("cargo");
    test.args([
        "test",
        "--release",
        "--package",
        "tembo-torture",
        "--test",
        "crashes",
        "sequences",
    ])
    .env("TEMBO_SEQUENCES", SEQUENCES)
    .current_dir(root);
    crate::ci::step("sequences", &mut test)?;
    let mut test = Command::new("cargo");
    test.args(["test", "--release", "--package", "tembo-kv", "--test", "lanes"])
        .env("TEMBO_STRESS", STRESS)
        .current_dir(root);
    crate::ci::step("lanes", &mut test)?;
    for (name, words) in [
        ("bank", &["torture", "bank", "--path", "/dev/shm", "--domain", "flush"][..]),
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
    ] {
        let mut test = Command::new("cargo");
        test.args(["run", "--release", "--package", "tembo-cli", "--"])
            .args(words)
            .current_dir(root);
        crate::ci::step(name, &mut test)?;
    }
    Ok(())
}
