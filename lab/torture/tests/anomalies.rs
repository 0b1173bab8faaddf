//! Golden scripts: each anomaly, step by step, in both isolations, over each store that we have.
//!
//! A script that differs from what happened is printed as it should read.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};

use tembo_kv::{IndexKind, Options, PoolOptions, Store};
use tembo_torture::history::{Database, Fault, Script, Stored, Toy};

fn scripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/anomalies");
    let entries = std::fs::read_dir(folder).unwrap();
    let mut scripts: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    scripts.sort();
    assert!(scripts.len() >= 8);
    scripts
}

/// The scripts that differ from what happens over such a store, with what does happen.
fn differing<D: Database>(make: impl Fn() -> D) -> Vec<(String, String)> {
    let run = |path: PathBuf| {
        let script = Script::read(&std::fs::read_to_string(&path).unwrap());
        let shown = script.run(&make).err()?;
        Some((path.file_stem().unwrap().to_string_lossy().into_owned(), shown))
    };
    scripts().into_iter().filter_map(run).collect()
}

fn expect_all<D: Database>(make: impl Fn() -> D) {
    let differing = differing(make);
    let shown: Vec<String> =
        differing.iter().map(|(name, shown)| format!("--- {name}.script\n{shown}")).collect();
    assert!(differing.is_empty(), "{}", shown.join("\n"));
}

#[test]
fn the_toy_keeps_to_the_scripts() {
    expect_all(|| Toy::new(None));
}

#[test]
fn the_store_keeps_to_the_scripts() {
    for index in IndexKind::ORDERED {
        let pool = PoolOptions { size: 1 << 20, ..Options::new().pool_options() };
        let options = Options::new().pool(pool).index(index);
        let store = || Box::new(Store::volatile(&options).unwrap());
        expect_all(|| Stored::new(store(), "script").unwrap());
    }
}

#[test]
fn the_scripts_find_a_store_that_does_not_validate() {
    let of = |fault| -> Vec<String> {
        differing(|| Toy::new(Some(fault))).into_iter().map(|(name, _)| name).collect()
    };
    let skipped = of(Fault::ValidationSkipped);
    for name in ["dirty_write", "lost_update", "write_skew", "phantom_skew", "read_only"] {
        assert!(skipped.iter().any(|one| one == name), "{name} is not among {skipped:?}");
    }
    assert_eq!(of(Fault::PhantomCheckSkipped), ["phantom_skew"]);
    assert_eq!(of(Fault::OwnWritesMissing), ["own_writes"]);
}
