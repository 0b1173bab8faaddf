//! No clock, socket or random number inside protocol or structure code: the caller passes them in.
//!
//! Rule: the code (tests exempt) below `src/` of the crates of [`ROOMS`] names none of
//! [`FORBIDDEN`]; `Duration` is a value and is fine.

use super::finding::Finding;
use super::tree::Tree;

const ROOMS: &[&str] = &["pool", "heap", "index", "kv", "array", "fs", "lang"];

const FORBIDDEN: &[&str] = &[
    "Instant",
    "SystemTime",
    "UNIX_EPOCH",
    "clock_gettime",
    "rand",
    "fastrand",
    "getrandom",
    "RandomState",
    "TcpListener",
    "TcpStream",
    "UdpSocket",
    "UnixListener",
    "UnixStream",
    "socket",
];

/// Files that may: `(path, word, why)`.
const ALLOWED: &[(&str, &str, &str)] = &[];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &tree.sources {
        let room = source.room().filter(|room| ROOMS.contains(room));
        if !room.is_some_and(|room| source.path.starts_with(&format!("crates/{room}/src/"))) {
            continue;
        }
        for token in &source.tokens {
            let word = token.text.as_str();
            let allowed =
                ALLOWED.iter().any(|(path, name, _)| *path == source.path && *name == word);
            if FORBIDDEN.contains(&word) && !allowed && !source.is_test(token.line) {
                findings.push(Finding {
                    path: source.path.clone(),
                    line: token.line,
                    what: format!("`{word}` inside structure code"),
                    fix: "let the caller pass it in",
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
        let text = "use std::time::Duration;\nfn step(now_ms: u64) {}\n// Instant\n#[cfg(test)]\nmod tests { use std::time::Instant; }\n";
        assert_eq!(check(&Tree::of(&[("crates/kv/src/lib.rs", text)])), []);
        let text = "use std::time::Instant;\n";
        assert_eq!(check(&Tree::of(&[("crates/server/src/lib.rs", text)])), []);
    }

    #[test]
    fn bad() {
        let text = "use std::time::{Duration, Instant};\nfn f() { rand::random(); }\n";
        assert_eq!(lines(&check(&Tree::of(&[("crates/kv/src/lib.rs", text)]))), [1, 2]);
    }
}
