//! `cargo xtask tidy`: the rules of STYLE.md that a program can check.
//!
//! One file a check; each says its exact rule and what it does not see. A check is a function from
//! the [`Tree`] to findings, and is tested with a good and a bad snippet.

mod circles;
mod comments;
mod directions;
mod finding;
mod folders;
mod formats;
mod leftovers;
mod lengths;
mod links;
mod manifests;
mod modules;
mod names;
mod orders;
mod picture;
mod purity;
mod scopes;
mod sizes;
mod source;
mod steps;
mod tree;
mod unsafety;
mod words;

use std::path::Path;

use anyhow::{Context, bail};
use finding::Finding;
use tree::Tree;

type Check = fn(&Tree) -> Vec<Finding>;

const CHECKS: &[Check] = &[
    circles::check,
    directions::check,
    folders::check,
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
    words::check,
];

/// Runs every check over the repository and prints what it finds.
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let findings = findings(root)?;
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => {
            println!("==> tidy: {} checks, nothing found", CHECKS.len());
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

/// Prints the table of sizes, arrows and public names of the crates in a checkout.
pub(crate) fn print_picture(root: &Path) -> anyhow::Result<()> {
    print!("{}", picture::table(&Tree::read(root, &mut Vec::new())?));
    Ok(())
}

fn findings(root: &Path) -> anyhow::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let tree = Tree::read(root, &mut findings)?;
    for check in CHECKS {
        findings.extend(check(&tree));
    }
    findings.sort();
    Ok(findings)
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
}
