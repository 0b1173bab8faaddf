//! Every step towards durability has a name and a reason.
//!
//! Rule, for calls of a region's `.flush(name, offset, len)`, `.flush(name, word)`, `.fence(name)`,
//! `.fence_flushed(name)`, `.commit(name, word, value)`, `.write(name, offset, parts)` and
//! `.write_object(name, offset, parts, room)` (distinguished from other methods of these
//! names by their number of arguments) outside tests, below `src/` of the crates of [`ROOMS`]:
//! - `name` is a string literal. In `crates/pmem`, which forwards names, calls without a literal
//!   are left out, and a `write` is a step of the disk: see `steps.rs`.
//! - A name is `a.b` or longer: lower case, digits, `_`, parts joined by dots. Its first part is
//!   the crate, or a folder or file (without `.rs`) below the crate's `src`: the structure.
//! - A flush, fence or commit has a comment with `ORDER:` (what must be durable before what) on its
//!   line or at most [`REACH`] lines above it, in the same function. A step and the fence after it
//!   may share one. A commit whose comment begins with `after` must not come early: the adversary
//!   tries that with it, and only with those.

use super::finding::Finding;
use super::source::Source;
use super::tree::Tree;

/// Each method with its number of arguments, and whether it needs its order explained.
const METHODS: &[(&str, usize, bool)] = &[
    ("flush", 3, true),
    ("flush", 2, true),
    ("fence", 1, true),
    ("fence_flushed", 1, true),
    ("commit", 3, true),
    ("write", 3, false),
    ("write_node", 4, false),
    ("write_object", 4, false),
];

/// The crates that hold a region.
const ROOMS: &[&str] = &["pmem", "pool", "heap", "index", "kv"];

/// How far above its step an `ORDER:` comment may begin, in lines.
const REACH: usize = 8;

/// A call of one of the methods.
pub(super) struct Step<'s> {
    pub(super) source: &'s Source,
    pub(super) line: usize,
    pub(super) method: &'static str,
    explained: bool,
    /// Its order says that it comes after something: `ORDER: after …`.
    pub(super) is_after: bool,
    /// The literal's contents, if the first argument is one.
    pub(super) name: Option<&'s str>,
}

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for step in steps(tree) {
        let mut find = |what, fix| {
            let path = step.source.path.clone();
            findings.push(Finding { path, line: step.line, what, fix });
        };
        let Some(name) = step.name else {
            if step.source.room() != Some("pmem") {
                find(
                    format!("a {} without a literal name", step.method),
                    "name each step where it is taken",
                );
            }
            continue;
        };
        if !is_well_formed(tree, name, step.source) {
            let what = format!("the {} is named \"{name}\"", step.method);
            find(
                what,
                "write `owner.step`, lower case; the owner is the crate or one of its files",
            );
        }
        if !step.explained {
            let what = format!("the {} \"{name}\" has no order", step.method);
            find(what, "say in `// ORDER:` above it what must be durable before what");
        }
    }
    findings
}

/// Every call of one of the methods, in all sources.
pub(super) fn steps(tree: &Tree) -> Vec<Step<'_>> {
    tree.sources.iter().flat_map(steps_of).collect()
}

fn steps_of(source: &Source) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    let room = source.room().filter(|room| ROOMS.contains(room));
    if !room.is_some_and(|room| source.path.starts_with(&format!("crates/{room}/src/"))) {
        return steps;
    }
    let functions = source.functions();
    for (index, dot) in source.tokens.iter().enumerate() {
        let Some([method, open]) = source.tokens.get(index + 1..index + 3) else { break };
        let Some(close) = open.close.filter(|_| dot.text == "." && open.text == "(") else {
            continue;
        };
        let count = arguments(source, index + 2, close);
        let Some(&(name, _, ordered)) =
            METHODS.iter().find(|(name, arity, _)| *name == method.text && *arity == count)
        else {
            continue;
        };
        if source.is_test(method.line) || (name == "write" && room == Some("pmem")) {
            continue;
        }
        let start = functions
            .iter()
            .filter(|function| function.lines.contains(&method.line))
            .map(|function| *function.lines.start())
            .max()
            .unwrap_or(1);
        let reach = start.max(method.line.saturating_sub(REACH))..=method.line;
        let order = reach.rev().map(|line| source.line(line)).find(|line| is_order(line));
        steps.push(Step {
            source,
            line: method.line,
            method: name,
            explained: !ordered || order.is_some(),
            is_after: order.is_some_and(|line| line.contains("ORDER: after ")),
            name: literal(&source.tokens[index + 3].text),
        });
    }
    steps
}

