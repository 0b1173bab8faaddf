//! Byte layout is declared in one place a crate.
//!
//! Rule: `#[repr(C…)]`, `#[repr(packed…)]` and `pmem`'s `media! { … }` stand only in files named `format.rs`
//! (`repr(transparent)`, which `pmem`'s `Word` has, lays out nothing). Tests are exempt, and the structures of a C library in
//! the file of [`C_BOUNDARY`].

use super::finding::Finding;
use super::tree::Tree;

/// Its structures are in memory, and another's.
const C_BOUNDARY: &str = "crates/sqlite/src/ffi.rs";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in
        tree.sources.iter().filter(|source| source.stem() != "format" && source.path != C_BOUNDARY)
    {
        for (index, token) in source.tokens.iter().enumerate() {
            let close = source.tokens.get(index + 1).and_then(|open| open.close);
            let has_repr = source.matches(index, &["repr", "("])
                && close.is_some_and(|close| {
                    let mut inside = source.tokens[index..close].iter();
                    inside.any(|token| token.text == "C" || token.text == "packed")
                });
            let lays_out = has_repr || source.matches(index, &["media", "!", "{"]);
            if lays_out && !source.is_test(token.line) {
                findings.push(Finding {
                    path: source.path.clone(),
                    line: token.line,
                    what: "a byte layout outside a `format.rs`".into(),
                    fix: "move the struct to the crate's `format.rs`, or drop the `repr`",
                });
            }
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
        let text = "#[repr(C)]\nstruct S {}\n";
        assert_eq!(check(&Tree::of(&[("crates/pool/src/format.rs", text)])), []);
        assert_eq!(check(&Tree::of(&[(C_BOUNDARY, text)])), []);
        let text = "#[repr(transparent)]\nstruct W(u64);\n#[repr(u8)]\nenum E {}\n#[repr(align(64))]\nstruct L;\n";
        assert_eq!(check(&Tree::of(&[("crates/pmem/src/word.rs", text)])), []);
    }

    #[test]
    fn bad() {
        let text = "#[repr(C, align(64))]\nstruct S {}\n#[repr(packed)]\nstruct P;\n";
        assert_eq!(lines(&check(&Tree::of(&[("crates/pool/src/pool.rs", text)]))), [1, 3]);
        let text = "media! {\n    struct S { word: Word }\n}\n";
        assert_eq!(lines(&check(&Tree::of(&[("crates/pool/src/pool.rs", text)]))), [1]);
    }
}
