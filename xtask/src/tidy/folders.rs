//! A folder of modules is imported through its own file.
//!
//! Rule: no path in a file outside of `foo.rs` and `foo/` leads past `foo` into a module of its folder:
//! `crate::foo::Bar`, which `foo.rs` hands on, and never `crate::foo::bar::Bar`. Tests are left out.

use super::finding::Finding;
use super::modules::{Crate, Trespass};
use super::tree::Tree;

const FIX: &str =
    "let the folder's own file hand it on (`pub(crate) use`), and import it from there";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for house in Crate::all(tree) {
        for Trespass { path, line, folder, inside } in house.trespasses() {
            let what = format!("`{inside}` is imported past `{folder}`");
            findings.push(Finding { path, line, what, fix: FIX });
        }
    }
    findings.sort();
    findings.dedup();
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let files = [
            ("crates/a/src/lib.rs", "mod foo;\nmod user;\n"),
            (
                "crates/a/src/foo.rs",
                "mod bar;\nmod baz;\npub(crate) use self::bar::Bar;\nuse baz::Baz;\n",
            ),
            (
                "crates/a/src/foo/bar.rs",
                "use super::baz::Baz;\nuse crate::foo::baz;\npub(crate) struct Bar;\n",
            ),
            ("crates/a/src/foo/baz.rs", "pub(crate) struct Baz;\n"),
            ("crates/a/src/user.rs", text),
        ];
        check(&Tree::of(&files)).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn good() {
        let text = "use crate::foo::{self, Bar};\nfn f() { foo::Bar; crate::foo::Bar; }\n#[cfg(test)]\nmod tests { use crate::foo::baz::Baz; }\n";
        assert_eq!(found(text), Vec::<String>::new());
    }

    #[test]
    fn a_function_that_is_named_like_its_module_is_no_module() {
        let files = [
            ("crates/a/src/lib.rs", "mod foo;\npub use foo::bar;\n"),
            ("crates/a/src/foo.rs", "mod bar;\npub use bar::bar;\n"),
            ("crates/a/src/foo/bar.rs", "pub fn bar() {}\n"),
        ];
        assert_eq!(check(&Tree::of(&files)), []);
    }

    #[test]
    fn bad() {
        for text in [
            "use crate::foo::bar::Bar;\n",
            "use crate::foo::{Bar as B, bar};\n",
            "use super::foo::{\n    bar::{self, Bar},\n};\n",
            "fn f() -> crate::foo::baz::Baz { todo() }\n",
            "use crate::foo;\nfn f() { foo::baz::f() }\n",
        ] {
            let found = found(text);
            assert!(!found.is_empty(), "{text}");
            assert!(found[0].starts_with("crates/a/src/user.rs:"), "{}", found[0]);
        }
    }
}
