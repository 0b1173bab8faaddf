//! `cargo xtask tidy`: the rules of STYLE.md that a program can check.
//!
//! One file a check; each says its exact rule and what it does not see. A check is a function from
//! the [`Tree`] to findings, and is tested with a good and a bad snippet.

mod circles;
mod comments;
mod directions;
mod folders;
mod formats;
mod leftovers;
mod lengths;
mod links;
mod manifests;
mod modules;
mod names;
mod orders;
mod pending;
mod purity;
mod scopes;
mod sizes;
mod source;
mod steps;
mod unsafety;
mod words;

use std::fmt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use source::Source;

/// Something that breaks a rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    line: usize,
    what: String,
    fix: &'static str,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {} — {}", self.path, self.line, self.what, self.fix)
    }
}

/// A file that is not Rust.
struct Page {
    path: String,
    text: String,
}

/// What the checks look at: the files that git knows or would add, paths relative to the root.
#[derive(Default)]
struct Tree {
    /// Every file with its size in bytes.
    files: Vec<(String, u64)>,
    sources: Vec<Source>,
    /// Cargo.toml of each crate.
    manifests: Vec<Page>,
    /// Markdown.
    pages: Vec<Page>,
    /// Scripts.
    scripts: Vec<Page>,
}

type Check = fn(&Tree) -> Vec<Finding>;

/// Checks that some crates and pages do not pass yet: by the name that `pending.rs` knows.
const PENDING: &[(&str, Check)] =
    &[("circles", circles::check), ("folders", folders::check), ("words", words::check)];

const CHECKS: &[Check] = &[
    directions::check,
    formats::check,
    leftovers::check,
    lengths::check,
    links::check,
    manifests::check,
    names::check,
    orders::check,
    purity::check,
    sizes::check,
    steps::check,
    unsafety::check,
];

/// Runs every check over the repository and prints what it finds.
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let findings = findings(root)?;
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => {
            println!("==> tidy: {} checks, nothing found", CHECKS.len() + PENDING.len());
            Ok(())
        }
        count => bail!("tidy found {count} (see STYLE.md)"),
    }
}

/// Writes the list of all named steps.
pub(crate) fn write_steps(root: &Path) -> anyhow::Result<()> {
    let tree = Tree::read(root, &mut Vec::new())?;
    let list = steps::list(&tree);
    std::fs::write(root.join(steps::LIST), list).context("cannot write the list of steps")?;
    println!("==> steps: {} written", steps::LIST);
    Ok(())
}

fn findings(root: &Path) -> anyhow::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let tree = Tree::read(root, &mut findings)?;
    for check in CHECKS {
        findings.extend(check(&tree));
    }
    for (name, check) in PENDING {
        findings.extend(pending::apply(&tree, name, check(&tree)));
    }
    findings.sort();
    Ok(findings)
}

impl Tree {
    fn read(root: &Path, findings: &mut Vec<Finding>) -> anyhow::Result<Tree> {
        let mut tree = Tree::default();
        for path in list(root)? {
            // A file may vanish between the listing and the reading.
            let Ok(metadata) = std::fs::metadata(root.join(&path)) else { continue };
            tree.files.push((path.clone(), metadata.len()));
            if let Ok(text) = std::fs::read_to_string(root.join(&path)) {
                tree.add(path, text, findings);
            }
        }
        Ok(tree)
    }

    fn add(&mut self, path: String, text: String, findings: &mut Vec<Finding>) {
        let name = path.rsplit('/').next().unwrap_or_default();
        let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
        match extension {
            "rs" => match Source::parse(&path, text) {
                Ok(source) => self.sources.push(source),
                Err(finding) => findings.push(finding),
            },
            "md" => self.pages.push(Page { path, text }),
            "py" | "sh" => self.scripts.push(Page { path, text }),
            _ if name == "Cargo.toml" => self.manifests.push(Page { path, text }),
            _ => {}
        }
    }

    /// A tree of Rust files only, for the tests of the checks.
    #[cfg(test)]
    fn of(files: &[(&str, &str)]) -> Tree {
        let mut tree = Tree::default();
        let mut findings = Vec::new();
        for (path, text) in files {
            tree.files.push(((*path).to_owned(), text.len() as u64));
            tree.add((*path).to_owned(), (*text).to_owned(), &mut findings);
        }
        assert_eq!(findings, []);
        tree
    }
}

/// The files that git knows or would add.
fn list(root: &Path) -> anyhow::Result<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("cannot run git to list the files")?;
    if !output.status.success() {
        bail!("git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let names = String::from_utf8(output.stdout).context("a file's name is not UTF-8")?;
    let mut names: Vec<String> =
        names.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    names.sort();
    names.dedup();
    Ok(names)
}

/// The lines of the findings: what the tests of the checks compare.
#[cfg(test)]
fn lines(findings: &[Finding]) -> Vec<usize> {
    findings.iter().map(|finding| finding.line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        let findings = findings(&crate::root()).unwrap();
        let text: Vec<String> = findings.iter().map(Finding::to_string).collect();
        assert!(findings.is_empty(), "\n{}\n", text.join("\n"));
    }

    #[test]
    fn a_finding_says_where_what_and_how() {
        let finding = Finding { path: "a.rs".into(), line: 3, what: "x".into(), fix: "do y" };
        assert_eq!(finding.to_string(), "a.rs:3: x — do y");
    }
}
