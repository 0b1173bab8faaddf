//! The page `docs/sqlite-compatibility.md`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use anyhow::Context;

use super::tcl::{self, Found};
use super::tcl_files::{GROUPS, LEFT_OUT, reason};

const HEAD: &str = "\
# SQLite's own tests

What programs and tests of SQLite's sources find over the VFS `tembo`. `cargo xtask sqlite-suite` builds them from a checkout of the version
that the system's library has, and makes this page. Only names of tests stand here.

```
apt-get source sqlite3
cargo xtask sqlite-suite --path sqlite3-*
cargo xtask sqlite-suite --path sqlite3-* --tcl --page
```

";

const MPTEST: &str = "\
## mptest

Several processes write and check one database. The one that begins owns the pool; those that it starts, and that it ends in the
middle of transactions, are its clients.

| script | tests | errors |
|---|---:|---:|
";

const SPEEDTEST1: &str = "
## speedtest1

Passed: the hash of all answers is that of the same run on an ordinary file (VFS `unix`). The program owns the pool, or it is a
client of a process that does.

| run | owner | client |
|---|---|---|
";

const TCL: &str = "
## TCL tests

The interpreter `testfixture` is built with all of SQLite inside; the VFS `tembo` is its default, so that each database of a test is a
pool of its own, which is removed and copied with what lies beside it. Each file of tests is run in a process of its own, over an ordinary file too:
what fails there as well is counted nowhere. The two numbers of tests differ where a file lets each allocation or each call of the unix
VFS fail in turn, and where it stops (`(ended)`).

| about | files | tests over a file | over `tembo` | of them failed |
|---|---:|---:|---:|---:|
";

const NOT_PASSED: &str = "
### Tests that do not pass, and why

`(ended)`: the file came to no end.

| file | tests | why |
|---|---|---|
";

const NOT_RUN: &str = "
## Left out

| tests | why |
|---|---|
| mptest config01 | it does nothing unless the VFS is `unix`, by its own first line |
| speedtest1, set trigger | it ends with an error on an ordinary file too: it reads a table that it has not made |
";

/// Why a test fails, if nothing is known.
const UNKNOWN: &str = "not looked into yet";

/// Names of tests in a line at most.
const NAMES: usize = 12;

/// The page, from what the last run has left.
pub(super) fn write(results: &Path) -> anyhow::Result<String> {
    let load = |name: &str| {
        let file = results.join(name);
        std::fs::read_to_string(&file)
            .with_context(|| format!("{}: run the suite first", file.display()))
    };
    let mut text = HEAD.to_owned() + MPTEST;
    for line in load("mptest.tsv")?.lines() {
        let cells: Vec<&str> = line.split('\t').collect();
        // What the script leaves out is no test passed.
        if cells[1..] != ["0", "0"] {
            writeln!(text, "| {} |", cells.join(" | "))?;
        }
    }
    text += SPEEDTEST1;
    let lines = load("speedtest1.tsv")?;
    let runs: Vec<Vec<&str>> = lines.lines().map(|line| line.split('\t').collect()).collect();
    for places in runs.chunks(2) {
        let [owner, client] = places else { continue };
        writeln!(text, "| {} | {} | {} |", owner[1], owner[2], client[2])?;
    }
    let found = tcl::read(results)?;
    text += TCL;
    counts(&mut text, &found)?;
    text += NOT_PASSED;
    for file in &found {
        failures(&mut text, file)?;
    }
    text += NOT_RUN;
    for (tests, why) in LEFT_OUT {
        writeln!(text, "| TCL tests {tests} | {why} |")?;
    }
    Ok(text)
}

/// A line for each group of files, and one for all.
fn counts(text: &mut String, found: &[Found]) -> std::fmt::Result {
    let mut all = [0; 4];
    for (name, files) in GROUPS {
        let mut group = [0; 4];
        let is_of = |file: &&Found| files.split_whitespace().any(|name| name == file.file);
        for file in found.iter().filter(is_of) {
            let failed = file.failed.iter().filter(|name| !name.starts_with('(')).count() as u32;
            let counts = [1, file.wanted, file.tests, failed];
            (0..4).for_each(|at| group[at] += counts[at]);
        }
        (0..4).for_each(|at| all[at] += group[at]);
        line(text, name, group)?;
    }
    line(text, "**all**", all)
}

fn line(text: &mut String, name: &str, counts: [u32; 4]) -> std::fmt::Result {
    let [files, wanted, tests, failed] = counts;
    writeln!(text, "| {name} | {files} | {wanted} | {tests} | {failed} |")
}

/// The tests of a file that do not pass, by reason.
fn failures(text: &mut String, file: &Found) -> std::fmt::Result {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for test in &file.failed {
        reasons.entry(reason(file.file, test).unwrap_or(UNKNOWN)).or_default().push(test);
    }
    for (why, tests) in reasons {
        let more = tests.len().saturating_sub(NAMES);
        let names = tests[..tests.len() - more].join(", ");
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        writeln!(text, "| {} | {names}{more} | {why} |", file.file)?;
    }
    Ok(())
}
