//! Links between the documents lead somewhere.
//!
//! Rule: in every Markdown file, outside code, the target of `[text](target)` that is not a URL is a
//! file or folder that git knows, relative to the page; and a `#part` of a Markdown page is one of
//! its headings, in the spelling that GitHub makes of it.

use super::finding::Finding;
use super::tree::{Page, Tree};

const FIX: &str = "correct the path, or take the link out";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for page in &tree.pages {
        for (line, target) in links(&page.text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            if let Err(what) = resolve(tree, page, &target) {
                findings.push(Finding { path: page.path.clone(), line, what, fix: FIX });
            }
        }
    }
    findings
}

fn resolve(tree: &Tree, page: &Page, target: &str) -> Result<(), String> {
    let (path, part) = target.split_once('#').unwrap_or((target, ""));
    let path = match path {
        "" => page.path.clone(),
        path => join(&page.path, path),
    };
    let folder = format!("{path}/");
    if !tree.files.iter().any(|(file, _)| *file == path || file.starts_with(&folder)) {
        return Err(format!("the link `{target}` leads to no file"));
    }
    let Some(page) = tree.pages.iter().find(|page| page.path == path).filter(|_| !part.is_empty())
    else {
        return Ok(());
    };
    if headings(&page.text).iter().any(|heading| heading == part) {
        return Ok(());
    }
    Err(format!("the link `{target}` leads to no heading of {path}"))
}

/// The path that `target` means on the page at `path`, both without a leading slash.
fn join(path: &str, target: &str) -> String {
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The lines of a page that are not inside a fenced block of code, numbered from 1.
pub(super) fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((index + 1, line))
    })
}

fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        // Every second piece between backticks is code.
        for piece in line.split('`').step_by(2) {
            for rest in piece.split("](").skip(1) {
                let target = rest.split(')').next().unwrap_or_default();
                found.push((number, target.split(' ').next().unwrap_or_default().to_owned()));
            }
        }
    }
    found
}

fn headings(text: &str) -> Vec<String> {
    let titles = prose(text).filter(|(_, line)| line.starts_with('#'));
    titles
        .map(|(_, line)| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::finding::lines;

    #[test]
    fn good() {
        let readme = "# Tembo\n[a](docs/a.md#the-log) [u](https://x.example/) [self](#tembo)\n`[x](y)`\n```\n[x](y)\n```\n[folder](docs)\n";
        let files = [("README.md", readme), ("docs/a.md", "## The *log*\n[up](../README.md)\n")];
        assert_eq!(check(&Tree::of(&files)), []);
    }

    #[test]
    fn bad() {
        let readme = "# Tembo\n[a](docs/b.md)\n[a](docs/a.md#nothing)\n";
        let found = check(&Tree::of(&[("README.md", readme), ("docs/a.md", "# A\n")]));
        assert_eq!(lines(&found), [2, 3]);
    }
}
