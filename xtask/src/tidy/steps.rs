//! Every step that a disk takes has a name too, and the list of all steps is current.
//!
//! A *step function* is a function of `crates/pmem` with parameters of type `&'static str` named
//! `step` or `…_step`: those of the traits `Disk` and `DiskFile`, and what forwards to them.
//! Rule:
//! - Below `crates/pmem/src`, outside tests, a call of a step function gives for each such parameter
//!   a string literal, or a `step` or `…_step` that it was given itself. Calls are recognised by name and
//!   number of arguments, and `Type::name` by the file that `Type` gives its name to.
//! - A name is `a.b` or longer: lower case, digits, `_`, parts joined by dots.
//! - No name is used twice in the tree, those of flushes, fences, commits and writes included: the
//!   adversary removes one step at a time, by name.
//! - [`LIST`] is what `cargo xtask steps` writes.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::finding::Finding;
use super::orders::{self, has_parts, literal};
use super::source::Source;
use super::tree::Tree;

/// The list that the adversary reads.
pub(super) const LIST: &str = "lab/torture/src/steps.rs";

/// A function that takes names of steps.
struct StepFunction<'s> {
    name: &'s str,
    /// The stem of the file that it stands in.
    owner: &'s str,
    is_method: bool,
    arity: usize,
    /// Which arguments, beside `self`, are names.
    places: Vec<usize>,
}

/// A name given to a step function.
struct Call<'s> {
    source: &'s Source,
    line: usize,
    function: &'s str,
    /// The literal's contents; `None` when something else is given that is no step either.
    name: Option<&'s str>,
}

/// A named step of any kind.
struct Named<'s> {
    name: &'s str,
    kind: &'static str,
    source: &'s Source,
    line: usize,
}

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for call in disk_calls(tree) {
        let (what, fix) = match call.name {
            None => (
                format!("a step of `{}` without a literal name", call.function),
                "name each step where it is taken",
            ),
            Some(name) if !has_parts(&name.split('.').collect::<Vec<_>>()) => {
                (format!("the step is named \"{name}\""), "write `owner.step`, lower case")
            }
            Some(_) => continue,
        };
        findings.push(Finding { path: call.source.path.clone(), line: call.line, what, fix });
    }
    let mut seen: BTreeMap<&str, Named<'_>> = BTreeMap::new();
    for step in named(tree) {
        if let Some(first) = seen.get(step.name) {
            findings.push(Finding {
                path: step.source.path.clone(),
                line: step.line,
                what: format!(
                    "\"{}\" is used at {}:{} too",
                    step.name, first.source.path, first.line
                ),
                fix: "give each step its own name",
            });
        } else {
            seen.insert(step.name, step);
        }
    }
    if let Some(current) = tree.sources.iter().find(|source| source.path == LIST)
        && current.text != list(tree)
    {
        let what = "the list of steps is not that of the sources".to_owned();
        findings.push(Finding { path: LIST.into(), line: 1, what, fix: "run `cargo xtask steps`" });
    }
    findings
}

/// The text of [`LIST`].
pub(super) fn list(tree: &Tree) -> String {
    let mut steps: Vec<_> = named(tree)
        .iter()
        .map(|step| (step.name, step.kind, step.source.room().unwrap_or_default()))
        .collect();
    steps.sort_unstable();
    let mut text = String::from(
        "//! Every named step of the sources. `cargo xtask steps` writes this file: do not edit.\n\n\
         use crate::step::{Step, StepKind};\n\n\
         /// Every named step, in the order of the names.\n\
         pub const STEPS: &[Step] = &[\n",
    );
    for (name, kind, room) in steps {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "    Step {{ name: \"{name}\", kind: StepKind::{kind}, room: \"{room}\" }},"
        );
    }
    text + "];\n"
}

fn named(tree: &Tree) -> Vec<Named<'_>> {
    let waist = orders::steps(tree).into_iter().filter_map(|step| {
        let kind = match step.method {
            "fence" | "fence_flushed" => "Fence",
            "commit" if step.is_after => "CommitAfter",
            "commit" => "Commit",
            // A write flushes what it wrote.
            _ => "Flush",
        };
        step.name.map(|name| Named { name, kind, source: step.source, line: step.line })
    });
    let disk = disk_calls(tree).into_iter().filter_map(|call| {
        call.name.map(|name| Named { name, kind: "Disk", source: call.source, line: call.line })
    });
    waist.chain(disk).collect()
}

/// The names given to step functions, those left out that are only forwarded.
fn disk_calls(tree: &Tree) -> Vec<Call<'_>> {
    let sources = || tree.sources.iter().filter(|s| s.path.starts_with("crates/pmem/src/"));
    let functions: Vec<StepFunction<'_>> = sources().flat_map(step_functions).collect();
    let mut calls = Vec::new();
    for source in sources() {
        for (index, token) in source.tokens.iter().enumerate() {
            let called = functions
                .iter()
                .filter(|function| function.name == token.text)
                .find_map(|function| Some((function, arguments(source, index, function)?)));
            let Some((function, arguments)) = called.filter(|_| !source.is_test(token.line)) else {
                continue;
            };
            for place in &function.places {
                let last = arguments[*place];
                if last.ends_with("step") {
                    continue;
                }
                let name = literal(last);
                calls.push(Call { source, line: token.line, function: function.name, name });
            }
        }
    }
    calls
}

