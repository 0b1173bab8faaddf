//! What every Cargo.toml says.
//!
//! Rule: a crate has a description of at least a few words, and takes the workspace's lints.

use toml::{Table, Value};

use super::finding::Finding;
use super::tree::Tree;

const DESCRIPTION_SIZE_MIN: usize = 12;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for manifest in &tree.manifests {
        let Ok(table) = manifest.text.parse::<Table>() else { continue };
        let Some(package) = table.get("package") else { continue };
        let mut find = |what: &str, fix| {
            let path = manifest.path.clone();
            findings.push(Finding { path, line: 1, what: what.into(), fix });
        };
        let description = package.get("description").and_then(Value::as_str).unwrap_or_default();
        if description.trim().len() < DESCRIPTION_SIZE_MIN {
            find("the crate has no description", "say in one line what the crate is for");
        }
        let lints = table.get("lints").and_then(|lints| lints.get("workspace"));
        if lints.and_then(Value::as_bool) != Some(true) {
            find("the crate does not take the workspace's lints", "add `[lints] workspace = true`");
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good() {
        let text = "[package]\ndescription = \"Bytes that survive\"\n[lints]\nworkspace = true\n";
        assert_eq!(check(&Tree::of(&[("crates/pmem/Cargo.toml", text)])), []);
        assert_eq!(check(&Tree::of(&[("Cargo.toml", "[workspace]\n")])), []);
    }

    #[test]
    fn bad() {
        let text = "[package]\ndescription = \"\"\n";
        assert_eq!(check(&Tree::of(&[("crates/pmem/Cargo.toml", text)])).len(), 2);
    }
}
