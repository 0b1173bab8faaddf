//! `cargo xtask torture`: the tests that take too long for every change.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::ci::step;

/// How long the tests go on. All are numbers for command lines and environments.
struct Extent {
    /// Rounds of the kill test in each domain.
    rounds: &'static str,
    /// Rounds of the kill test of SQLite.
    sqlite_rounds: &'static str,
    /// Databases of random SQL that is compared with an ordinary file's.
    corpus: &'static str,
    /// Times as many plans of threads as in the tests.
    schedules: &'static str,
    /// Times as many random sequences of operations.
    sequences: &'static str,
    /// Times as many changes by concurrent threads.
    stress: &'static str,
    /// Random scripts that a Redis and the server are given.
    seeds: &'static str,
    /// Keys that expire in one second.
    expiring: &'static str,
    /// Transfers of the bank, and programs on a heap.
    transfers: &'static str,
    /// The same on a disk, where each waits for the disk.
    disk_transfers: &'static str,
    /// Times that the bank, the process of the programs, or that of a mount, is killed.
    kills: &'static str,
    /// Times that a guest on a served device, or the server, is killed.
    guests: &'static str,
    /// Operations of each history.
    operations: &'static str,
    /// Images that the crash test looks at of each structure on each medium.
    images: &'static str,
}

const FULL: Extent = Extent {
    rounds: "200",
    sqlite_rounds: "500",
    corpus: "2000",
    schedules: "200",
    sequences: "50",
    stress: "10",
    seeds: "2000",
    expiring: "1000000",
    transfers: "1000000",
    disk_transfers: "100000",
    kills: "100",
    guests: "50",
    operations: "1000000",
    images: "3000000",
};

/// To see that all of it works.
const BRIEF: Extent = Extent {
    rounds: "4",
    sqlite_rounds: "10",
    corpus: "12",
    schedules: "1",
    sequences: "1",
    stress: "1",
    seeds: "12",
    expiring: "20000",
    transfers: "20000",
    disk_transfers: "2000",
    kills: "10",
    guests: "3",
    operations: "50000",
    images: "20000",
};

/// Scripts that run programs of others over several servers, and the package of the program.
const SCRIPTS: [(&str, &str); 2] = [("sentinel", "redis-sentinel"), ("twemproxy", "nutcracker")];

/// What such a script exits with where the program is not there, and cannot be installed.
const NOT_INSTALLED: i32 = 77;

