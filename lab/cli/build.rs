//! Says of which commit the program is built: what it measures is that, wherever it runs.

use std::path::Path;
use std::process::Command;

fn main() {
    for sources in ["../../Cargo.lock", "../../crates", "../../lab"] {
        println!("cargo::rerun-if-changed={sources}");
    }
    // A commit changes this file, and no source.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"])
        && Path::new(&log).exists()
    {
        println!("cargo::rerun-if-changed={log}");
    }
    let commit = git(&["describe", "--always", "--dirty"]).unwrap_or_default();
    println!("cargo::rustc-env=TEMBO_COMMIT={commit}");
}

/// What git answers; `None` outside a repository, or without git.
fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
