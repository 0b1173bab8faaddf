//! `tembo-lab bench`, briefly.

#![allow(clippy::unwrap_used, missing_docs)]

use std::process::{Command, Output};

use serde_json::Value;

fn run(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tembo-lab")).args(words).output().unwrap()
}

/// All contenders answer rightly, and a write of each durable one is fenced.
#[test]
fn a_quick_bench_has_figures_of_every_contender_and_leaves_nothing() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let output =
        run(&["bench", "nvtree", "--quick", "--json", "--path", folder.path().to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    let outcome = serde_json::from_slice::<Value>(&output.stdout).unwrap();
    let contenders = outcome["contenders"].as_array().unwrap();
    let cells = outcome["cells"].as_array().unwrap();
    for contender in contenders {
        let own = |operation: &str| {
            cells.iter().find(|c| c["contender"] == *contender && c["operation"] == operation)
        };
        let insert = own("insert").unwrap();
        assert!(insert["cpu"]["median"].as_f64().is_some_and(|rate| rate > 0.0), "{insert}");
        let fences = insert["fences"].as_f64().unwrap();
        assert_eq!(fences >= 1.0, *contender != "btreemap", "{insert}");
        assert_eq!(own("lookup").is_some(), *contender != "wall");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let unknown = run(&["bench", "nvtree", "--contenders", "wall,nobody"]);
    assert_eq!(unknown.status.code(), Some(2));
}

/// A quick run of the disk benchmark: what is loaded is there, in every part, after SIGKILL too.
#[test]
fn a_quick_disk_bench_loads_what_it_says_and_leaves_nothing() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().to_str().unwrap();
    let words = ["bench", "disk", "--quick", "--json", "--force", "--path", path];
    let chosen = ["--contenders", "tembo,tembo-cdds", "--values", "100,16K", "--ratios", "2"];
    let parts = ["--parts", "table,ycsb,churn,restart"];
    let output = run(&[&words[..], &chosen, &parts].concat());
    assert!(output.status.success(), "{output:?}");
    let report = serde_json::from_slice::<Value>(&output.stdout).unwrap();
    assert_eq!(report["quick"], true);
    let cells = report["cells"].as_array().unwrap();
    // Two tables and three other parts, of two contenders.
    assert_eq!(cells.len(), 10);
    for cell in cells {
        assert_eq!(cell["failure"], Value::Null, "{cell}");
        let number = |value: &Value| value.as_u64().unwrap();
        let (records, value_size) = (number(&cell["records"]), number(&cell["value_size"]));
        let load = &cell["phases"][0];
        assert_eq!(load["name"], "load");
        assert_eq!(number(&load["operations"]), records);
        assert_eq!(number(&load["payload_written"]), records * (16 + value_size));
        let figures = cell["figures"].as_array().unwrap();
        let has = |name: &str| figures.iter().any(|figure| figure["name"] == name);
        assert_eq!(has("the first get"), cell["part"] == "restart");
        assert_eq!(has("files to what is left, at once"), cell["part"] == "churn");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_disk_bench_refuses_a_folder_in_memory() {
    let memory = "/dev/shm";
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
    if !mounts.lines().any(|line| line.contains(" /dev/shm tmpfs ")) {
        return;
    }
    let output = run(&["bench", "disk", "--quick", "--path", memory]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("--force"));
}
