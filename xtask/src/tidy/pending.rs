//! Crates and pages that do not keep a rule yet.
//!
//! A crate's Cargo.toml names the checks that it is not converted to (`[package.metadata.tidy]`,
//! `pending = ["circles"]`); the root's names pages outside of the crates
//! (`[workspace.metadata.tidy.pending]`, `words = ["README.md"]`). Their findings of that check are left
//! out. One that has none left is a finding itself: the lists only shrink.

use toml::{Table, Value};

use super::finding::Finding;
use super::tree::{Page, Tree};

const FIX: &str = "take it off the list: it keeps the rule";

/// The findings of `check`, without those of crates and pages that are still to be converted.
pub(super) fn apply(tree: &Tree, check: &str, mut findings: Vec<Finding>) -> Vec<Finding> {
    let mut clean = Vec::new();
    for manifest in &tree.manifests {
        for (line, path) in pending(manifest, check) {
            let count = findings.len();
            findings.retain(|finding| {
                finding.path != path && !finding.path.starts_with(&format!("{path}/"))
            });
            if findings.len() == count {
                let what = format!("`{path}` is on the list of `{check}`");
                clean.push(Finding { path: manifest.path.clone(), line, what, fix: FIX });
            }
        }
    }
    findings.extend(clean);
    findings
}

/// The paths that a manifest says are not converted to `check`, with the line that names the check.
fn pending(manifest: &Page, check: &str) -> Vec<(usize, String)> {
    let Ok(table) = manifest.text.parse::<Table>() else { return Vec::new() };
    let strings = |value: Option<&Value>| {
        let values = value.and_then(Value::as_array).into_iter().flatten();
        values.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
    };
    let tidy = |owner: &str| table.get(owner)?.get("metadata")?.get("tidy")?.get("pending");
    let line = |word: &str| {
        let line = manifest.text.lines().position(|line| line.contains(&format!("\"{word}\"")));
        line.map_or(1, |at| at + 1)
    };
    let folder = manifest.path.trim_end_matches("Cargo.toml").trim_end_matches('/');
    let mut found = Vec::new();
    if strings(tidy("package")).iter().any(|name| name == check) {
        found.push((line(check), folder.to_owned()));
    }
    let pages = strings(tidy("workspace").and_then(|pending| pending.get(check)));
    found.extend(pages.into_iter().map(|page| (line(&page), page)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::finding::lines;

    fn finding(path: &str) -> Finding {
        Finding { path: path.to_owned(), line: 7, what: String::new(), fix: "" }
    }

    fn tree(pending: &str) -> Tree {
        let root = "[workspace.metadata.tidy.pending]\nwords = [\n    \"README.md\",\n]\n";
        Tree::of(&[("Cargo.toml", root), ("crates/a/Cargo.toml", pending)])
    }

    #[test]
    fn findings_of_what_is_not_converted_are_left_out() {
        let tree = tree("[package.metadata.tidy]\npending = [\"circles\", \"words\"]\n");
        let found = ["crates/a/src/lib.rs", "crates/ab/src/lib.rs", "README.md", "STYLE.md"];
        let left = apply(&tree, "words", Vec::from(found.map(finding)));
        assert_eq!(left, [finding("crates/ab/src/lib.rs"), finding("STYLE.md")]);
        let left = apply(&tree, "folders", vec![finding("crates/a/src/lib.rs")]);
        assert_eq!(left.len(), 1);
    }

    #[test]
    fn what_is_converted_may_not_stay_on_the_list() {
        let tree = tree("[package.metadata.tidy]\npending = [\"circles\"]\n");
        assert_eq!(lines(&apply(&tree, "circles", vec![finding("crates/b/src/lib.rs")])), [7, 2]);
        assert_eq!(lines(&apply(&tree, "words", Vec::new())), [3]);
    }
}
