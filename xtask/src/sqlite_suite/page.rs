//! The page `docs/sqlite-compatibility.md`.

use std::fmt::Write;
use std::path::Path;

use anyhow::Context;

const HEAD: &str = "\
# SQLite's own tests

What programs of SQLite's sources find over the VFS `tembo`. `cargo xtask sqlite-suite` builds them from a checkout of the version that
the system's library has, and makes this page. Only names of tests stand here.

```
apt-get source sqlite3
cargo xtask sqlite-suite --path sqlite3-* --page
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

const NOT_RUN: &str = "
## Left out

| tests | why |
|---|---|
| mptest config01 | it does nothing unless the VFS is `unix`, by its own first line |
| speedtest1, set trigger | it ends with an error on an ordinary file too: it reads a table that it has not made |
| the TCL tests | the interpreter `testfixture` has to be built with the extension inside; many of them look into files by path |
";

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
    Ok(text + NOT_RUN)
}
