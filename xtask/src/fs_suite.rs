//! `cargo xtask fs-suite`: suites of tests of file systems, run on a mount, outside of transactions and in one.
//!
//! The programs are those that the caller names; nothing of them enters the project but names of tests. What a run printed
//! lies in `target/fs-suite`; the page is made from that.

mod mounted;
mod page;
mod xfstests;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use mounted::Mounted;

use crate::suites::{each_option, write_page};

/// How pjdfstest is to run: which optional calls there are, and which users a test may become.
const PJDFSTEST: &str = "\
[features]
posix_fallocate = {}
rename_ctime = {}
utimensat = {}
utime_now = {}
[settings]
naptime = 0.01
allow_remount = false
expected_failures = []
[dummy_auth]
entries = [[\"daemon\", \"daemon\"], [\"bin\", \"bin\"]]
";

/// What fsx does, each in proportion to its number.
const FSX: &str = "\
flen = 1048576
[opsize]
max = 131072
[weights]
close_open = 1
invalidate = 1
mapread = 10
mapwrite = 10
read = 10
write = 10
truncate = 10
fsync = 1
fdatasync = 1
posix_fallocate = 5
punch_hole = 5
sendfile = 5
copy_file_range = 10
";

/// Operations of fsx with each seed, and the seeds.
const FSX_OPERATIONS: u32 = 20_000;
const FSX_SEEDS: u32 = 4;

/// Loads of fio, each of whose bytes are read again and compared.
const FIO: [(&str, &[&str]); 4] = [
    ("a file in order, 1 MiB a call", &["--rw=write", "--bs=1m", "--size=256m"]),
    (
        "four files, 4 KiB to 128 KiB at random",
        &["--rw=randrw", "--bsrange=4k-128k", "--numjobs=4", "--size=64m"],
    ),
    ("a mapping, 4 KiB at random", &["--ioengine=mmap", "--rw=randrw", "--bs=4k", "--size=32m"]),
    (
        "4 KiB at random, an fsync for each",
        &["--rw=randwrite", "--bs=4k", "--fsync=1", "--size=8m"],
    ),
];

/// Calls that each of four processes of fsstress makes, and the seeds.
const FSSTRESS_CALLS: u32 = 10_000;
const FSSTRESS_SEEDS: u32 = 4;

/// What the command line asks for.
#[derive(Default)]
struct Wanted {
    pjdfstest: Option<PathBuf>,
    fsx: Option<PathBuf>,
    fio: Option<PathBuf>,
    /// A checkout of xfstests, built.
    xfstests: Option<PathBuf>,
    /// Tests of it, all of the group `quick` if there is none.
    tests: Vec<String>,
    /// The program `tembo`, if it is not to be built.
    tembo: Option<PathBuf>,
    page: bool,
}

/// Runs suites, and writes the page if that is asked for.
pub(crate) fn run(root: &Path, words: &[&str]) -> anyhow::Result<()> {
    let wanted = parse(words)?;
    let results = root.join("target/fs-suite");
    std::fs::create_dir_all(&results)?;
    if wanted.has_suite() {
        let tembo = match &wanted.tembo {
            Some(program) => std::path::absolute(program)?,
            None => crate::ci::build_tembo(root)?,
        };
        on_a_mount(&wanted, &tembo, &results)?;
        if let Some(checkout) = &wanted.xfstests {
            xfstests::run(&tembo, checkout, &wanted.tests, &results)?;
        }
    } else if !wanted.page {
        bail!("--pjdfstest, --fsx, --fio and --xfstests name suites; see `cargo xtask help`");
    }
    if wanted.page {
        write_page(root, "filesystem-compatibility.md", &page::write(&results, PLACES)?)?;
    }
    Ok(())
}

impl Wanted {
    fn has_suite(&self) -> bool {
        [&self.pjdfstest, &self.fsx, &self.fio, &self.xfstests].into_iter().any(Option::is_some)
    }
}

/// Runs those that need a mount and nothing else.
fn on_a_mount(wanted: &Wanted, tembo: &Path, results: &Path) -> anyhow::Result<()> {
    let mounted = Mounted::new(tembo)?;
    if let Some(program) = &wanted.pjdfstest {
        pjdfstest(&mounted, program, results)?;
    }
    if let Some(program) = &wanted.fsx {
        fsx(&mounted, program, results)?;
    }
    if let Some(program) = &wanted.fio {
        fio(&mounted, program, results)?;
    }
    if let Some(checkout) = wanted.xfstests.as_ref().filter(|_| wanted.tests.is_empty()) {
        fsstress(&mounted, &checkout.join("ltp/fsstress"), results)?;
    }
    mounted.end()
}

fn parse(words: &[&str]) -> anyhow::Result<Wanted> {
    let mut wanted = Wanted::default();
    each_option("fs-suite", words, |word, value| {
        match word {
            "--pjdfstest" => wanted.pjdfstest = Some(std::path::absolute(value()?)?),
            "--fsx" => wanted.fsx = Some(std::path::absolute(value()?)?),
            "--fio" => wanted.fio = Some(PathBuf::from(value()?)),
            "--xfstests" => wanted.xfstests = Some(std::path::absolute(value()?)?),
            "--test" => wanted.tests.push(value()?.to_owned()),
            "--tembo" => wanted.tembo = Some(PathBuf::from(value()?)),
            "--page" => wanted.page = true,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(wanted)
}

/// Where a suite runs.
const PLACES: [&str; 2] = ["outside", "inside"];

/// A program on the mount, or in a transaction of it.
fn command(mounted: &Mounted, place: &str, program: &Path) -> Command {
    if place == "outside" {
        return Command::new(program);
    }
    let mut command = Command::new(&mounted.tembo);
    command.arg("txn").arg(&mounted.at).arg("--").arg(program);
    command
}

/// Runs it with what it prints in a file. Whether it succeeded.
fn recorded(name: &str, command: &mut Command, file: &Path) -> anyhow::Result<bool> {
    println!("==> {name}");
    let out = File::create(file).with_context(|| file.display().to_string())?;
    let status = command.stdout(out.try_clone()?).stderr(out).status();
    let status = status.with_context(|| format!("{name}: cannot start {command:?}"))?;
    println!("==> {name}: {status}");
    Ok(status.success())
}

fn pjdfstest(mounted: &Mounted, program: &Path, results: &Path) -> anyhow::Result<()> {
    let config = results.join("pjdfstest.toml");
    std::fs::write(&config, PJDFSTEST)?;
    for place in PLACES {
        let mut command = command(mounted, place, program);
        command.arg("-c").arg(&config).arg("-s").arg(std::env::temp_dir());
        command.arg("-p").arg(&mounted.at);
        recorded(
            &format!("pjdfstest {place}"),
            &mut command,
            &results.join(format!("pjdfstest.{place}.txt")),
        )?;
    }
    Ok(())
}

fn fsx(mounted: &Mounted, program: &Path, results: &Path) -> anyhow::Result<()> {
    let config = results.join("fsx.toml");
    std::fs::write(&config, FSX)?;
    let mut lines = String::new();
    for place in PLACES {
        for seed in 1..=FSX_SEEDS {
            let mut command = command(mounted, place, program);
            command.arg("-f").arg(&config).arg("-P").arg(results);
            command.args(["-N", &FSX_OPERATIONS.to_string(), "-S", &seed.to_string()]);
            command.arg(mounted.at.join(format!("fsx.{seed}")));
            let name = format!("fsx {place} {seed}");
            let file = results.join(format!("fsx.{place}.{seed}.txt"));
            let verdict = if recorded(&name, &mut command, &file)? { "ok" } else { "FAILED" };
            lines += &format!("{place}\t{seed}\t{FSX_OPERATIONS}\t{verdict}\n");
        }
    }
    Ok(std::fs::write(results.join("fsx.tsv"), lines)?)
}

fn fio(mounted: &Mounted, program: &Path, results: &Path) -> anyhow::Result<()> {
    let mut lines = String::new();
    for place in PLACES {
        for (i, (load, options)) in FIO.into_iter().enumerate() {
            let mut command = command(mounted, place, program);
            command.args(["--verify=crc32c", "--verify_fatal=1", "--name=a", "--randseed=1"]);
            command.arg(format!("--directory={}", mounted.at.display())).args(options);
            command.arg(format!("--filename_format=fio.{place}.{i}.$jobnum"));
            let file = results.join(format!("fio.{place}.{i}.txt"));
            let is_right = recorded(&format!("fio {place}: {load}"), &mut command, &file)?;
            let verdict = if is_right { "ok" } else { "FAILED" };
            lines += &format!("{place}\t{load}\t{verdict}\n");
        }
    }
    Ok(std::fs::write(results.join("fio.tsv"), lines)?)
}

fn fsstress(mounted: &Mounted, program: &Path, results: &Path) -> anyhow::Result<()> {
    let mut lines = String::new();
    for place in PLACES {
        for seed in 1..=FSSTRESS_SEEDS {
            let mut command = command(mounted, place, program);
            command.arg("-d").arg(mounted.at.join(format!("fsstress.{place}.{seed}")));
            command.args(["-p", "4", "-n", &FSSTRESS_CALLS.to_string(), "-s", &seed.to_string()]);
            let name = format!("fsstress {place} {seed}");
            let file = results.join(format!("fsstress.{place}.{seed}.txt"));
            let verdict = if recorded(&name, &mut command, &file)? { "ok" } else { "FAILED" };
            lines += &format!("{place}\t{seed}\t4 x {FSSTRESS_CALLS}\t{verdict}\n");
        }
    }
    Ok(std::fs::write(results.join("fsstress.tsv"), lines)?)
}
