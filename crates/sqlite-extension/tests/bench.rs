//! The measurements of `scripts/bench/sqlite.py` run, and their rows are right.

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

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use host::{Folder, PYTHON, has_python, library};

/// What each contender does, and how fast it was: a figure above zero.
const LOADS: [(&str, &str); 11] = [
    ("commits of 1", "rows_s"),
    ("commits of 100", "rows_s"),
    ("commits of 1000", "rows_s"),
    ("commits of 10000", "rows_s"),
    ("mix", "tx_s"),
    ("updates", "rows_s"),
    ("reads", "rows_s"),
    ("scan", "rows_s"),
    ("reader alone", "rows_s"),
    ("reader beside", "p99_us"),
    ("writer beside", "rows_s"),
];

fn measure(folder: &Folder, words: &[&str]) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/bench/sqlite.py");
    let mut command = Command::new(PYTHON);
    command.arg(script).arg("--tiny").arg("--extension").arg(library().with_extension("so"));
    command.arg("--out").arg(&folder.0).arg("--disk").arg(&folder.0).args(words);
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}{errors}", String::from_utf8_lossy(&output.stdout));
    let page = std::fs::read_to_string(folder.0.join("sqlite.md")).unwrap();
    assert!(page.contains("it shows only that it runs"), "{page}");
    serde_json::from_slice(&std::fs::read(folder.0.join("sqlite.json")).unwrap()).unwrap()
}

#[test]
fn every_contender_does_every_load_and_what_is_missing_is_said() {
    if !has_python() {
        return;
    }
    let folder = Folder::new("bench");
    let contenders = "tembo FULL,wal FULL,journal FULL";
    let is_there = Path::new("/dev/shm").is_dir();
    let places = if is_there { "disk,memory" } else { "disk" };
    let words = ["--contenders", contenders, "--places", places, "--tembo", "/nonexistent/tembo"];
    let found = measure(&folder, &words);
    let rows = found["rows"].as_array().unwrap();
    for place in places.split(',') {
        for (load, figure) in LOADS {
            let of: Vec<&Value> =
                rows.iter().filter(|row| row["place"] == place && row["load"] == load).collect();
            let names: BTreeSet<&str> =
                of.iter().map(|row| row["contender"].as_str().unwrap()).collect();
            for wanted in contenders.split(',') {
                let has = names.iter().any(|name| name.starts_with(wanted));
                assert!(has, "{place}, {load}: no {wanted} in {names:?}");
            }
            for row in of {
                assert!(row[figure].as_f64().unwrap() > 0.0, "{row}");
                assert_eq!(row["right"], true, "{row}");
            }
        }
    }
    let bytes: Vec<&Value> = rows.iter().filter(|row| row["load"] == "bytes").collect();
    assert_eq!(bytes.len(), 3, "{bytes:?}");
    // A row that was changed is written at least once, whichever way.
    assert!(bytes.iter().all(|row| row["wchar"].as_f64().unwrap() > 100.0), "{bytes:?}");
    let left_out = found["left_out"].to_string();
    assert!(left_out.contains("there is no /nonexistent/tembo"), "{left_out}");
    assert!(left_out.contains("there is no checkout"), "{left_out}");
}

#[test]
fn figures_of_wrong_rows_are_not_printed() {
    if !has_python() {
        return;
    }
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/bench");
    // A worker that loses a row of each commit.
    let lossy = "
import sqlite_worker
class Lossy(sqlite_worker.Worker):
    def execute(self, sql, values=()):
        return super().execute('SELECT 1') if sql.startswith('INSERT') else super().execute(sql, values)
worker = Lossy(None)
worker.open('file::memory:', None, 'OFF')
assert not worker.commits(rows=1, commits=3)['right']
worker = sqlite_worker.Worker(None)
worker.open('file::memory:', None, 'OFF')
assert worker.commits(rows=1, commits=3)['right']
worker.tpcc_fill((1, 10, 100))
assert worker.tpcc(20, (1, 10, 100))['right']
worker.execute('UPDATE district SET ytd = ytd + 1 WHERE d = 3')
assert not worker.tpcc(20, (1, 10, 100))['right']
";
    let done =
        Command::new(PYTHON).args(["-c", lossy]).env("PYTHONPATH", scripts).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}
