//! Runs units of the suite, each against a server of its own.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use super::outcome::{self, Outcome, Verdict};
use super::subject::Subject;

/// Seconds without progress after which the suite gives a unit up.
const PATIENCE_S: &str = "120";

/// A test that kills a process which the server has forked. It finds none of a server that the suite did not start, and then leaves
/// settings to the tests behind it, with Redis too.
const SKIPPED: &str = "SRANDMEMBER with a dict containing long chain";

/// All units of the checkout that it runs itself.
pub(super) fn all(checkout: &Path) -> anyhow::Result<Vec<String>> {
    let listed = runtest(checkout).arg("--list-tests").output().context("runtest")?;
    if !listed.status.success() {
        bail!("runtest needs Tcl 8.5 or newer: apt-get install tcl");
    }
    let units = String::from_utf8_lossy(&listed.stdout);
    Ok(units.lines().map(str::to_owned).collect())
}

fn runtest(checkout: &Path) -> Command {
    let mut command = Command::new("./runtest");
    // A terminal would get colours.
    command.current_dir(checkout).env("TERM", "dumb").stdin(Stdio::null());
    command
}

/// Runs the units and keeps what became of their tests below `results`.
pub(super) fn run_all(
    checkout: &Path,
    units: &[String],
    subject: &Subject,
    results: &Path,
) -> anyhow::Result<()> {
    let folder = results.join(subject.name());
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let mut all = Vec::new();
    for unit in units {
        let outcomes = run(checkout, unit, subject)?;
        println!("{:7}{unit:34}{}", subject.name(), in_words(&outcomes));
        outcome::save(&folder.join(file_name(unit)), &outcomes)?;
        all.extend(outcomes);
    }
    println!("{:7}{:34}{}", subject.name(), "all", in_words(&all));
    Ok(())
}

fn in_words(outcomes: &[Outcome]) -> String {
    let count = |verdict| outcome::count(outcomes, verdict);
    let ended = if count(Verdict::Ended) > 0 { ", ended early" } else { "" };
    format!(
        "{:5} passed {:4} failed {:4} ignored{ended}",
        count(Verdict::Passed),
        count(Verdict::Failed),
        count(Verdict::Ignored)
    )
}

/// The file with the outcomes of a unit.
pub(super) fn file_name(unit: &str) -> String {
    unit.replace('/', "+") + ".tsv"
}

fn run(checkout: &Path, unit: &str, subject: &Subject) -> anyhow::Result<Vec<Outcome>> {
    let mut server = subject.start()?;
    let port = server.port.to_string();
    // Ports of the suite itself, below those that the system gives away: runs side by side have different ones.
    let own_ports = (20_000 + server.port % 250 * 40).to_string();
    let printed = runtest(checkout)
        .args(["--host", "127.0.0.1", "--port", &port, "--single", unit])
        .args([
            "--baseport",
            &own_ports,
            "--skiptest",
            SKIPPED,
            "--durable",
            "--timeout",
            PATIENCE_S,
        ])
        .stderr(Stdio::null())
        .output()
        .context("runtest")?;
    let printed = String::from_utf8_lossy(&printed.stdout);
    if !printed.contains("Testing ") {
        bail!("{unit}: the suite has not begun: {printed}");
    }
    let mut outcomes = outcome::parse(&printed);
    if !server.is_alive() {
        let test = "the server ended".to_owned();
        outcomes.push(Outcome { verdict: Verdict::Ended, test, detail: String::new() });
    }
    Ok(outcomes)
}
