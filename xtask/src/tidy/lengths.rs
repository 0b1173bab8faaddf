//! How long files and functions may be.
//!
//! Rule: a Rust file has at most 800 lines, unless one of its first 40 says `//! Long because:` and
//! why. A function has at most 70 lines from `fn` to its closing brace. There are no exceptions to
//! the second; [`ALLOWED`] is empty and is meant to stay so.

use super::finding::Finding;
use super::tree::Tree;

const FILE_LINES_MAX: usize = 800;
const FUNCTION_LINES_MAX: usize = 70;
const HEAD_LINES: usize = 40;

/// `(path, function)` that may be longer.
const ALLOWED: &[(&str, &str)] = &[];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &tree.sources {
        let mut find = |line, what, fix| {
            findings.push(Finding { path: source.path.clone(), line, what, fix });
        };
        let count = source.text.lines().count();
        let mut head = source.text.lines().take(HEAD_LINES);
        if count > FILE_LINES_MAX && !head.any(|line| line.starts_with("//! Long because:")) {
            let what = format!("{count} lines in one file, more than {FILE_LINES_MAX}");
            find(1, what, "split it by type, or say `//! Long because: …` at its head");
        }
        for function in source.functions() {
            let count = function.lines.clone().count();
            let allowed = ALLOWED.contains(&(source.path.as_str(), function.name.as_str()));
            if count > FUNCTION_LINES_MAX && !allowed {
                let what = format!(
                    "`{}` has {count} lines, more than {FUNCTION_LINES_MAX}",
                    function.name
                );
                find(*function.lines.start(), what, "split it where it changes its subject");
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::finding::lines;

    fn check_one(text: &str) -> Vec<usize> {
        lines(&check(&Tree::of(&[("crates/kv/src/lib.rs", text)])))
    }

    #[test]
    fn good() {
        assert!(check_one(&format!("fn f() {{{}}}", "\n".repeat(69))).is_empty());
        assert!(check_one(&"//! x\n".repeat(800)).is_empty());
        assert!(
            check_one(&format!("//! Long because: a table.\n{}", "//! x\n".repeat(900))).is_empty()
        );
    }

    #[test]
    fn bad() {
        assert_eq!(check_one(&format!("\nfn f() {{{}}}", "\n".repeat(70))), [2]);
        assert_eq!(check_one(&"//! x\n".repeat(801)), [1]);
    }
}
