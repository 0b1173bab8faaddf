//! `cargo xtask miri`: the tests that Miri can run, under Miri.
//!
//! Miri interprets, and finds undefined behaviour that no run shows: data races, references to what changes,
//! uninitialised bytes, pointers beyond their memory. It knows neither `asm!` nor mappings, and so sees the portable
//! accesses of `pmem/src/racy` over memory of the allocator (`pmem/src/mapping/heap.rs`).

use std::path::Path;
use std::process::Command;

use crate::ci::step;

/// Test binaries, by name, and the tests of them that need no files and little memory.
const RUNS: &[(&str, &[&str])] = &[
    (
        "parts of pmem",
        &["-p", "tembo-pmem", "--lib", "--", "racy", "flush", "notes", "voids", "pages"],
    ),
    (
        "threads",
        &["-p", "tembo-pmem", "--lib", "--", "a_latch_is", "a_panic", "a_thread_that", "a_process"],
    ),
    (
        "a region in memory",
        &[
            "-p",
            "tembo-pmem",
            "--test",
            "soundness",
            "--",
            "no_offset",
            "a_word",
            "a_struct",
            "a_range",
        ],
    ),
    ("a pool and small trees", &["-p", "tembo", "--test", "small"]),
    ("counts of a heap", &["-p", "tembo-heap", "--lib"]),
    ("a small heap", &["-p", "tembo-heap", "--test", "small"]),
];

/// Runs what Miri can run, if it is installed; why it was not run.
pub(crate) fn run(root: &Path) -> anyhow::Result<Option<&'static str>> {
    if !cargo(root, &["miri", "--version"]).output().is_ok_and(|output| output.status.success()) {
        println!(
            "==> miri: NOT RUN, for no nightly toolchain here has it: `rustup toolchain install nightly \
             --component miri`"
        );
        return Ok(Some("no nightly has it"));
    }
    for (name, words) in RUNS {
        let mut miri = cargo(root, &["miri", "test"]);
        // Opening asks the system how much memory there is.
        step(
            &format!("miri: {name}"),
            miri.args(*words).env("MIRIFLAGS", "-Zmiri-disable-isolation"),
        )?;
    }
    Ok(None)
}

fn cargo(root: &Path, words: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    // The toolchain that the project pins is a stable one, which has no Miri.
    command.arg("+nightly").args(words).current_dir(root);
    // Set by the cargo that runs this, and of its toolchain.
    for name in ["RUSTUP_TOOLCHAIN", "CARGO", "RUSTC", "RUSTDOC"] {
        command.env_remove(name);
    }
    command
}
