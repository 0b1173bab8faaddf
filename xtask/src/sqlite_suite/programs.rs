//! SQLite's programs, built from a checkout, and how they are run.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::ci::step;

/// Loads the extension before `main`.
const LOAD: &str = include_str!("load.c");

/// The relative size of speedtest1, in percent.
const SIZE: &str = "5";

/// Through which VFS a program opens its database.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Vfs {
    Unix,
    Tembo,
}

/// The programs, and a folder for their databases and what they print.
pub(super) struct Programs {
    checkout: PathBuf,
    extension: PathBuf,
    results: PathBuf,
}

/// Builds the extension for a release; where it is.
pub(super) fn build_extension(root: &Path) -> anyhow::Result<PathBuf> {
    let mut build = Command::new("cargo");
    build.args(["build", "--release", "--package", "tembo-sqlite-extension"]).current_dir(root);
    step("build", &mut build)?;
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| root.join("target"), PathBuf::from);
    Ok(target.join("release/libtembo_sqlite.so"))
}

impl Programs {
    /// Builds them against the system's SQLite, whose version is that of the checkout.
    pub(super) fn build(
        checkout: &Path,
        extension: &Path,
        results: &Path,
    ) -> anyhow::Result<Programs> {
        let load = results.join("load.c");
        fs::write(&load, LOAD)?;
        for (name, source) in [("mptest", "mptest/mptest.c"), ("speedtest1", "test/speedtest1.c")] {
            let mut cc = Command::new("cc");
            cc.args(["-O1", "-w", "-DSQLITE_ENABLE_RTREE", "-o"]).arg(results.join(name));
            cc.arg(checkout.join(source)).arg(&load).args(["-lsqlite3", "-lm"]);
            step(&format!("build of {name}"), &mut cc)?;
        }
        let (checkout, extension) = (checkout.to_owned(), extension.to_owned());
        Ok(Programs { checkout, extension, results: results.to_owned() })
    }

    /// The path of a database that is not there.
    pub(super) fn database(&self, name: &str) -> anyhow::Result<PathBuf> {
        let folder = self.results.join("databases");
        fs::create_dir_all(&folder)?;
        let database = folder.join(name);
        for end in ["", ".log", ".sock", "-journal", "-wal", "-shm"] {
            let mut path = database.clone().into_os_string();
            path.push(end);
            // Of an earlier run, if there was one.
            let _ = fs::remove_file(path);
        }
        Ok(database)
    }

    /// Runs a program; what it prints, which also lies in the folder of results.
    fn printed(&self, name: &str, command: &mut Command) -> anyhow::Result<String> {
        let path = self.results.join(format!("{name}.txt"));
        let out = File::create(&path).with_context(|| path.display().to_string())?;
        command.env("TEMBO_SQLITE_EXTENSION", &self.extension).stdin(Stdio::null());
        let run = command.stdout(out.try_clone()?).stderr(out);
        let status = run.status().with_context(|| format!("{name}: cannot start {command:?}"))?;
        let mut text = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
        if !status.success() {
            // What it counted before is no result.
            text.insert_str(0, "failed\n");
            println!("==> {name}: {status}");
        }
        Ok(text)
    }

    pub(super) fn mptest(&self, database: &Path, script: &str) -> anyhow::Result<String> {
        let mut command = Command::new(self.results.join("mptest"));
        command.arg(database).arg(self.checkout.join(format!("mptest/{script}.test")));
        self.printed(&format!("mptest.{script}"), command.args(["--vfs", "tembo"]))
    }

    pub(super) fn speedtest1(
        &self,
        database: &Path,
        vfs: Vfs,
        words: &str,
    ) -> anyhow::Result<String> {
        let vfs = if vfs == Vfs::Unix { "unix" } else { "tembo" };
        let mut command = Command::new(self.results.join("speedtest1"));
        command.args(["--verify", "--size", SIZE, "--vfs", vfs]);
        command.args(words.split(' ')).arg(database);
        self.printed(&format!("speedtest1.{vfs}"), &mut command)
    }

    /// Does something with a second database of a pool that a shell owns meanwhile.
    pub(super) fn beside_an_owner<R>(
        &self,
        pool: &Path,
        work: impl FnOnce(&Path) -> anyhow::Result<R>,
    ) -> anyhow::Result<R> {
        let mut shell = Command::new("sqlite3");
        shell.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = shell.spawn().context("the owner: cannot start sqlite3")?;
        let (input, output) = (shell.stdin.take(), shell.stdout.take());
        let (Some(mut input), Some(output)) = (input, output) else { bail!("no pipe") };
        writeln!(input, ".load {}", self.extension.display())?;
        writeln!(input, ".open \"file:{}?vfs=tembo\"", pool.display())?;
        writeln!(input, "create table owned(a);\n.print ready")?;
        let mut output = BufReader::new(output);
        let mut says = |wanted: &str| -> anyhow::Result<()> {
            let mut line = String::new();
            output.read_line(&mut line)?;
            if line.trim_end() != wanted {
                bail!("the owner of {} says {line:?}, not {wanted}", pool.display());
            }
            Ok(())
        };
        says("ready")?;
        let done = work(&pool.join("client"));
        writeln!(input, "select count(*) from owned;")?;
        says("0")?;
        drop(input);
        if !shell.wait()?.success() {
            bail!("the owner of {} has ended with an error", pool.display());
        }
        done
    }
}
