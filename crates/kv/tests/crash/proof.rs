//! The named steps of the sources.

use std::collections::BTreeMap;
use std::path::Path;

/// A name that stands in the sources of the index or the store.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) name: String,
    /// Its `ORDER:` says that it comes after other stores to its line.
    pub(crate) last_in_line: bool,
}

/// Every `"cdds.…"` and `"kv.…"` in the sources of the index and the store.
pub(crate) fn steps() -> Vec<Step> {
    let mut found = BTreeMap::new();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    for folder in [here.join("src"), here.join("../index/src")] {
        collect(&folder, &mut found);
    }
    found.into_iter().map(|(name, last_in_line)| Step { name, last_in_line }).collect()
}

fn collect(folder: &Path, found: &mut BTreeMap<String, bool>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let mut order = "";
        for line in text.lines() {
            order = line.split_once("ORDER: ").map_or(order, |(_, order)| order);
            for literal in line.split('"').skip(1) {
                let is_name = ["cdds.", "kv."].iter().any(|prefix| literal.starts_with(prefix))
                    && literal.bytes().all(|b| b.is_ascii_lowercase() || b == b'.' || b == b'_');
                if is_name {
                    let last = order.starts_with("after") && order.contains("same line");
                    found.insert(literal.to_owned(), last);
                }
            }
        }
    }
}
