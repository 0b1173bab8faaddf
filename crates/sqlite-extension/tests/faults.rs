//! What may go wrong: no space, a kill in the midst of COMMIT, ordinary files in one transaction with a database of ours.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    unreachable_pub,
    dead_code
)]

#[path = "programs/host.rs"]
mod host;

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use tembo_kv::{Options, Store};
use tembo_sqlite::Owner;

use host::{Folder, PYTHON, has_python, library, python};

/// A signal that a process gets when a file of it may not grow.
const SIGXFSZ: i32 = 25;

fn started(mode: &str, pool: &Path, words: &[&str]) -> Command {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults.py");
    let mut command = Command::new(PYTHON);
    command.arg(script).arg(library()).arg(mode).arg(pool).args(words);
    command
}

fn run(mode: &str, pool: &Path, words: &[&str]) -> Output {
    started(mode, pool, words).output().unwrap()
}

/// What Python prints, which succeeds.
fn printed(mode: &str, pool: &Path, words: &[&str]) -> String {
    let output = run(mode, pool, words);
    let (printed, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{mode}: {printed}{errors}");
    printed.into_owned()
}

/// Runs one with a pool that it owns, in a folder of its own.
fn alone(mode: &str) {
    if has_python() {
        let folder = Folder::new(mode);
        assert_eq!(printed(mode, &folder.0.join("app.pool"), &[]), "done\n");
    }
}

/// Runs one with a pool that another process owns.
fn as_a_client(mode: &str) {
    if !has_python() {
        return;
    }
    let folder = Folder::new(&format!("client-{mode}"));
    let pool = folder.0.join("app.pool");
    let mut owner = python("hold", &pool);
    let mut owner = owner.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(owner.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    assert_eq!(printed(mode, &pool, &[]), "done\n");
    drop(owner.stdin.take());
    assert!(owner.wait().unwrap().success());
}

#[test]
fn an_ordinary_file_that_is_attached_is_rolled_back_after_a_kill_in_its_commit() {
    if !has_python() {
        return;
    }
    let folder = Folder::new("cut");
    let pool = folder.0.join("app.pool");
    let cut = run("cut", &pool, &[]);
    assert_eq!(cut.status.signal(), Some(SIGXFSZ), "{}", String::from_utf8_lossy(&cut.stderr));
    assert_eq!(printed("after_the_cut", &pool, &[]), "done\n");
}

#[test]
fn a_file_and_a_pool_are_sound_whenever_a_program_that_changes_both_is_killed() {
    if !has_python() {
        return;
    }
    let folder = Folder::new("pairs");
    let (pool, mut acknowledged) = (folder.0.join("app.pool"), 0);
    let rounds = std::env::var("TEMBO_SQLITE_ROUNDS").map_or(8, |rounds| rounds.parse().unwrap());
    for round in 0..rounds {
        let mut pairs = started("pairs", &pool, &[]).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(pairs.stdout.take().unwrap()).lines();
        // Somewhere in the transaction behind these.
        for _ in 0..=round % 3 {
            acknowledged = lines.next().unwrap().unwrap().parse().unwrap();
        }
        std::thread::sleep(Duration::from_millis(round * 13 % 40));
        pairs.kill().unwrap();
        pairs.wait().unwrap();
        for line in lines.map_while(Result::ok) {
            acknowledged = line.parse().unwrap();
        }
        let found = printed("after_pairs", &pool, &[]);
        let mut words = found.split_whitespace().map_while(|word| word.parse::<u64>().ok());
        let (in_file, in_pool) = (words.next().unwrap(), words.next().unwrap());
        // The pool commits first.
        assert!(in_file >= acknowledged, "round {round}: {found}, of {acknowledged}");
        assert!(in_pool == in_file || in_pool == in_file + 1, "round {round}: {found}");
    }
}

#[test]
fn an_ordinary_file_that_finds_no_space_rolls_both_back() {
    alone("no_space_for_the_ordinary_file");
}

#[test]
fn a_transaction_of_an_ordinary_main_database_and_of_ours_is_refused() {
    alone("an_ordinary_file_comes_first");
}

#[test]
fn a_transaction_of_one_of_several_databases_and_of_a_file_is_refused() {
    alone("a_pool_of_several_has_no_place_for_a_super_journal");
}

#[test]
fn a_commit_for_which_the_owner_has_no_space_leaves_nothing_in_a_cache_and_in_a_file() {
    if !has_python() {
        return;
    }
    for mode in ["a_full_pool", "a_full_pool_and_an_ordinary_file"] {
        let folder = Folder::new(mode);
        let pool = folder.0.join("app.pool");
        let store = Store::create(&pool, &Options::new().size(4 << 20).size_max(4 << 20)).unwrap();
        let owner = Owner::new(&pool, store).unwrap();
        assert_eq!(printed(mode, &pool, &[]), "done\n");
        drop(owner);
    }
}

#[test]
fn a_database_with_a_wal_that_is_copied_in_can_be_used() {
    alone("a_database_with_a_wal_is_copied_in");
    as_a_client("a_database_with_a_wal_is_copied_in");
}

#[test]
fn a_connection_that_keeps_its_locks_keeps_writers_out() {
    alone("a_connection_that_keeps_its_locks_keeps_writers_out");
    as_a_client("a_connection_that_keeps_its_locks_keeps_writers_out");
}

#[test]
fn a_shared_cache_is_of_one_version_and_of_one_pool() {
    alone("a_shared_cache_is_of_one_version_and_of_one_pool");
}

#[test]
fn a_large_journal_does_not_lie_in_memory() {
    if !has_python() {
        return;
    }
    let folder = Folder::new("peak");
    let pool = folder.0.join("app.pool");
    printed("fill", &pool, &[]);
    let peak = |mode| printed("peak", &pool, &[mode]).trim().parse::<u64>().unwrap();
    // The journal has 24 MB.
    let (without, with) = (peak("off"), peak("delete"));
    assert!(with < without + (12 << 10), "{with} KiB, without a journal {without} KiB");
}
