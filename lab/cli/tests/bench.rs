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

/// A run that has no time left, and a contender that is not in this build, are named.
#[test]
fn a_disk_bench_names_what_it_has_not_measured() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().to_str().unwrap();
    let words = ["bench", "disk", "--quick", "--force", "--path", path, "--parts", "churn"];
    let chosen = ["--contenders", "tembo", "--within", "0.00000001", "--out", path];
    let output = run(&[&words[..], &chosen].concat());
    assert!(output.status.success(), "{output:?}");
    let page = std::fs::read_to_string(folder.path().join("disk-quick.md")).unwrap();
    let line = "- round 1: churn, 1024 B × 2, Tembo: the time of the run was over";
    assert!(page.contains("Not measured:") && page.contains(line), "{page}");
    let report = std::fs::read(folder.path().join("disk-quick.json")).unwrap();
    let report = serde_json::from_slice::<Value>(&report).unwrap();
    assert_eq!(report["cells"].as_array().unwrap().len(), 0);
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

/// Into a pipe too there is a line for each experiment that was run now, then the count and the page; Markdown goes
/// into its file alone.
#[test]
fn a_run_prints_what_was_run_now_and_where_the_page_is() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (out, memory) = (path("out"), path("memory"));
    std::fs::create_dir(&memory).unwrap();
    let run = |names: &[&str]| {
        let options = ["--memory", &memory, "--disk", &memory, "--out", &out];
        let mut command = Command::new(env!("CARGO_BIN_EXE_tembo-lab"));
        // One of them counts the lines of the source, which it looks for in the folder where it is started.
        command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let output = command.arg("bench").args(names).args(options).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let first = run(&["thesis-t5.1", "--quick"]);
    let second = run(&["medium", "--quick"]);
    let report = std::fs::read(folder.path().join("out/results.json")).unwrap();
    let report = serde_json::from_slice::<Value>(&report).unwrap();
    let all = report["findings"].as_array().unwrap();
    for (name, printed) in [("thesis-t5.1", &first), ("medium", &second)] {
        let own = all.iter().find(|finding| finding["name"] == name).unwrap();
        let line = format!("{name}  {}", own["sentence"].as_str().unwrap());
        let lines: Vec<&str> = printed.lines().collect();
        assert_eq!(lines[0], line);
        assert_eq!(lines.len(), 3, "{printed}");
        assert!(lines[1].contains(" claims of the documents hold on the page, "), "{printed}");
        assert_eq!(lines[2], format!("the page is {out}/index.html"));
    }
    // The page again: nothing was run.
    assert_eq!(run(&["page"]).lines().count(), 2);
    let markdown = std::fs::read_to_string(folder.path().join("out/experiments.md")).unwrap();
    assert!(markdown.starts_with("# ") && markdown.contains("`tembo-lab bench medium`"));
}

/// Without a checkout there are our own contenders, and a reason for each rival that is not there.
#[test]
fn a_rival_that_is_missing_is_named_and_ours_are_measured() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (pools, build, absent) = (path("pools"), path("build"), path("absent"));
    std::fs::create_dir(&pools).unwrap();
    let words = ["bench", "rivals-index", "--json", "--no-instructions", "--threads", "1,2"];
    let sizes = ["--keys", "10000", "--string-keys", "10000", "--rounds", "2"];
    let chosen = ["--contenders", "wall,bare,store,lbtree,part"];
    let places = ["--path", &pools, "--build", &build, "--lbtree", &absent];
    let output = run(&[&words[..], &sizes, &chosen, &places].concat());
    assert!(output.status.success(), "{output:?}");
    let report = serde_json::from_slice::<Value>(&output.stdout).unwrap();
    let missing = report["missing"].as_array().unwrap();
    let why = |name: &str| {
        let found = missing.iter().find(|missing| missing["candidate"] == name).unwrap();
        found["why"].as_str().unwrap()
    };
    assert_eq!(missing.len(), 2, "{missing:?}");
    assert!(why("lbtree").contains("has no lbtree-src/lbtree.cc"), "{}", why("lbtree"));
    assert_eq!(why("part"), "no --recipe was given");
    let tables = report["tables"].as_array().unwrap();
    assert_eq!(tables.len(), 2);
    for table in tables {
        let is_strings = table["is_strings"] == true;
        let ours = if is_strings { &["store"][..] } else { &["wall", "bare", "store"] };
        assert_eq!(table["candidates"], Value::from(ours));
        let cells = table["cells"].as_array().unwrap();
        let count = |name: &str| cells.iter().filter(|cell| cell["candidate"] == name).count();
        assert_eq!(count("store"), 8);
        assert_eq!(count("wall"), if is_strings { 0 } else { 4 });
        assert!(cells.iter().all(|cell| cell["cpu"]["median"].as_f64().unwrap() > 0.0));
        // Of the bare index and the store; of the wall there are no lookups.
        assert_eq!(table["pairs"].as_array().unwrap().len(), if is_strings { 0 } else { 8 });
        let latencies = table["latencies"].as_array().unwrap();
        assert_eq!(latencies.len(), if is_strings { 0 } else { 3 });
        assert!(latencies.iter().all(|of| of["max_ns"].as_u64() >= of["median_ns"].as_u64()));
        let ratios = table["ratios"].as_array().unwrap();
        assert_eq!(ratios.len(), if is_strings { 0 } else { 8 });
    }
    assert_eq!(std::fs::read_dir(&pools).unwrap().count(), 0);
}