/// The parts that were not run, each with its reason.
#[derive(Debug, Default)]
struct NotRun(Vec<(&'static str, String)>);

impl NotRun {
    /// A part was run, if there is no `reason` why it was not.
    fn note(&mut self, part: &'static str, reason: Option<impl Into<String>>) {
        self.0.extend(reason.map(|reason| (part, reason.into())));
    }

    /// The last line of the output, which names what was not tested.
    fn last_line(&self) -> String {
        if self.0.is_empty() {
            return "torture: passed; all parts were run".to_owned();
        }
        let parts: Vec<String> =
            self.0.iter().map(|(part, reason)| format!("{part} ({reason})")).collect();
        format!("torture: passed; not run: {}", parts.join(", "))
    }
}

/// Runs the kill tests with `rounds` rounds in each domain, then random scripts beside Redis, schedules of
/// threads, random sequences, threads under stress, the bank and the histories, then the long crash test,
/// a Sentinel, a proxy, and a guest on a served device; all of it in minutes if it `is_brief`, else in hours.
pub(crate) fn run(root: &Path, rounds: Option<&str>, is_brief: bool) -> anyhow::Result<()> {
    let extent = if is_brief { BRIEF } else { FULL };
    let rounds = rounds.unwrap_or(extent.rounds);
    rounds.parse::<u32>().with_context(|| format!("`{rounds}` is no number of rounds"))?;
    let mut not_run = NotRun::default();
    not_run.note("miri", crate::miri::run(root)?);
    for run in test_runs(&extent, rounds) {
        step(run.name, &mut run.command(root))?;
    }
    // The histories of a server start the binary `tembo` that stands beside `tembo-lab`.
    let packages = ["--package", "tembo-cli", "--package", "tembo-lab"];
    step("build", cargo(root, &["build", "--release"]).args(packages))?;
    for (name, words) in lab_runs(&extent) {
        let mut lab = cargo(root, &["run", "--release", "--package", "tembo-lab", "--"]);
        step(name, lab.args(words))?;
    }
    for one in SCRIPTS {
        not_run.note(one.0, script(root, one)?);
    }
    not_run.note("guest", guest(root, extent.guests)?);
    println!("{}", not_run.last_line());
    Ok(())
}

/// A file system on a served device, in a guest; minutes. Where no guest can run, that is no failure: why it was not run.
fn guest(root: &Path, rounds: &str) -> anyhow::Result<Option<&'static str>> {
    if !crate::dax::can_boot() {
        let reason = "no qemu-system-x86_64 or no static busybox";
        println!("==> guest: NOT RUN, for there is {reason}");
        return Ok(Some(reason));
    }
    crate::dax::run(root, &["--nbd", "--rounds", rounds]).map(|()| None)
}

/// A test of a package, in a release build.
struct TestRun {
    name: &'static str,
    package: &'static str,
    /// The test's file or folder below `tests/`.
    target: &'static str,
    /// Only tests with this in their names.
    filter: Option<&'static str>,
    /// With its output, one test at a time.
    is_shown: bool,
    /// What makes it long.
    variable: (&'static str, String),
}

impl TestRun {
    fn command(&self, root: &Path) -> Command {
        let mut command =
            cargo(root, &["test", "--release", "--package", self.package, "--test", self.target]);
        command.args(self.filter);
        if self.is_shown {
            command.args(["--", "--nocapture", "--test-threads=1"]);
        }
        command.env(self.variable.0, &self.variable.1);
        command
    }
}

/// The tests of the workspace that a variable makes long.
fn test_runs(extent: &Extent, rounds: &str) -> Vec<TestRun> {
    let run = |name, package, target, filter, is_shown, variable: (&'static str, &str)| {
        let variable = (variable.0, variable.1.to_owned());
        TestRun { name, package, target, filter, is_shown, variable }
    };
    let kills = ("TEMBO_KILL_ROUNDS", rounds);
    let sqlite = ("TEMBO_SQLITE_ROUNDS", extent.sqlite_rounds);
    let corpus = ("TEMBO_CORPUS", extent.corpus);
    let seeds = ("TEMBO_SEEDS", extent.seeds);
    let schedules = ("TEMBO_SCHEDULES", extent.schedules);
    let sequences = ("TEMBO_SEQUENCES", extent.sequences);
    let stress = ("TEMBO_STRESS", extent.stress);
    let expiring = ("TEMBO_EXPIRING", extent.expiring);
    let mount = ("TEMBO_MOUNT_KILLS", extent.kills);
    let of_kills = Some("kill");
    vec![
        run("kill test", "tembo-cli", "kill", None, true, kills),
        run("kill test of collections", "tembo-cli", "collections", None, true, kills),
        run("kill test of replicas", "tembo-cli", "replicas", None, true, kills),
        run("kill test of a mount", "tembo-cli", "mount", Some("kills_at_random"), true, mount),
        run("kill test of a shared pool", "tembo-torture", "shared", None, true, kills),
        run("kill test of a heap", "tembo-heap", "killed", None, true, kills),
        run("kill test of SQLite", "tembo-sqlite-extension", "hosts", of_kills, false, sqlite),
        run(
            "kill test of processes on one database",
            "tembo-sqlite-extension",
            "processes",
            of_kills,
            false,
            sqlite,
        ),
        run("random SQL", "tembo-sqlite-extension", "corpus", Some("random_sql"), true, corpus),
        run("comparison with Redis", "tembo-server", "server", Some("random_scripts"), true, seeds),
        run("keys that expire", "tembo-server", "server", Some("expire_together"), true, expiring),
        run("schedules", "tembo-torture", "schedules", None, true, schedules),
        run("sequences", "tembo-torture", "crashes", Some("sequences"), false, sequences),
        run("write slots", "tembo-kv", "write_slots", None, false, stress),
    ]
}

/// One of [`SCRIPTS`]; minutes at most. That the program cannot be had is no failure: why it was not run.
fn script(root: &Path, (name, package): (&str, &str)) -> anyhow::Result<Option<String>> {
    let path = format!("scripts/{name}.sh");
    let mut script = Command::new(&path);
    let tembo = crate::ci::build_tembo(root)?;
    script.arg(tembo).current_dir(root).stdin(Stdio::null());
    println!("==> {name}");
    let status = script.status().with_context(|| format!("cannot start {path}"))?;
    match status.code() {
        Some(0) => Ok(None),
        Some(NOT_INSTALLED) => {
            println!("==> {name}: NOT RUN, for there is no {package}");
            Ok(Some(format!("no {package}")))
        }
        _ => bail!("{name} failed ({status})"),
    }
}

/// The runs of `tembo-lab`, by name.
fn lab_runs(extent: &Extent) -> Vec<(&'static str, Vec<&'static str>)> {
    let shm = ["--path", "/dev/shm", "--domain", "flush"];
    let bank = ["torture", "bank", "--kills", extent.kills, "--transfers"];
    let programs = ["torture", "heap", "--kills", extent.kills, "--programs"];
    let crashtest = ["crashtest", "--images", extent.images];
    vec![
        ("bank", [&bank[..], &[extent.transfers], &shm].concat()),
        (
            "bank over the B-Tree",
            [&bank[..], &[extent.transfers], &shm, &["--index", "cdds"]].concat(),
        ),
        (
            "banks in two stores of one pool",
            [&bank[..], &[extent.transfers], &shm, &["--stores", "2"]].concat(),
        ),
        (
            "bank on a disk",
            [&bank[..], &[extent.disk_transfers, "--path", "target", "--domain", "logged"]]
                .concat(),
        ),
        ("programs on a heap", [&programs[..], &[extent.transfers], &shm].concat()),
        (
            "programs on a heap on a disk",
            [&programs[..], &[extent.disk_transfers, "--path", "target", "--domain", "logged"]]
                .concat(),
        ),
        ("histories", vec!["torture", "histories", "--operations", extent.operations]),
        ("crash test", [&crashtest[..], &["--model", "flush", "--model", "logged"]].concat()),
        ("crash test without caches", [&crashtest[..], &["--model", "eadr"]].concat()),
        ("crash test with each step broken", vec!["crashtest", "--mutate"]),
    ]
}

fn cargo(root: &Path, words: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.args(words).current_dir(root);
    command
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// The texts of a test target, by the rule of cargo: `tests/NAME.rs`, or `tests/NAME/main.rs`. Beside them what
    /// else lies in its folder.
    fn texts(run: &TestRun) -> Option<Vec<String>> {
        let name = run.package.strip_prefix("tembo-").unwrap();
        let tests = ["crates", "lab"].map(|place| crate::root().join(place).join(name));
        let tests = tests.into_iter().find(|folder| folder.is_dir())?.join("tests");
        let folder = tests.join(run.target);
        let [file, main] = [tests.join(format!("{}.rs", run.target)), folder.join("main.rs")];
        let beside = std::fs::read_dir(&folder).into_iter().flatten();
        let mut paths: Vec<PathBuf> = beside.map(|entry| entry.unwrap().path()).collect();
        if file.is_file() {
            paths.push(file);
        } else if !main.is_file() {
            return None;
        }
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
        Some(paths.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect())
    }

    /// A target that is gone would stop the run in the middle, a filter or a variable that is gone would pass and
    /// test nothing more than `make test` does.
    #[test]
    fn every_test_that_is_named_is_there_with_its_variable() {
        for run in test_runs(&FULL, "1") {
            let what = format!("--package {} --test {}", run.package, run.target);
            let texts = texts(&run).unwrap_or_else(|| panic!("no such test: {what}"));
            let has = |part: &str| texts.iter().any(|text| text.contains(part));
            assert!(has(&format!("\"{}\"", run.variable.0)), "{what}: {}", run.variable.0);
            if let Some(filter) = run.filter {
                // A test, or a module of tests.
                let is_test = |line: &str| {
                    let name = line.strip_prefix("fn ").or_else(|| line.strip_prefix("mod "));
                    let name = name.and_then(|rest| rest.split(['(', ' ', ';']).next());
                    name.is_some_and(|name| name.contains(filter))
                };
                let found = texts.iter().flat_map(|text| text.lines());
                assert!(found.map(str::trim).any(is_test), "{what}: no test `{filter}`");
            }
        }
    }

    /// The parts stand hours apart in the output.
    #[test]
    fn the_last_line_names_all_parts_that_were_not_run() {
        let mut not_run = NotRun::default();
        not_run.note("sentinel", None::<String>);
        assert_eq!(not_run.last_line(), "torture: passed; all parts were run");
        not_run.note("miri", Some("no nightly has it"));
        not_run.note("twemproxy", Some("no nutcracker".to_owned()));
        assert_eq!(
            not_run.last_line(),
            "torture: passed; not run: miri (no nightly has it), twemproxy (no nutcracker)"
        );
    }

    /// What is not there is reported by the script's exit code.
    #[test]
    fn the_scripts_say_when_their_program_is_not_installed() {
        for (name, package) in SCRIPTS {
            let path = crate::root().join(format!("scripts/{name}.sh"));
            let script = std::fs::read_to_string(path).unwrap();
            assert!(script.contains(&format!("exit {NOT_INSTALLED}\n")), "{name}");
            assert!(script.contains(package), "{name}");
        }
    }
}
