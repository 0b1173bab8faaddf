//! `cargo xtask ci`: everything that a change must pass, cheapest first.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, bail};

/// Runs every step and stops at the first that fails.
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let cargo = |words: &[&str]| {
        let mut command = Command::new("cargo");
        command.args(words).current_dir(root);
        command
    };
    step("fmt", &mut cargo(&["fmt", "--all", "--", "--check"]))?;
    crate::tidy::run(root)?;
    step(
        "clippy",
        &mut cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    )?;
    deny(&cargo)?;
    step("tests", &mut cargo(&["test", "--workspace"]))?;
    // What a public page links to and only a private one explains is a warning without the private items alone.
    let mut public = cargo(&["doc", "--workspace", "--no-deps"]);
    step("docs", public.env("RUSTDOCFLAGS", "-D warnings"))?;
    let mut private = cargo(&["doc", "--workspace", "--no-deps", "--document-private-items"]);
    step("docs of private items", private.env("RUSTDOCFLAGS", "-D warnings"))
}

/// Runs one step, says how long it took, and fails with its name.
pub(crate) fn step(name: &str, command: &mut Command) -> anyhow::Result<()> {
    println!("==> {name}");
    let start = Instant::now();
    let status = command.status().with_context(|| format!("{name}: cannot start {command:?}"))?;
    if !status.success() {
        bail!("{name} failed ({status}): {command:?}");
    }
    println!("==> {name}: {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Builds the program `tembo` for a release; where it is.
pub(crate) fn build_tembo(root: &Path) -> anyhow::Result<PathBuf> {
    let mut build = Command::new("cargo");
    build.args(["build", "--release", "--package", "tembo-cli"]).current_dir(root);
    step("build", &mut build)?;
    let target = std::env::var_os("CARGO_TARGET_DIR");
    Ok(target.map_or_else(|| root.join("target"), PathBuf::from).join("release/tembo"))
}

/// Licences, bans and sources of the dependencies. Advisories are a separate command, because they
/// are fetched from a git host and so fail where there is no network; see deny.toml.
fn deny(cargo: &dyn Fn(&[&str]) -> Command) -> anyhow::Result<()> {
    if installed(cargo) || (std::env::var_os("CI").is_none() && install(cargo)) {
        return step("deny", &mut cargo(&["deny", "check", "bans", "licenses", "sources"]));
    }
    println!("==> deny: SKIPPED, for there is no cargo-deny: `cargo install --locked cargo-deny`");
    Ok(())
}

fn installed(cargo: &dyn Fn(&[&str]) -> Command) -> bool {
    cargo(&["deny", "--version"]).output().is_ok_and(|output| output.status.success())
}

fn install(cargo: &dyn Fn(&[&str]) -> Command) -> bool {
    println!("==> installing cargo-deny (once)");
    cargo(&["install", "--locked", "cargo-deny"]).status().is_ok_and(|status| status.success())
}
