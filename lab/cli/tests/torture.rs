//! `tembo-lab torture`, briefly: `cargo xtask torture` takes longer.

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::path::Path;
use std::process::Command;

/// Runs it with these words; what it prints as JSON.
fn torture(words: &[&str]) -> serde_json::Value {
    let binary = env!("CARGO_BIN_EXE_tembo-lab");
    let output = Command::new(binary).arg("torture").args(words).arg("--json").output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn bank(folder: &Path, words: &[&str]) {
    let folder = tempfile::tempdir_in(folder).unwrap();
    let path = ["bank", "--path", folder.path().to_str().unwrap()];
    let few = ["--transfers", "2000", "--kills", "6", "--size", "1M", "--log-size", "2M"];
    let audited = torture(&[&path[..], &few, words].concat());
    assert!(audited["acknowledged"].as_u64().unwrap() >= 2000, "{audited}");
    assert!(audited["kills"].as_u64().unwrap() >= 6, "{audited}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_bank_on_a_disk_keeps_its_books() {
    bank(Path::new(env!("CARGO_TARGET_TMPDIR")), &["--domain", "logged"]);
}

#[test]
fn a_bank_in_persistent_memory_keeps_its_books() {
    let shm = Path::new("/dev/shm");
    if !shm.is_dir() {
        println!("SKIPPED: there is no /dev/shm");
        return;
    }
    for index in ["nvtree", "cdds"] {
        bank(shm, &["--domain", "flush", "--index", index]);
    }
}

#[test]
fn banks_in_two_stores_of_one_pool_keep_their_books() {
    let words = ["--stores", "2", "--threads", "3", "--domain"];
    bank(Path::new(env!("CARGO_TARGET_TMPDIR")), &[&words[..], &["logged"]].concat());
    let shm = Path::new("/dev/shm");
    if shm.is_dir() {
        bank(shm, &[&words[..], &["flush"]].concat());
    }
}

fn programs(folder: &Path, domain: &str) {
    let folder = tempfile::tempdir_in(folder).unwrap();
    let path = ["heap", "--path", folder.path().to_str().unwrap(), "--domain", domain];
    let few = ["--programs", "1500", "--kills", "5", "--threads", "3", "--seed", "3"];
    let audited = torture(&[&path[..], &few].concat());
    assert!(audited["acknowledged"].as_u64().unwrap() >= 1500, "{audited}");
    assert!(audited["programs"].as_u64() >= audited["acknowledged"].as_u64(), "{audited}");
    assert!(audited["kills"].as_u64().unwrap() >= 5, "{audited}");
    assert_eq!(audited["seed"], 3);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_heap_holds_what_its_programs_make() {
    programs(Path::new(env!("CARGO_TARGET_TMPDIR")), "logged");
    let shm = Path::new("/dev/shm");
    if shm.is_dir() {
        programs(shm, "flush");
    }
}

#[test]
fn histories_are_judged() {
    for level in ["single", "snapshot", "serialisable"] {
        let few = ["histories", "--index", "nvtree", "--level", level, "--operations", "20000"];
        let judged = torture(&few);
        assert!(judged["operations"].as_u64().unwrap() >= 20_000, "{judged}");
        assert_eq!(judged["violation"], serde_json::Value::Null);
    }
}

/// The server is the binary `tembo`, which `cargo test --workspace` builds before this runs.
#[test]
fn histories_of_a_server_are_judged() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().to_str().unwrap();
    let few = ["histories", "--index", "nvtree", "--level", "served", "--operations", "5000"];
    for words in [&[][..], &["--kills", "2", "--sync", "os", "--path", path]] {
        let judged = torture(&[&few, words].concat());
        assert!(judged["operations"].as_u64().unwrap() > 4000, "{judged}");
        assert_eq!(judged["violation"], serde_json::Value::Null);
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
