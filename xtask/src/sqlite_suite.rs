//! `cargo xtask sqlite-suite`: SQLite's own programs over the VFS `tembo`, in a process that owns the pool and beside one, and its TCL
//! tests.
//!
//! The sources are those that the caller names, built against the system's SQLite; nothing of them enters the project but names
//! of tests. What a run has found lies in `target/sqlite-suite`; the page is made from that.

mod page;
mod programs;
mod tcl;
mod tcl_files;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::bail;

use programs::{Programs, Vfs};

use crate::suites::{each_option, write_page};

/// Scripts of mptest, which starts processes of its own.
const SCRIPTS: [&str; 4] = ["config01", "config02", "crash01", "multiwrite01"];

/// Sets of tests of speedtest1.
const SETS: [&str; 5] = ["main", "cte", "rtree", "orm", "fp"];

/// Options of speedtest1 with which its main set runs.
const OPTIONS: [&str; 17] = [
    "--journal wal",
    "--journal off",
    "--journal memory",
    "--journal persist",
    "--exclusive",
    "--nosync",
    "--pagesize 512",
    "--pagesize 65536",
    "--cachesize 10",
    "--autovacuum",
    "--incrvacuum",
    "--temp 6",
    "--big-transactions",
    "--without-rowid --primarykey",
    "--utf16le",
    "--multithread --threads 2",
    "--mmap 10000000",
];

/// Whether speedtest1 owns the pool, or is a client of a process that does.
const PLACES: [&str; 2] = ["owner", "client"];

/// What the command line asks for.
#[derive(Default)]
struct Wanted {
    path: Option<PathBuf>,
    /// The extension, if it is not to be built.
    extension: Option<PathBuf>,
    /// The TCL tests, and not the programs.
    is_tcl: bool,
    /// Only these files of them.
    files: Vec<String>,
    page: bool,
}

/// Runs the programs, and writes the page if that is asked for.
pub(crate) fn run(root: &Path, words: &[&str]) -> anyhow::Result<()> {
    let wanted = parse(words)?;
    let results = root.join("target/sqlite-suite");
    std::fs::create_dir_all(&results)?;
    if let Some(checkout) = &wanted.path {
        let extension = match &wanted.extension {
            Some(extension) => std::path::absolute(extension)?,
            None => programs::build_extension(root)?,
        };
        if wanted.is_tcl {
            tcl_tests(checkout, &extension, &results, &wanted.files)?;
        } else {
            run_programs(checkout, &extension, &results)?;
        }
    } else if !wanted.page {
        bail!("--path names a checkout of SQLite's sources; see `cargo xtask help`");
    }
    if wanted.page {
        write_page(root, "sqlite-compatibility.md", &page::write(&results)?)?;
    }
    Ok(())
}

fn run_programs(checkout: &Path, extension: &Path, results: &Path) -> anyhow::Result<()> {
    let programs = Programs::build(checkout, extension, results)?;
    let (errors, lines) = mptest(&programs)?;
    std::fs::write(results.join("mptest.tsv"), lines)?;
    let lines = speedtest1(&programs)?;
    std::fs::write(results.join("speedtest1.tsv"), &lines)?;
    let failed = lines.lines().filter(|line| !line.ends_with("passed")).count();
    if errors > 0 || failed > 0 {
        bail!("mptest: {errors} errors; speedtest1: {failed} runs that have not passed");
    }
    Ok(())
}

fn tcl_tests(
    checkout: &Path,
    extension: &Path,
    results: &Path,
    files: &[String],
) -> anyhow::Result<()> {
    let unknown = tcl::run(checkout, extension, results, files)?;
    if unknown > 0 {
        bail!("{unknown} TCL tests fail only over the VFS, without a reason that is known");
    }
    Ok(())
}

fn parse(words: &[&str]) -> anyhow::Result<Wanted> {
    let mut wanted = Wanted::default();
    each_option("sqlite-suite", words, |word, value| {
        match word {
            "--path" => wanted.path = Some(std::path::absolute(value()?)?),
            "--extension" => wanted.extension = Some(PathBuf::from(value()?)),
            "--tcl" => wanted.is_tcl = true,
            "--file" => wanted.files.push(value()?.to_owned()),
            "--page" => wanted.page = true,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(wanted)
}

/// All errors, and a line for each script: name, tests, errors. The process that begins owns the pool; those that it starts are its clients.
fn mptest(programs: &Programs) -> anyhow::Result<(u32, String)> {
    let (mut all, mut lines) = (0, String::new());
    for script in SCRIPTS {
        let database = programs.database(&format!("mptest.{script}"))?;
        let (errors, tests) = summary(&programs.mptest(&database, script)?);
        println!("==> mptest {script}: {errors} errors in {tests} tests");
        writeln!(lines, "{script}\t{tests}\t{errors}")?;
        all += errors;
    }
    Ok((all, lines))
}

/// Errors and tests as mptest counts them; an error, if it has come to no end.
fn summary(text: &str) -> (u32, u32) {
    let has_failed = text.starts_with("failed\n");
    let counts = text.lines().find_map(|line| {
        let rest = line.strip_prefix("Summary: ")?;
        let mut words = rest.split(' ');
        let errors = words.next()?.parse().ok()?;
        Some((errors, words.nth(3)?.parse().ok()?))
    });
    let (errors, tests): (u32, u32) = counts.unwrap_or((1, 0));
    (errors.max(u32::from(has_failed)), tests)
}

/// A line for each run: place, what, verdict.
fn speedtest1(programs: &Programs) -> anyhow::Result<String> {
    let sets = SETS.map(|set| (format!("set {set}"), format!("--testset {set}")));
    let options = OPTIONS.map(|options| (options.to_owned(), format!("--testset main {options}")));
    let mut lines = String::new();
    for (name, words) in sets.into_iter().chain(options) {
        let wanted =
            programs.speedtest1(&programs.database("speedtest1.unix")?, Vfs::Unix, &words)?;
        for place in PLACES {
            let database = programs.database(&format!("speedtest1.{place}"))?;
            let found = match place {
                "owner" => programs.speedtest1(&database, Vfs::Tembo, &words)?,
                _ => programs.beside_an_owner(&database, |database| {
                    programs.speedtest1(database, Vfs::Tembo, &words)
                })?,
            };
            let verdict = match (hash(&wanted), hash(&found)) {
                (Some(wanted), Some(found)) if wanted == found => "passed",
                (Some(_), _) => "FAILED",
                (None, _) => "not run",
            };
            println!("==> speedtest1 {place} {name}: {verdict}");
            writeln!(lines, "{place}\t{name}\t{verdict}")?;
        }
    }
    Ok(lines)
}

/// The hash of all answers, which the program prints when it has come to its end.
fn hash(text: &str) -> Option<&str> {
    if text.starts_with("failed\n") {
        return None;
    }
    text.lines().find_map(|line| line.strip_prefix("Verification Hash: "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_programs_print_is_read() {
        assert_eq!(summary("a\nSummary: 2 errors out of 81 tests\nEND: x\n"), (2, 81));
        assert_eq!(summary("fatal: cannot open\n"), (1, 0));
        assert_eq!(hash(" TOTAL 1s\nVerification Hash: 10 abc\n"), Some("10 abc"));
        assert_eq!(hash("error\n"), None);
        assert_eq!(hash("failed\nVerification Hash: 10 abc\n"), None);
        assert_eq!(summary("failed\nSummary: 0 errors out of 81 tests\n"), (1, 81));
    }
}