/// The last token of each argument, if the token at `index` calls `function`.
fn arguments<'s>(
    source: &'s Source,
    index: usize,
    function: &StepFunction<'_>,
) -> Option<Vec<&'s str>> {
    let tokens = &source.tokens;
    let close = tokens.get(index + 1).filter(|open| open.text == "(")?.close?;
    let before = |back: usize| index.checked_sub(back).map_or("", |at| tokens[at].text.as_str());
    let is_called = match before(1) {
        "." => function.is_method,
        ":" => !function.is_method && before(3).to_lowercase() == function.owner.replace('_', ""),
        "fn" => false,
        _ => !function.is_method,
    };
    let lists = split(source, index + 1, close);
    let fits = is_called && lists.len() == function.arity;
    fits.then(|| lists.iter().map(|(_, last)| tokens[*last].text.as_str()).collect())
}

/// The functions of a file that take names of steps.
fn step_functions(source: &Source) -> Vec<StepFunction<'_>> {
    let tokens = &source.tokens;
    let mut found = Vec::new();
    for index in 0..tokens.len().saturating_sub(2) {
        if tokens[index].text != "fn" || source.is_test(tokens[index].line) {
            continue;
        }
        let Some(open) = (index + 2..tokens.len()).find(|at| tokens[*at].text == "(") else {
            continue;
        };
        let Some(close) = tokens[open].close else { continue };
        let mut parameters = split(source, open, close);
        let is_method = parameters.first().is_some_and(|(_, last)| tokens[*last].text == "self");
        if is_method {
            parameters.remove(0);
        }
        let is_step = |(first, last): &(usize, usize)| {
            tokens[*first].text.ends_with("step")
                && source.matches(first + 1, &[":", "&", "'", "static", "str"])
                && *last == first + 5
        };
        let places: Vec<usize> =
            (0..parameters.len()).filter(|place| is_step(&parameters[*place])).collect();
        if !places.is_empty() {
            let (name, owner) = (tokens[index + 1].text.as_str(), source.stem());
            found.push(StepFunction { name, owner, is_method, arity: parameters.len(), places });
        }
    }
    found
}

/// The first and the last token of each thing in a list between parentheses.
fn split(source: &Source, open: usize, close: usize) -> Vec<(usize, usize)> {
    let (mut found, mut first, mut index) = (Vec::new(), open + 1, open + 1);
    while index < close {
        let next = source.tokens[index].close.unwrap_or(index) + 1;
        if source.tokens[index].text == "," {
            found.push((first, index - 1));
            first = next;
        }
        index = next;
    }
    if first < close {
        found.push((first, close - 1));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::finding::lines;

    const TRAIT: &str = "\
trait DiskFile {
    fn write_at(&self, step: &'static str, bytes: &[u8], offset: u64);
    fn sync(&self, step: &'static str);
}
";
    const RUNS: &str = "\
impl Runs {
    fn new(file: &File, step: &'static str) -> Runs { Runs { file, step } }
    fn both(&self, step: &'static str, sync_step: &'static str) {
        self.file.write_at(self.step, &[], 0);
        self.file.sync(sync_step);
    }
}
";
    const CALLS: &str = "\
fn f(file: &File) {
    let runs = Runs::new(file, \"log.run\");
    runs.both(\"log.write\", \"log.sync\");
    let other = Notes::new(1, 2);
    region.sync();
}
";
    const BAD: &str = "\
fn f(file: &File, name: &'static str) {
    file.sync(name);
    file.write_at(\"Log\", &[], 0);
    file.sync(\"log.a\");
    file.sync(\"log.a\");
    Runs::new(file, &format!(\"log.x\"));
}
#[cfg(test)]
mod tests { fn f() { file.sync(name); } }
";

    fn tree(text: &str) -> Tree {
        Tree::of(&[
            ("crates/pmem/src/disk.rs", TRAIT),
            ("crates/pmem/src/runs.rs", RUNS),
            ("crates/pmem/src/log.rs", text),
        ])
    }

    #[test]
    fn good() {
        assert_eq!(check(&tree(CALLS)), []);
        let list = list(&tree(CALLS));
        let names: Vec<&str> = list.lines().filter_map(|line| line.split('"').nth(1)).collect();
        assert_eq!(names, ["log.run", "log.sync", "log.write"]);
    }

    #[test]
    fn bad() {
        assert_eq!(lines(&check(&tree(BAD))), [2, 3, 6, 5]);
    }

    #[test]
    fn a_name_of_the_waist_is_not_one_of_the_disk() {
        let fence = "fn f() {\n    // ORDER: x before y.\n    region.fence(\"pool.a\");\n}\n";
        let sync = "fn g(file: &File) { file.sync(\"pool.a\"); }";
        let tree = Tree::of(&[
            ("crates/pmem/src/disk.rs", TRAIT),
            ("crates/pmem/src/log.rs", sync),
            ("crates/pool/src/pool.rs", fence),
        ]);
        assert_eq!(check(&tree).len(), 1);
    }

    #[test]
    fn a_list_that_is_not_current_is_found() {
        let files = [("crates/pmem/src/disk.rs", TRAIT), (LIST, "//! Nothing.\n")];
        assert_eq!(check(&Tree::of(&files)).len(), 1);
    }
}
