//! `tembo-lab bench durablefs` at its smallest, and what is left of it.
//!
//! The mounts need FUSE and the binary `tembo`, which `cargo test --workspace` builds before this runs; without them the run
//! says so and measures the rest.

#![allow(clippy::unwrap_used, missing_docs)]

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

fn folder() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// The report of a run of `bench`.
fn report(folder: &Path) -> Value {
    let report = fs::read(folder.join("out/results.json")).unwrap();
    serde_json::from_slice(&report).unwrap()
}

/// A run whose disk, memory and page are below a folder.
fn bench(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tembo-lab"));
    command.arg("bench").args(words);
    for place in ["disk", "memory", "out"] {
        fs::create_dir_all(folder.join(place)).unwrap();
        command.arg(format!("--{place}")).arg(folder.join(place));
    }
    command
}

/// Mounts below a folder.
fn mounts(folder: &Path) -> Vec<String> {
    let all = fs::read_to_string("/proc/mounts").unwrap();
    let points = all.lines().filter_map(|line| line.split(' ').nth(1));
    points.filter(|point| Path::new(point).starts_with(folder)).map(str::to_owned).collect()
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().count() == 0
}

#[test]
fn file_systems_are_measured_and_nothing_is_left() {
    let folder = folder();
    let mut command = bench(folder.path(), &["durablefs", "--quick", "--tiny"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let report = report(folder.path());
    let has_git = Command::new("git").arg("--version").output().is_ok();
    let findings = report["findings"].as_array().unwrap();
    for name in ["3.3", "3.8", "small", "stream", "trees", "versions"] {
        let name = format!("durablefs-{name}");
        let Some(finding) = findings.iter().find(|finding| finding["name"] == *name) else {
            assert!(name == "durablefs-trees" && !has_git, "{name}: {}", report["missing"]);
            continue;
        };
        let series = finding["charts"][0]["series"].as_array().unwrap();
        let own = |name: &str| series.iter().find(|series| series["name"] == name);
        let ext4 = own("ext4").unwrap()["points"].as_array().unwrap();
        assert!(ext4.iter().all(|point| point["value"]["median"].as_f64().unwrap() > 0.0));
        let is_of_programs = name == "durablefs-trees";
        assert_eq!(own("Tembo library, disk").is_some(), !is_of_programs, "{name}");
        let notes = finding["notes"].as_array().unwrap();
        let left_out = |name: &str| {
            let begin = format!("{name} is left out");
            notes.iter().any(|note| note.as_str().unwrap().starts_with(&begin))
        };
        if name != "durablefs-versions" {
            let mount = "Tembo mount, disk";
            assert!(own(mount).is_some() != left_out(mount), "{name}: {notes:?}");
        }
    }
    assert_eq!(mounts(folder.path()), [""; 0]);
    assert!(is_empty(&folder.path().join("disk")) && is_empty(&folder.path().join("memory")));
}

/// The folder is another repository, or none: what is measured is the program, of the commit that it was built from.
#[test]
fn a_report_names_the_commit_of_the_program_and_not_of_the_folder() {
    let folder = folder();
    // Of no commit yet.
    let _ = Command::new("git").args(["init", "-q"]).arg(folder.path()).status();
    let mut command = bench(folder.path(), &["medium", "--quick"]);
    let output = command.current_dir(folder.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let report = report(folder.path());
    assert_eq!(report["commit"], env!("TEMBO_COMMIT"));
    assert_eq!(report["findings"][0]["measured"]["commit"], env!("TEMBO_COMMIT"));
}

/// Each row of `medium` has a figure of this run beside what the emulation was asked for. How near they are is not
/// judged here, for a loaded machine may be late; and the page does not count them among the documents' claims.
#[test]
fn what_the_emulation_aims_at_is_no_claim_of_a_document() {
    let folder = folder();
    let output = bench(folder.path(), &["medium", "--quick"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let report = report(folder.path());
    let rows = report["findings"][0]["claims"].as_array().unwrap();
    // 1, 8 and 47 lines, one fence and a fence a line, STT-RAM and PCM.
    assert_eq!(rows.len(), 3 * 2 * 2);
    for row in rows {
        let [aim, here] = ["document", "here"].map(|name| row[name].as_str().unwrap());
        assert!(aim.starts_with("aim: ") && aim.ends_with(" ns within 10 %"), "{aim}");
        // The median, how far it is off, and the least and the most of all openings.
        assert!(here.contains(" ns (") && here.contains(" %; ") && here.ends_with(')'), "{here}");
    }
    let page = fs::read_to_string(folder.path().join("out/index.html")).unwrap();
    assert!(page.contains("aim: ") && !page.contains("id=claims"));
}

/// A quick run is a smoke test, and takes no full run's place: the file stays as it was.
#[test]
fn a_quick_run_does_not_write_over_a_full_one() {
    let folder = folder();
    let output = bench(folder.path(), &["medium", "--quick"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let mut full = report(folder.path());
    assert_eq!(full["quick"], true);
    full["quick"] = false.into();
    let path = folder.path().join("out/results.json");
    fs::write(&path, full.to_string()).unwrap();
    let output = bench(folder.path(), &["medium", "--quick"]).output().unwrap();
    // Wrong usage.
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("is of a full run"), "{output:?}");
    assert_eq!(report(folder.path()), full);
}
