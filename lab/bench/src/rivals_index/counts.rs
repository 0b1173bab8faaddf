//! Instructions an operation, by callgrind: each contender once, with keys of the same plans.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::candidate::Candidate;
use super::plan::Source;
use super::process::Process;
use crate::guard::CALLGRIND;
use crate::{Error, Operation};

/// What callgrind looks for in a driver.
const DRIVER: [&str; 3] =
    ["--tool=callgrind", "--zero-before=rival_counted", "--dump-after=rival_guarded"];

/// Whether instructions can be counted at all.
pub(super) fn has_valgrind() -> bool {
    let mut command = Command::new("valgrind");
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Runs `command` under callgrind and counts the instructions of each operation. Its dumps go into `folder`.
///
/// # Errors
/// [`Error::Wrong`] for wrong answers, which are not counted; [`Error::Process`].
pub(super) fn counted(
    candidate: Candidate,
    command: &Command,
    source: &Source<'_>,
    operations: &[Operation],
    folder: &Path,
) -> Result<Vec<(Operation, f64)>, Error> {
    let name = candidate.name();
    let out = folder.join(format!("callgrind-{name}"));
    let mut watched = Command::new("valgrind");
    watched.args(if candidate.is_rival() { DRIVER } else { CALLGRIND });
    watched.arg(format!("--callgrind-out-file={}", out.display()));
    watched.arg(command.get_program()).args(command.get_args());
    let mut process = Process::start(name, watched)?;
    let mut counts = Vec::new();
    for &operation in operations {
        let plan = source.plan(operation, 1)?;
        let timed = process.trial(operation, &plan)?;
        counts.push((operation, timed.judged(candidate, operation, plan.expected)?.operations));
    }
    process.finish()?;
    let total = |number: usize| -> Option<f64> {
        let text = fs::read_to_string(out.with_extension(number.to_string())).ok()?;
        let total = text.lines().rev().find_map(|line| line.strip_prefix("totals: "))?;
        total.trim().parse().ok()
    };
    let all = counts.iter().enumerate();
    Ok(all
        .filter_map(|(at, (operation, count))| {
            Some((*operation, (total(at + 1)? / *count as f64).round()))
        })
        .collect())
}
