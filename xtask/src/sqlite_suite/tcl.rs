//! SQLite's TCL tests: `testfixture`, built from the checkout, with the VFS `tembo` as its default. Each file is run in a process of
//! its own, over an ordinary file and over the VFS.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::tcl_files::{GROUPS, reason};
use crate::ci::step;

/// Makes the VFS the default one.
const DEFAULT: &str = include_str!("default.c");

/// Removes and copies a database with its log, and goes on with the test.
const BESIDE: &str = include_str!("beside.tcl");

/// How long one file may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Stands for what did not run, because the file came to no end.
const ENDED: &str = "(ended)";

/// What became of one file over one VFS.
#[derive(Debug, Default, PartialEq, Eq)]
struct Run {
    tests: u32,
    failed: Vec<String>,
}

/// Builds the interpreter with all of SQLite inside; where it is. The checkout is not changed.
fn build(checkout: &Path, folder: &Path) -> anyhow::Result<PathBuf> {
    let checkout = std::path::absolute(checkout)?;
    let default = folder.join("default.c");
    fs::write(&default, DEFAULT)?;
    if !folder.join("Makefile").is_file() {
        let mut configure = Command::new("sh");
        configure.arg(checkout.join("configure")).args(["--enable-all", "--enable-update-limit"]);
        configure.arg("--quiet").env("CFLAGS", "-O1 -w").current_dir(folder);
        step("configure (package tcl-dev)", &mut configure)?;
    }
    fs::write(folder.join("beside.tcl"), BESIDE)?;
    let mut make = Command::new("make");
    make.args(["--silent", "testfixture", "OPTS=-DSQLITE_EXTRA_INIT=tembo_default"])
        .current_dir(folder);
    step("build of testfixture", make.arg(format!("LIBS={} -ldl", default.display())))?;
    Ok(folder.join("testfixture"))
}

/// Runs all files, or those that are named; what is found of each lies in a file of the results: tests over an ordinary file, tests
/// over the VFS, names of those that fail only over the VFS. Says how many fail without a reason that is known.
pub(super) fn run(
    checkout: &Path,
    extension: &Path,
    results: &Path,
    only: &[String],
) -> anyhow::Result<usize> {
    let folder = results.join("tcl");
    fs::create_dir_all(&folder)?;
    let testfixture = build(checkout, &folder)?;
    let mut unknown = 0;
    for file in all_files().filter(|file| only.is_empty() || only.iter().any(|name| name == file)) {
        let test = checkout.join(script(file));
        let at = |vfs, extension| over(vfs, extension, &testfixture, &test, &folder);
        let wanted = at("unix", None)?;
        let found = at("tembo", Some(extension))?;
        let failed = only_there(&wanted, found.failed);
        let without: Vec<&String> =
            failed.iter().filter(|name| reason(file, name).is_none()).collect();
        println!(
            "==> {file}: {} of {} tests, {} failed {without:?}",
            found.tests,
            wanted.tests,
            failed.len()
        );
        unknown += without.len();
        let line = format!("{}\t{}\t{}", wanted.tests, found.tests, failed.join(" "));
        fs::write(folder.join(format!("{file}.tsv")), line)?;
    }
    Ok(unknown)
}

fn all_files() -> impl Iterator<Item = &'static str> {
    GROUPS.iter().flat_map(|(_, files)| files.split_whitespace())
}

/// Where a file lies in the checkout.
fn script(file: &str) -> String {
    match file {
        _ if file.starts_with("fts5") => format!("ext/fts5/test/{file}.test"),
        "rtree" => format!("test/{file}.test"),
        _ if file.starts_with("rtree") => format!("ext/rtree/{file}.test"),
        _ => format!("test/{file}.test"),
    }
}

/// What fails here and not over an ordinary file.
fn only_there(wanted: &Run, failed: Vec<String>) -> Vec<String> {
    failed.into_iter().filter(|name| !wanted.failed.contains(name)).collect()
}

