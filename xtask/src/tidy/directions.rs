//! Which room of the house may import which.
//!
//! Rule: the `[dependencies]` and `[build-dependencies]` of a crate, for every target, name of our
//! crates only those in [`MAY_IMPORT`]. `[dev-dependencies]` of a product crate may add what judges it
//! (`sim`, `torture`) and the crate itself. A room that the table does not know is a finding.

use toml::{Table, Value};

use super::finding::Finding;
use super::tree::{Page, Tree};

/// DESIGN's table of directions, by folder. `None`: anything.
const MAY_IMPORT: &[(&str, Option<&[&str]>)] = &[
    ("crates/pmem", Some(&[])),
    ("crates/pool", Some(&["pmem"])),
    ("crates/heap-derive", Some(&[])),
    ("crates/heap", Some(&["pmem", "pool", "heap-derive"])),
    ("crates/index", Some(&["pmem", "pool"])),
    ("crates/kv", Some(&["pmem", "pool", "index"])),
    ("crates/array", Some(&["kv"])),
    ("crates/fs", Some(&["kv"])),
    ("crates/fs-fuse", Some(&["fs", "kv"])),
    ("crates/sqlite", Some(&["array", "kv"])),
    ("crates/sqlite-extension", Some(&["sqlite", "kv"])),
    ("crates/nbd", Some(&["array", "kv"])),
    ("crates/server", Some(&["kv"])),
    ("crates/cluster", Some(&["kv"])),
    ("crates/lang", Some(&["heap"])),
    ("crates/tembo", Some(&["kv", "heap", "array", "fs"])),
    ("crates/cli", Some(PRODUCT)),
    ("lab/sim", Some(&["pmem"])),
    ("lab/torture", None),
    ("lab/mars", Some(&["pmem"])),
    ("lab/bench", None),
    ("lab/cli", None),
];

/// The crates of the product: all that the binary `tembo` may link.
const PRODUCT: &[&str] = &[
    "pmem", "pool", "heap", "index", "kv", "array", "fs", "fs-fuse", "sqlite", "nbd", "server",
    "cluster", "lang",
];

const FIX: &str = "turn the dependency round, or move the code to where it may be used";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for manifest in &tree.manifests {
        let Some(room) = room(&manifest.path) else { continue };
        let Ok(table) = manifest.text.parse::<Table>() else {
            findings.push(finding(
                manifest,
                "",
                "this is not TOML".into(),
                "let cargo read it first",
            ));
            continue;
        };
        let Some((_, allowed)) = MAY_IMPORT.iter().find(|(name, _)| *name == room) else {
            let what = format!("the room `{room}` is not in the table of directions");
            findings.push(finding(manifest, "", what, "add it to DESIGN and to MAY_IMPORT"));
            continue;
        };
        let Some(allowed) = allowed else { continue };
        for (kind, import) in imports(&table) {
            let name = room.rsplit('/').next().unwrap_or_default();
            let fine = allowed.contains(&import.as_str())
                || (kind == "dev-dependencies"
                    && ["sim", "torture", name].contains(&import.as_str()));
            if !fine {
                let what = format!("`{room}` may not import `{import}` ({kind})");
                findings.push(finding(manifest, &import, what, FIX));
            }
        }
    }
    findings
}

fn finding(manifest: &Page, word: &str, what: String, fix: &'static str) -> Finding {
    let line = manifest.text.lines().position(|line| line.contains(&format!("tembo-{word}")));
    Finding { path: manifest.path.clone(), line: line.map_or(1, |at| at + 1), what, fix }
}

/// `crates/kv` for `crates/kv/Cargo.toml`.
fn room(path: &str) -> Option<&str> {
    let room = path.strip_suffix("/Cargo.toml")?;
    ["crates/", "lab/"].iter().any(|folder| room.starts_with(folder)).then_some(room)
}

/// Our crates among the dependencies, as rooms, each with the kind of the dependency.
fn imports(table: &Table) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    let targets = table.get("target").and_then(Value::as_table);
    let tables =
        targets.into_iter().flat_map(|targets| targets.values()).filter_map(Value::as_table);
    for table in std::iter::once(table).chain(tables) {
        for kind in ["dependencies", "build-dependencies", "dev-dependencies"] {
            let Some(dependencies) = table.get(kind).and_then(Value::as_table) else { continue };
            for (key, value) in dependencies {
                // A renamed dependency names its package.
                let package = value.get("package").and_then(Value::as_str).unwrap_or(key);
                if package == "tembo" {
                    found.push((kind, "tembo".to_owned()));
                } else if let Some(room) = package.strip_prefix("tembo-") {
                    found.push((kind, room.to_owned()));
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_one(path: &str, text: &str) -> Vec<Finding> {
        check(&Tree::of(&[(path, text)]))
    }

    #[test]
    fn good() {
        let text = "[dependencies]\ntembo-pool.workspace = true\ncrc32c = \"1\"\n[dev-dependencies]\ntembo-sim.workspace = true\n";
        assert_eq!(check_one("crates/index/Cargo.toml", text), []);
        assert_eq!(check_one("crates/cli/Cargo.toml", "[dependencies]\ntembo-kv = \"1\"\n"), []);
        assert_eq!(check_one("xtask/Cargo.toml", "[dependencies]\n"), []);
        assert_eq!(check_one("lab/bench/Cargo.toml", "[dependencies]\ntembo-kv = \"1\"\n"), []);
    }

    #[test]
    fn bad() {
        let found =
            check_one("crates/pool/Cargo.toml", "[dependencies]\ntembo-kv.workspace = true\n");
        assert_eq!(
            found[0].to_string(),
            format!(
                "crates/pool/Cargo.toml:2: `crates/pool` may not import `kv` (dependencies) — {FIX}"
            )
        );
        let renamed = "[target.'cfg(unix)'.dependencies]\nx = { package = \"tembo-server\" }\n";
        assert_eq!(check_one("crates/kv/Cargo.toml", renamed).len(), 1);
        assert_eq!(check_one("crates/attic/Cargo.toml", "").len(), 1);
        assert_eq!(
            check_one("lab/sim/Cargo.toml", "[dependencies]\ntembo-pool = \"1\"\n").len(),
            1
        );
        for lab in ["sim", "torture", "bench", "lab"] {
            let text = format!("[dependencies]\ntembo-{lab}.workspace = true\n");
            assert_eq!(check_one("crates/cli/Cargo.toml", &text).len(), 1, "{lab}");
        }
        assert_eq!(
            check_one("crates/pmem/Cargo.toml", "[dependencies]\ntembo-sim = \"1\"\n").len(),
            1
        );
    }
}
