//! The project's own commands: `cargo xtask tidy | steps | picture | ci | miri | torture | redis-suite | fs-suite | sqlite-suite | help`.

// A command-line tool whose output is its purpose.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod ci;
mod dax;
mod fs_suite;
mod miri;
mod sqlite_suite;
mod suite;
mod suites;
mod tidy;
mod torture;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
cargo xtask <command>

  tidy        the style that runs: see STYLE.md
  steps       writes the list of named steps, which the adversary takes away one at a time
  picture     sizes, arrows and public names of the crates, as a table; `picture FOLDER`: of another checkout
  ci          fmt, clippy, tidy, deny, tests, docs: what a change must pass
  miri        what Miri can run, where it is installed
  torture     Miri, the kill tests (also of collections, replicas, a heap, SQLite), 200 rounds in each domain
              (`torture ROUNDS` for another number), random SQL beside an ordinary file, random scripts beside
              Redis, the bank killed 100 times, histories of a million operations, the long crash test (hours),
              a Sentinel, and a guest on a served device; `torture --brief`: a little of each
  dax         a pool on a true DAX mapping in a guest under qemu, killed at random (minutes);
              --rounds N, --seed N, --fs ext4|xfs, --eadr; --nbd: ext4 on a served device instead, and the server killed too;
              --bench: the file system beside ext4 with DAX, measured in the guest
  redis-suite Redis's own tests, from a checkout of its sources, against the server; minutes.
              --path CHECKOUT; --unit NAME for one of them (again for more); --redis PROGRAM to run them against
              a Redis too; --server PROGRAM for another server than the release build; --page writes docs/redis-compatibility.md from the last runs of all units
  fs-suite    suites of tests of file systems on a mount, outside of transactions and in one; as root, minutes.
              --pjdfstest PROGRAM, --fsx PROGRAM (both on crates.io), --fio PROGRAM; --xfstests CHECKOUT, in which `make`
              was run: fsstress and the generic tests of the group quick (40 minutes; --test NUMBER for one of them, again for
              more); --tembo PROGRAM for another than the release build; --page writes docs/filesystem-compatibility.md from the last runs
  sqlite-suite SQLite's own programs over the VFS, from a checkout of its sources in the version of the system's library; minutes.
              --path CHECKOUT; --tcl: its TCL tests instead; --file NAME for one of their files (again for more); --extension FILE for
              another than the release build; --page writes docs/sqlite-compatibility.md from the last runs of both
  help        this text";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["tidy"] => tidy::run(&root()),
        ["steps"] => tidy::write_steps(&root()),
        ["picture"] => tidy::print_picture(&root()),
        ["picture", folder] => tidy::print_picture(Path::new(folder)),
        ["ci"] => ci::run(&root()),
        ["miri"] => miri::run(&root()).map(drop),
        ["torture"] => torture::run(&root(), None, false),
        ["torture", "--brief"] => torture::run(&root(), None, true),
        ["torture", rounds] => torture::run(&root(), Some(rounds), false),
        ["dax", ref words @ ..] => dax::run(&root(), words),
        ["redis-suite", ref words @ ..] => suite::run(&root(), words),
        ["fs-suite", ref words @ ..] => fs_suite::run(&root(), words),
        ["sqlite-suite", ref words @ ..] => sqlite_suite::run(&root(), words),
        ["help" | "--help" | "-h"] | [] => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{HELP}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the repository: the folder above this crate.
fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}