fn is_order(line: &str) -> bool {
    line.split_once("//").is_some_and(|(_, comment)| comment.contains("ORDER:"))
}

/// How many arguments lie between the parentheses.
fn arguments(source: &Source, open: usize, close: usize) -> usize {
    let (mut index, mut commas, mut last) = (open + 1, 0, "(");
    while index < close {
        let token = &source.tokens[index];
        commas += usize::from(token.text == ",");
        // A group of tokens ends with what closes it.
        last = if token.close.is_some() { ")" } else { &token.text };
        index = token.close.unwrap_or(index) + 1;
    }
    match last {
        "(" => 0,
        "," => commas,
        _ => commas + 1,
    }
}

/// The contents of a string literal.
pub(super) fn literal(token: &str) -> Option<&str> {
    token.strip_prefix('"')?.strip_suffix('"')
}

fn is_well_formed(tree: &Tree, name: &str, source: &Source) -> bool {
    let parts: Vec<&str> = name.split('.').collect();
    let mut owners = tree
        .sources
        .iter()
        .filter(|other| other.room() == source.room())
        .flat_map(|other| other.path.split('/').skip(1));
    has_parts(&parts)
        && !["src", "lib"].contains(&parts[0])
        && owners.any(|owner| owner.strip_suffix(".rs").unwrap_or(owner) == parts[0])
}

/// Whether these are two or more words of lower case, digits and `_`.
pub(super) fn has_parts(parts: &[&str]) -> bool {
    let letters = |part: &&str| {
        !part.is_empty()
            && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    parts.len() >= 2 && parts.iter().all(letters)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::finding::lines;

    const GOOD: &str = r#"
fn split(&self) {
    self.region.write("cdds.split.copy", at, &[a, b])?;
    // ORDER: the new node is durable before
    // the parent names it.
    self.region.flush("index.split.node", at, 64);
    self.region.fence("split.fence");
    out.flush()?;
    tx.commit(Durability::Strict)?;
    file.write(buffer)?;
}
#[cfg(test)]
mod tests {
    fn f() { region.fence("t"); }
}
"#;
    const BAD: &str = r#"
fn a(&self) {
    // ORDER: x before y.
    self.region.fence("cdds.one");
}
fn b(&self) {
    self.region.fence("cdds.two");
    self.region.write(name, at, parts)?;
    self.region.write("Cdds.Three", at, parts)?;
    self.region.write("kv.four", at, parts)?;
    self.region.write("cdds.one", at, parts)?;
    self.region.write("cdds", at, parts)?;
    each!(self.region.commit("cdds.five", word, 1));
    self.region.commit("cdds.six", word, stamp.bits());
}
"#;

    #[test]
    fn good() {
        assert_eq!(check(&Tree::of(&[("crates/index/src/cdds/split.rs", GOOD)])), []);
        let forwarding = "fn write(&self) { self.flush(name, offset, len); }";
        assert_eq!(check(&Tree::of(&[("crates/pmem/src/region.rs", forwarding)])), []);
    }

    #[test]
    fn bad() {
        let found = check(&Tree::of(&[("crates/index/src/cdds.rs", BAD)]));
        assert_eq!(lines(&found), [7, 8, 9, 10, 12, 13, 14]);
    }
}
