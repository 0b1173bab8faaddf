//! `cargo xtask torture`: the tests that take too long for every change.

use std::path::Path;
use std::process::Command;

use anyhow::Context;

const ROUNDS: &str = "200";

/// Runs the kill test with `rounds` rounds in each domain.
pub(crate) fn run(root: &Path, rounds: Option<&str>) -> anyhow::Result<()> {
    let rounds = rounds.unwrap_or(ROUNDS);
    rounds.parse::<u32>().with_context(|| format!("`{rounds}` is no number of rounds"))?;
    let mut test = Command::new("cargo");
    test.args(["test", "--release", "--package", "tembo-cli", "--test", "kill", "--"])
        .args(["--nocapture", "--test-threads=1"])
        .env("TEMBO_KILL_ROUNDS", rounds)
        .current_dir(root);
    crate::ci::step("kill test", &mut test)
}
