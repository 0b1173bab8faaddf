//! Random SQL over the VFS has the answers, the errors and the content that it has over an ordinary file: `corpus/compare.py` in
//! Debian's Python, where it is installed.

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs, unreachable_pub, dead_code)]

#[path = "programs/host.rs"]
mod host;

use std::path::Path;
use std::process::{Command, Output};
use std::time::SystemTime;

use host::{Folder, PYTHON, has_python, library};

/// A rollback journal and a WAL, each in one process and in two.
const FIXED: [u64; 4] = [20, 21, 22, 23];

fn compare(seed: u64, words: &[&str]) -> Output {
    let folder = Folder::new(&format!("corpus-{seed}-{}", words.len()));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/compare.py");
    let mut python = Command::new(PYTHON);
    python.arg("-B").arg(script).arg(library()).arg(&folder.0).arg(seed.to_string()).args(words);
    python.output().unwrap()
}

/// That nothing differs on a database that a seed decides.
fn agrees(seed: u64, statements: &str) {
    let output = compare(seed, &[statements]);
    let (printed, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    print!("{printed}");
    assert!(output.status.success(), "{printed}{errors}");
}

#[test]
fn random_sql_is_answered_as_over_an_ordinary_file() {
    if !has_python() {
        return;
    }
    if let Ok(seed) = std::env::var("TEMBO_SEED") {
        let statements = std::env::var("TEMBO_STATEMENTS").unwrap_or_else(|_| "160".to_owned());
        return agrees(seed.parse().unwrap(), &statements);
    }
    FIXED.into_iter().for_each(|seed| agrees(seed, "160"));
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let first = now.as_millis() as u64;
    // How many databases from a seed that was not tried before.
    let databases = std::env::var("TEMBO_CORPUS").map_or(1, |count| count.parse().unwrap());
    (first..first + databases).for_each(|seed| agrees(seed, "160"));
}

#[test]
fn a_change_that_one_side_has_not_got_is_noticed() {
    if !has_python() {
        return;
    }
    let output = compare(FIXED[0], &["160", "3"]);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success() && printed.contains("differs"), "{printed}");
}
