//! Files of a crate form no import circle.
//!
//! Rule: following the imports between the files of a crate (see `modules.rs`), no file comes back to
//! itself. A parent that uses its child and a child that uses its parent are a circle too.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::finding::Finding;
use super::modules::{Crate, Import};
use super::tree::Tree;

const FIX: &str = "move what both need into a file of its own, or hand it in";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for house in Crate::all(tree) {
        let imports = house.imports();
        for files in circles(&imports) {
            let arrows = shortest(&imports, &files);
            let shown: Vec<String> = arrows
                .iter()
                .map(|import| {
                    format!("{}:{} -> {} ({})", import.from, import.line, import.to, import.name)
                })
                .collect();
            let what = format!(
                "{} files of {} form a circle, for example {}",
                files.len(),
                house.place,
                shown.join(", ")
            );
            let (path, line) =
                arrows.first().map_or((String::new(), 1), |first| (first.from.clone(), first.line));
            findings.push(Finding { path, line, what, fix: FIX });
        }
    }
    findings
}

/// The sets of files that reach each other, of two and more.
pub(super) fn circles(imports: &[Import]) -> Vec<BTreeSet<&str>> {
    let (mut forth, mut back) = (BTreeMap::new(), BTreeMap::new());
    for import in imports {
        forth.entry(import.from.as_str()).or_insert_with(Vec::new).push(import.to.as_str());
        back.entry(import.to.as_str()).or_insert_with(Vec::new).push(import.from.as_str());
    }
    let mut found: Vec<BTreeSet<&str>> = Vec::new();
    for file in forth.keys().copied() {
        if found.iter().any(|circle| circle.contains(file)) {
            continue;
        }
        let circle: BTreeSet<&str> =
            reached(&forth, file).intersection(&reached(&back, file)).copied().collect();
        if circle.contains(file) {
            found.push(circle);
        }
    }
    found
}

/// What is reached from `start` by one arrow or more.
fn reached<'i>(arrows: &BTreeMap<&'i str, Vec<&'i str>>, start: &str) -> BTreeSet<&'i str> {
    let mut found = BTreeSet::new();
    let mut open = vec![start];
    while let Some(file) = open.pop() {
        for next in arrows.get(file).into_iter().flatten() {
            if found.insert(*next) {
                open.push(next);
            }
        }
    }
    found
}

/// The arrows of the shortest circle among these files.
fn shortest<'i>(imports: &'i [Import], files: &BTreeSet<&str>) -> Vec<&'i Import> {
    let inside: Vec<&Import> = imports
        .iter()
        .filter(|import| files.contains(import.from.as_str()) && files.contains(import.to.as_str()))
        .collect();
    let from =
        |file: &str| files.get(file).map(|start| way_back(&inside, start)).unwrap_or_default();
    let ways = files.iter().map(|file| from(file)).filter(|way| !way.is_empty());
    ways.min_by_key(Vec::len).unwrap_or_default()
}

/// The arrows of the shortest way from a file back to itself.
fn way_back<'i>(imports: &[&'i Import], start: &str) -> Vec<&'i Import> {
    let mut arrivals: BTreeMap<&str, &Import> = BTreeMap::new();
    let mut open = VecDeque::from([start]);
    while let Some(file) = open.pop_front() {
        for import in imports.iter().copied().filter(|import| import.from == file) {
            if !arrivals.contains_key(import.to.as_str()) {
                arrivals.insert(&import.to, import);
                open.push_back(&import.to);
            }
        }
    }
    let (mut way, mut file) = (Vec::new(), start);
    while let Some(import) = arrivals.get(file).copied() {
        way.push(import);
        file = &import.from;
        if file == start {
            break;
        }
    }
    way.reverse();
    way
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files)).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn good() {
        let files = [
            (
                "crates/a/src/lib.rs",
                "mod error;\nmod store;\npub use error::Error;\npub use store::{Store, Kind};\n",
            ),
            // It hands on what its child defines, and the child uses none of its own.
            (
                "crates/a/src/store.rs",
                "mod kind;\npub use kind::Kind;\nuse crate::Error;\npub struct Store(Error);\n#[cfg(test)]\nuse kind::Other;\n#[cfg(test)]\nmod tests;\n",
            ),
            ("crates/a/src/store/kind.rs", "use super::Store;\npub struct Kind(Store);\n"),
            ("crates/a/src/store/tests.rs", "use crate::store::Kind;\n"),
            (
                "crates/a/src/error.rs",
                "pub struct Error;\n#[cfg(test)]\nmod tests { use crate::Store; }\n",
            ),
        ];
        assert_eq!(found(&files), Vec::<String>::new());
    }

    #[test]
    fn two_files_that_use_each_other_are_found_through_what_is_handed_on() {
        let files = [
            (
                "crates/a/src/lib.rs",
                "mod a;\nmod b;\npub(crate) use a::A;\npub(crate) use b::{self as other, B};\n",
            ),
            ("crates/a/src/a.rs", "use crate::other::B;\npub struct A(B);\n"),
            (
                "crates/a/src/b.rs",
                "pub struct B;\nimpl B { fn f(&self) -> Option<crate::A> { None } }\n",
            ),
        ];
        assert_eq!(
            found(&files),
            [format!(
                "crates/a/src/a.rs:1: 2 files of crates/a form a circle, for example crates/a/src/a.rs:1 -> crates/a/src/b.rs (B), crates/a/src/b.rs:2 -> crates/a/src/a.rs (A) — {FIX}"
            )]
        );
    }

    #[test]
    fn a_parent_that_calls_its_child_which_uses_the_parent_is_found() {
        for call in ["child::f(&P)", "self::child::f(&P)"] {
            let parent = format!("mod child;\npub struct P;\nfn g() {{ {call} }}\n");
            let files = [
                ("xtask/src/main.rs", "mod p;\n"),
                ("xtask/src/p.rs", parent.as_str()),
                ("xtask/src/p/child.rs", "pub fn f(p: &super::P) {}\n"),
            ];
            assert_eq!(found(&files).len(), 1, "{call}");
        }
        let handed_on = "mod child;\npub use child::f;\npub struct P;\nfn g() { f(&P) }\n";
        let files = [
            ("xtask/src/main.rs", "mod p;\n"),
            ("xtask/src/p.rs", handed_on),
            ("xtask/src/p/child.rs", "use super::*;\npub fn f(p: &P) {}\n"),
        ];
        assert_eq!(found(&files).len(), 1);
    }

    #[test]
    fn a_long_circle_is_shown_by_its_shortest_part() {
        let files = [
            ("lab/a/src/lib.rs", "mod a;\nmod b;\nmod c;\nmod d;\n"),
            ("lab/a/src/a.rs", "use crate::b;\npub fn f() { b::f() }\n"),
            ("lab/a/src/b.rs", "use crate::{c::f as g, d};\npub fn f() { g(); d::f() }\n"),
            ("lab/a/src/c.rs", "pub fn f() { crate::a::f() }\n"),
            ("lab/a/src/d.rs", "pub fn f() { crate::b::f() }\n"),
        ];
        let found = found(&files);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("4 files") && found[0].contains("d.rs:1 ->"), "{}", found[0]);
        assert!(!found[0].contains("c.rs"), "{}", found[0]);
    }
}
