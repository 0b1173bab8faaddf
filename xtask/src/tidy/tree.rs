//! What the checks look at.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

use super::finding::Finding;
use super::source::Source;

/// A file that is not Rust.
pub(super) struct Page {
    pub(super) path: String,
    pub(super) text: String,
}

/// What the checks look at: the files that git knows or would add, paths relative to the root.
#[derive(Default)]
pub(super) struct Tree {
    /// Every file with its size in bytes.
    pub(super) files: Vec<(String, u64)>,
    pub(super) sources: Vec<Source>,
    /// Cargo.toml of each crate.
    pub(super) manifests: Vec<Page>,
    /// Markdown.
    pub(super) pages: Vec<Page>,
    /// Scripts.
    pub(super) scripts: Vec<Page>,
}

impl Tree {
    pub(super) fn read(root: &Path, findings: &mut Vec<Finding>) -> anyhow::Result<Tree> {
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
    pub(super) fn of(files: &[(&str, &str)]) -> Tree {
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
