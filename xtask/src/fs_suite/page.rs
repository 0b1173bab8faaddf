//! The page `docs/filesystem-compatibility.md`.

mod xfstests;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use anyhow::Context;

const HEAD: &str = "\
# Suites of tests of file systems

What suites that others have written find on a mount, outside of transactions and in one (`tembo txn`). `cargo xtask fs-suite`
runs the programs that it is given and makes this page. Only names of tests stand here.

```
cargo install pjdfstest fsx
cargo xtask fs-suite --pjdfstest pjdfstest --fsx fsx --fio fio --xfstests CHECKOUT --page
```

";

/// What the runs of a suite that has verdicts alone have left, and how the page says it.
const TABLES: [(&str, &str); 3] = [
    (
        "fsx.tsv",
        "## fsx\n\nReads, writes, mappings, truncation, holes, `fallocate`, `sendfile` and `copy_file_range` by chance, each read compared.\n\n\
         | where | seed | operations | verdict |\n|---|---:|---:|---|\n",
    ),
    (
        "fio.tsv",
        "## fio\n\nEach block has a checksum (`--verify=crc32c`) and is read again behind the load.\n\n\
         | where | load | verdict |\n|---|---|---|\n",
    ),
    (
        "fsstress.tsv",
        "## fsstress\n\nCalls of all kinds by chance, by four processes in one folder; the files and the pool are checked afterwards \
         (`tembo fs check`, `tembo check`).\n\n| where | seed | calls | verdict |\n|---|---:|---:|---|\n",
    ),
];

#[derive(Clone, Copy, Default)]
struct Counts {
    passed: u32,
    failed: u32,
    left_out: u32,
}

/// What a run of pjdfstest printed.
#[derive(Default)]
struct Run {
    units: BTreeMap<String, Counts>,
    failures: Vec<String>,
    /// Tests by the reason that they were left out for.
    left_out: BTreeMap<String, Vec<String>>,
}

fn read(text: &str) -> Run {
    let mut run = Run::default();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let mut words = line.split_whitespace();
        let (Some(test), Some(verdict), None) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let Some((unit, _)) = test.split_once("::") else { continue };
        let counts = run.units.entry(unit.to_owned()).or_default();
        match verdict {
            "ok" => counts.passed += 1,
            "skipped" => {
                counts.left_out += 1;
                let reason = lines.peek().map_or("", |reason| reason.trim());
                run.left_out.entry(reason.to_owned()).or_default().push(test.to_owned());
            }
            _ => {
                counts.failed += 1;
                run.failures.push(test.to_owned());
            }
        }
    }
    run
}

/// The page, from what the last runs have left in two places: outside of a transaction and in one.
pub(super) fn write(results: &Path, places: [&str; 2]) -> anyhow::Result<String> {
    let load = |name: &str| {
        let file = results.join(name);
        std::fs::read_to_string(&file)
            .with_context(|| format!("{}: run the suite first", file.display()))
    };
    let mut text = HEAD.to_owned();
    let mut runs = Vec::new();
    for place in places {
        runs.push(read(&load(&format!("pjdfstest.{place}.txt"))?));
    }
    pjdfstest(&mut text, &runs, places)?;
    for (name, head) in TABLES {
        table(&mut text, head, load(name).ok())?;
    }
    xfstests::write(&mut text, load("xfstests.tsv").ok())?;
    Ok(text)
}

fn pjdfstest(text: &mut String, runs: &[Run], places: [&str; 2]) -> anyhow::Result<()> {
    writeln!(text, "## pjdfstest\n")?;
    writeln!(
        text,
        "| call | passed outside | failed | left out | passed inside | failed | left out |"
    )?;
    writeln!(text, "|---|---:|---:|---:|---:|---:|---:|")?;
    let (mut sums, Some(first)) = (vec![Counts::default(); runs.len()], runs.first()) else {
        return Ok(());
    };
    for unit in first.units.keys() {
        write!(text, "| {unit} |")?;
        for (run, sum) in runs.iter().zip(&mut sums) {
            let counts = run.units.get(unit).copied().unwrap_or_default();
            sum.passed += counts.passed;
            sum.failed += counts.failed;
            sum.left_out += counts.left_out;
            write!(text, " {} | {} | {} |", counts.passed, counts.failed, counts.left_out)?;
        }
        writeln!(text)?;
    }
    write!(text, "| **all** |")?;
    for sum in &sums {
        write!(text, " {} | {} | {} |", sum.passed, sum.failed, sum.left_out)?;
    }
    writeln!(text, "\n")?;
    for (run, place) in runs.iter().zip(places) {
        for failure in &run.failures {
            writeln!(text, "- failed {place}: `{failure}`{}", known(failure))?;
        }
    }
    writeln!(text, "Left out outside, by the reason that the suite gives:\n")?;
    for (reason, tests) in &first.left_out {
        let tests: Vec<String> = tests.iter().map(|test| format!("`{test}`")).collect();
        writeln!(text, "- {reason}: {}", tests.join(", "))?;
    }
    writeln!(text)?;
    Ok(())
}

/// Why a test of pjdfstest may fail, if that is known.
fn known(failure: &str) -> &'static str {
    match failure {
        "open::etxtbsy" => {
            ", now and then: the kernel hands `O_RDONLY|O_TRUNC` of a program that runs to the file system before it refuses it \
             (docs/filesystem.md)"
        }
        _ => "",
    }
}

/// A table of lines that a run has left.
fn table(text: &mut String, head: &str, lines: Option<String>) -> anyhow::Result<()> {
    text.push_str(head);
    let Some(lines) = lines else {
        text.push_str("| not run where this page was made |\n\n");
        return Ok(());
    };
    for line in lines.lines() {
        writeln!(text, "| {} |", line.replace('\t', " | "))?;
    }
    text.push('\n');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_pjdfstest_prints_is_counted_by_call() {
        let run = read(
            "chmod::a  ok\nchmod::b::dir  skipped\n\tno such thing\nlink::c  FAILED\n\ta thread panicked here\n\nSummary: 1 failed\n",
        );
        let counts = |unit: &str| {
            let counts = run.units[unit];
            (counts.passed, counts.failed, counts.left_out)
        };
        assert_eq!((counts("chmod"), counts("link")), ((1, 0, 1), (0, 1, 0)));
        assert_eq!(run.failures, ["link::c"]);
        assert_eq!(run.left_out["no such thing"], ["chmod::b::dir"]);
    }
}
