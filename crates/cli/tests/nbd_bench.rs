//! The measurements of `scripts/bench/nbd.py` run, and what is written is what is read.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, missing_docs)]

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Runs the script with programs from a path; what it has found.
fn measure(path: &str, words: &[&str]) -> (Value, String) {
    let folder = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/bench/nbd.py");
    let mut command = Command::new("/usr/bin/python3");
    command.arg(script).arg("--tiny").args(["--tembo", env!("CARGO_BIN_EXE_tembo")]).args(words);
    command.arg("--out").arg(folder.path()).arg("--disk").arg(folder.path());
    let output = command.env("PATH", path).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}{errors}", String::from_utf8_lossy(&output.stdout));
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    (serde_json::from_str(&read("nbd.json")).unwrap(), read("nbd.md"))
}

#[test]
fn every_server_does_every_load_and_what_is_missing_is_said() {
    if !Path::new("/usr/bin/python3").exists() {
        println!("not tried: there is no /usr/bin/python3");
        return;
    }
    let (found, page) = measure(&std::env::var("PATH").unwrap(), &["--sizes", "4k,1m"]);
    let (left_out, rows) = (&found["left_out"], found["rows"].as_array().unwrap());
    if left_out["all"].is_string() {
        assert!(rows.is_empty() && page.contains("there is no fio"), "{page}");
        return;
    }
    let mut servers = vec!["tembo"];
    if left_out["nbdkit file"].is_null() {
        servers.push("nbdkit file");
    }
    // Six loads in two sizes.
    assert_eq!(rows.len(), 12 * servers.len(), "{page}");
    for row in rows {
        assert!(servers.iter().any(|server| row["server"] == *server), "{row}");
        assert!(row["ios_s"].as_f64().unwrap() > 0.0, "{row}");
        if row["load"].as_str().unwrap().contains("writes") {
            // Through the socket, to the file.
            assert!(row["written"].as_f64().unwrap() > 0.5, "{row}");
        }
    }
}

#[test]
fn without_a_client_nothing_is_measured_and_that_is_said() {
    if !Path::new("/usr/bin/python3").exists() {
        println!("not tried: there is no /usr/bin/python3");
        return;
    }
    let (found, page) = measure("/nonexistent", &[]);
    assert_eq!(found["rows"], Value::Array(Vec::new()));
    assert!(page.contains("there is no fio with the engine nbd"), "{page}");
    assert!(page.contains("there is no nbdkit"), "{page}");
}
