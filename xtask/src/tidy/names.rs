//! Names that say nothing.
//!
//! Rule: no file or folder of code, and no module written inside a file, is named `utils`,
//! `common`, `helpers` or `misc` (singular or plural); no file is named `mod.rs`.

use super::finding::Finding;
use super::tree::Tree;

const EMPTY: &[&str] = &["util", "utils", "common", "commons", "helper", "helpers", "misc"];
const FIX: &str = "name it after what it holds, or put the parts where they are used";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, _) in &tree.files {
        let find = |what, fix| Finding { path: path.clone(), line: 1, what, fix };
        let code = [".rs", ".py", ".sh"].iter().any(|extension| path.ends_with(extension));
        let mut parts = path.split('/').map(|part| part.split('.').next().unwrap_or_default());
        if let Some(part) = parts.find(|part| code && EMPTY.contains(part)) {
            findings.push(find(format!("`{part}` names nothing"), FIX));
        }
        if path.ends_with("/mod.rs") {
            findings.push(find("a `mod.rs`".into(), "use `foo.rs` beside the folder `foo/`"));
        }
    }
    for source in &tree.sources {
        for (index, token) in source.tokens.iter().enumerate() {
            let Some(name) = source.tokens.get(index + 1) else { break };
            if token.text == "mod" && EMPTY.contains(&name.text.as_str()) {
                let what = format!("the module `{}` names nothing", name.text);
                findings.push(Finding {
                    path: source.path.clone(),
                    line: token.line,
                    what,
                    fix: FIX,
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
        let files =
            [("crates/kv/src/version.rs", "mod commit;\nmod tests {}\n"), ("docs/common.md", "")];
        assert_eq!(check(&Tree::of(&files)), []);
    }

    #[test]
    fn bad() {
        for path in
            ["crates/kv/src/utils.rs", "crates/kv/tests/common/x.rs", "crates/kv/src/a/mod.rs"]
        {
            assert_eq!(check(&Tree::of(&[(path, "")])).len(), 1, "{path}");
        }
        let found = check(&Tree::of(&[("crates/kv/src/lib.rs", "\nmod helpers {}\n")]));
        assert_eq!(lines(&found), [2]);
    }
}
