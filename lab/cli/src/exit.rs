//! The exit codes, and how an error is reported to a person.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

/// Why the process ended. Scripts may rely on the numbers, which are also those of `tembo`: one never
/// gets another meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Done,
    Other,
    Usage,
    Violated,
    NotMissed,
    Interrupted,
}

/// Code, meaning, and what to do about it.
type Row = (Exit, u8, &'static str, &'static str);

const TABLE: &[Row] = &[
    (Exit::Done, 0, "done", ""),
    (Exit::Other, 1, "any other error", ""),
    (Exit::Usage, 2, "wrong usage", "see `tembo-lab --help`"),
    (
        Exit::Violated,
        24,
        "a test has found a promise broken",
        "please report it, with the line `replay` or the pool that was kept",
    ),
    (
        Exit::NotMissed,
        25,
        "a step towards durability is not missed",
        "the step is not needed, or no workload needs it: look at it, and at the workloads",
    ),
    (Exit::Interrupted, 130, "stopped at once by a second signal", ""),
];

impl Exit {
    fn row(self) -> &'static Row {
        TABLE.iter().find(|row| row.0 == self).unwrap_or(&TABLE[1])
    }

    pub(crate) fn code(self) -> u8 {
        self.row().1
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

/// A refusal of the command line's own.
#[derive(Debug)]
struct Refusal {
    exit: Exit,
    what: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Refusal {}

/// Refuses with that code.
pub(crate) fn refuse<T>(exit: Exit, what: impl Into<String>) -> anyhow::Result<T> {
    Err(Refusal { exit, what: what.into() }.into())
}

/// Prints what happened and what to do, and returns the code. A pipe without a reader
/// (`tembo-lab bench micro | head`) is no error.
pub(crate) fn report(error: &anyhow::Error) -> Exit {
    let is_closed = |cause: &io::Error| cause.kind() == io::ErrorKind::BrokenPipe;
    if error.chain().any(|cause| cause.downcast_ref::<io::Error>().is_some_and(is_closed)) {
        return Exit::Done;
    }
    let exit = error.downcast_ref::<Refusal>().map_or(Exit::Other, |refusal| refusal.exit);
    // If this fails, there is no other place to report it to.
    let mut out = io::stderr().lock();
    let _ = writeln!(out, "tembo-lab: {error:#}");
    let advice = exit.row().3;
    if !advice.is_empty() {
        let _ = writeln!(out, "  help: {advice} (exit code {})", exit.code());
    }
    exit
}

/// The exit codes as text.
pub(crate) fn table() -> String {
    let rows = TABLE.iter().map(|(_, code, meaning, _)| format!("  {code:>3}  {meaning}\n"));
    format!("Exit codes:\n{}", rows.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_stands_once_and_means_something() {
        for (index, (exit, code, meaning, _)) in TABLE.iter().enumerate() {
            assert!(!meaning.is_empty());
            assert_eq!(exit.code(), *code);
            assert!(TABLE[..index].iter().all(|row| row.1 != *code && row.2 != *meaning), "{code}");
        }
    }
}
