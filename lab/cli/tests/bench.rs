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
