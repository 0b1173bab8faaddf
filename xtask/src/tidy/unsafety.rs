//! Where `unsafe` may stand, and that it says why it is sound.
//!
//! Rule: the keyword `unsafe` appears only in the files of [`PLACES`]; and each has a comment with
//! `SAFETY:` (for an `unsafe fn` or trait, a doc section `# Safety` will do) in the block of
//! comments and attributes just above it, or just above the statement that it is part of. Function
//! pointer types (`unsafe fn(`) need none.

use super::finding::Finding;
use super::source::Source;
use super::tree::Tree;

/// The named places: prefixes of paths. DESIGN §3 says which rooms may be added.
const PLACES: &[&str] = &[
    "crates/pmem/src/",
    // A real fork.
    "crates/pmem/tests/fork.rs",
    // A stray store, in a child process.
    "crates/pmem/tests/protection.rs",
    "crates/sqlite/tests/rust_programs/main.rs",
    "crates/tembo/tests/fork.rs",
    "crates/index/src/simd.rs",
    // C boundary of the product.
    "crates/sqlite/src/",
    // C boundaries of rivals.
    "lab/bench/src/rival/berkeley.rs",
    "lab/bench/src/rival/pmemobj.rs",
    "lab/bench/src/rival/lmdb.rs",
    "lab/bench/src/rival/rocksdb.rs",
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &tree.sources {
        for (index, token) in source.tokens.iter().enumerate() {
            if token.text != "unsafe" || is_other_than_code(source, index) {
                continue;
            }
            let mut find = |what: &str, fix| {
                let path = source.path.clone();
                findings.push(Finding { path, line: token.line, what: what.into(), fix });
            };
            if !PLACES.iter().any(|place| source.path.starts_with(place)) {
                find("`unsafe` outside the named places", "do it through crates/pmem");
            }
            if !is_explained(source, token.line) {
                find("`unsafe` without its reason", "write `// SAFETY:` and why just above");
            }
        }
    }
    findings
}

/// A function pointer's type, an attribute's marker, or the name of a lint.
fn is_other_than_code(source: &Source, index: usize) -> bool {
    source.matches(index, &["unsafe", "fn", "("])
        || source.matches(index, &["unsafe", "extern", "\"C\"", "fn", "("])
        || source.matches(index, &["unsafe", "("])
}

fn is_explained(source: &Source, line: usize) -> bool {
    let mut number = line;
    while number > 1 {
        number -= 1;
        let above = source.line(number);
        if above.starts_with("//") {
            if above.contains("SAFETY:") || above.contains("# Safety") {
                return true;
            }
        } else if !above.starts_with("#[") && above.ends_with([';', '{', '}', ',']) {
            // The statement begins below; an attribute or an unfinished line continues it.
            return false;
        } else if above.is_empty() {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::finding::lines;

    const GOOD: &str = "
// SAFETY: in bounds.
#[allow(unsafe_code)]
let x = Ok(unsafe { 1 });
/// # Safety
/// The caller keeps `p` alive.
unsafe fn f(p: *const u8) {}
fn g(h: unsafe fn(u8), i: unsafe extern \"C\" fn(u8)) {}
// SAFETY: nothing in it is shared.
let y =
    unsafe { 2 };
let s = \"unsafe\";
";
    const BAD: &str = "
// SAFETY: of the line below only.
let a = unsafe { 1 };
let b = unsafe { 1 };
unsafe impl Send for T {}

unsafe extern \"C\" fn f() {}
";

    #[test]
    fn good() {
        assert_eq!(check(&Tree::of(&[("crates/pmem/src/region.rs", GOOD)])), []);
    }

    #[test]
    fn bad() {
        let found = check(&Tree::of(&[("crates/pmem/src/region.rs", BAD)]));
        assert_eq!(lines(&found), [4, 5, 7]);
        let found = check(&Tree::of(&[("crates/kv/src/lib.rs", GOOD)]));
        assert_eq!(lines(&found), [4, 7, 11]);
    }
}
