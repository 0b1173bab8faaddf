//! What must not stay in the code.
//!
//! Rule: no `todo!`, `unimplemented!` or `dbg!` in Rust, tests included, and no mark that something
//! is to be mended later in Rust or in a script: mend it, or open an issue and say what it is.

use super::finding::Finding;
use super::tree::Tree;

const MACROS: &[&str] = &["todo", "unimplemented", "dbg"];

/// Written in two parts, so that this file does not hold it.
const MARK: &str = concat!("FIX", "ME");

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &tree.sources {
        for (index, token) in source.tokens.iter().enumerate() {
            if MACROS.contains(&token.text.as_str()) && source.matches(index + 1, &["!"]) {
                findings.push(Finding {
                    path: source.path.clone(),
                    line: token.line,
                    what: format!("`{}!` left in the code", token.text),
                    fix: "finish it or take it out",
                });
            }
        }
    }
    let sources = tree.sources.iter().map(|source| (&source.path, &source.text));
    let scripts = tree.scripts.iter().map(|script| (&script.path, &script.text));
    for (path, text) in sources.chain(scripts) {
        for (index, _) in text.lines().enumerate().filter(|(_, line)| line.contains(MARK)) {
            findings.push(Finding {
                path: path.clone(),
                line: index + 1,
                what: format!("`{MARK}`"),
                fix: "mend it, or open an issue and say here what it is",
            });
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::finding::lines;

    #[test]
    fn good() {
        let text = "fn todo() { let dbg = \"todo!\"; }\n";
        assert_eq!(check(&Tree::of(&[("a.rs", text)])), []);
    }

    #[test]
    fn bad() {
        let text = "fn f() { todo!() }\nfn g() { dbg!(1); }\n";
        assert_eq!(lines(&check(&Tree::of(&[("a.rs", text)]))), [1, 2]);
        let text = format!("x = 1\n# {MARK} later\n");
        assert_eq!(lines(&check(&Tree::of(&[("a.py", &text)]))), [2]);
    }
}