fn over(
    vfs: &str,
    extension: Option<&Path>,
    testfixture: &Path,
    test: &Path,
    folder: &Path,
) -> anyhow::Result<Run> {
    let name = test.file_stem().unwrap_or_default().to_string_lossy();
    let work = folder.join(format!("{name}.{vfs}"));
    // Of an earlier run, if there was one.
    let _ = fs::remove_dir_all(&work);
    fs::create_dir_all(&work)?;
    let path = folder.join(format!("{name}.{vfs}.txt"));
    let out = File::create(&path).with_context(|| path.display().to_string())?;
    let mut command = Command::new(testfixture);
    command.arg(folder.join("beside.tcl")).arg(test).current_dir(&work);
    command.env_remove("TEMBO_SQLITE_EXTENSION");
    if let Some(extension) = extension {
        command.env("TEMBO_SQLITE_EXTENSION", extension);
    }
    command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
    let status = status_within(&mut command, PATIENCE)?;
    let text = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
    fs::remove_dir_all(&work)?;
    if status.is_none() {
        println!("    {name} over {vfs}: killed after {PATIENCE:?}");
    }
    Ok(summary(&text))
}

/// How a process ends; `None`: it was killed, for it took too long.
fn status_within(command: &mut Command, patience: Duration) -> anyhow::Result<Option<ExitStatus>> {
    let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
    let end = Instant::now() + patience;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() > end {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Tests and failures as the interpreter counts them; if it has come to no end, what it has printed before.
fn summary(text: &str) -> Run {
    let mut run = Run::default();
    let failures = text.lines().find_map(|line| line.strip_prefix("!Failures on these tests:"));
    let counts = text.lines().find_map(|line| {
        let (errors, rest) = line.split_once(" errors out of ")?;
        Some((errors.parse::<u32>().ok()?, rest.split(' ').next()?.parse().ok()?))
    });
    if let Some((_, tests)) = counts {
        run.tests = tests;
        run.failed.extend(failures.unwrap_or_default().split_whitespace().map(str::to_owned));
        return run;
    }
    for line in text.lines() {
        let is_failed = line.starts_with("! ") && line.contains(" expected: [");
        run.tests += u32::from(is_failed || line.ends_with("... Ok"));
        let name = line.split_whitespace().nth(1).filter(|_| is_failed);
        run.failed.extend(name.map(str::to_owned));
    }
    run.failed.push(ENDED.to_owned());
    run
}

/// One file, as its last run has written it.
pub(super) struct Found {
    pub(super) file: &'static str,
    pub(super) wanted: u32,
    pub(super) tests: u32,
    pub(super) failed: Vec<String>,
}

/// What the last runs of all files have found.
pub(super) fn read(results: &Path) -> anyhow::Result<Vec<Found>> {
    let read = |file: &'static str| {
        let path = results.join(format!("tcl/{file}.tsv"));
        let line = fs::read_to_string(&path)
            .with_context(|| format!("{}: run the suite with --tcl first", path.display()))?;
        found(file, &line).with_context(|| format!("{}: `{line}`", path.display()))
    };
    all_files().map(read).collect()
}

fn found(file: &'static str, line: &str) -> Option<Found> {
    let mut cells = line.split('\t');
    let (wanted, tests) = (cells.next()?.parse().ok()?, cells.next()?.parse().ok()?);
    let failed = cells.next()?.split_whitespace().map(str::to_owned).collect();
    Some(Found { file, wanted, tests, failed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_interpreter_prints_is_read() {
        let text = "a-1.1... Ok\n! a-1.2 expected: [1]\n! a-1.2 got:      [2]\n";
        let whole =
            format!("{text}1 errors out of 3 tests on h Linux\n!Failures on these tests: a-1.2\n");
        assert_eq!(summary(&whole), Run { tests: 3, failed: vec!["a-1.2".into()] });
        assert_eq!(summary(text), Run { tests: 2, failed: vec!["a-1.2".into(), ENDED.into()] });
        let wanted = Run { tests: 3, failed: vec!["a-1.2".into()] };
        assert_eq!(only_there(&wanted, summary(text).failed), [ENDED]);
        let found =
            |line| found("a", line).map(|found| (found.wanted, found.tests, found.failed.len()));
        assert_eq!(found("3\t2\ta-1.2 (ended)"), Some((3, 2, 2)));
        assert_eq!(found("5\t5\t"), Some((5, 5, 0)));
        assert_eq!(found(""), None);
    }
}
