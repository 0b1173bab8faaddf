//! Which room of the house may import which.
//!
//! Rule: the `[dependencies]` and `[build-dependencies]` of a crate, for every target, name of our
//! crates only those in [`MAY_IMPORT`]. `[dev-dependencies]` may add `sim` and `torture`, and the
//! crate itself. A room that the table does not know is a finding.

use toml::{Table, Value};

use super::{Finding, Page, Tree};

/// DESIGN's table of directions, by folder below `crates/`. `None`: anything.
const MAY_IMPORT: &[(&str, Option<&[&str]>)] = &[
    ("pmem", Some(&[])),
    ("sim", Some(&["pmem"])),
    ("pool", Some(&["pmem"])),
    ("heap-derive", Some(&[])),
    ("heap", Some(&["pmem", "pool", "heap-derive"])),
    ("index", Some(&["pmem", "pool"])),
    ("array", Some(&["pmem", "pool"])),
    ("fs", Some(&["pmem", "pool"])),
    ("fs-fuse", Some(&["fs"])),
    ("fs-preload", Some(&["fs"])),
    ("kv", Some(&["pmem", "pool", "index"])),
    ("server", Some(&["kv"])),
    ("cluster", Some(&["kv"])),
    ("lang", Some(&["heap"])),
    ("tembo", Some(&["kv", "heap"])),
    ("cli", None),
    ("bench", None),
    ("torture", None),
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
            let fine = allowed.contains(&import.as_str())
                || (kind == "dev-dependencies"
                    && ["sim", "torture", room].contains(&import.as_str()));
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

/// `kv` for `crates/kv/Cargo.toml`.
fn room(path: &str) -> Option<&str> {
    path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")
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
    }

    #[test]
    fn bad() {
        let found =
            check_one("crates/pool/Cargo.toml", "[dependencies]\ntembo-kv.workspace = true\n");
        assert_eq!(
            found[0].to_string(),
            format!("crates/pool/Cargo.toml:2: `pool` may not import `kv` (dependencies) — {FIX}")
        );
        let renamed = "[target.'cfg(unix)'.dependencies]\nx = { package = \"tembo-server\" }\n";
        assert_eq!(check_one("crates/kv/Cargo.toml", renamed).len(), 1);
        assert_eq!(check_one("crates/attic/Cargo.toml", "").len(), 1);
        assert_eq!(
            check_one("crates/pmem/Cargo.toml", "[dependencies]\ntembo-sim = \"1\"\n").len(),
            1
        );
    }
}
