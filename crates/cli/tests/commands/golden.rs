//! What the first release has written is read, served and restored: see images/README.md.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::resp::Reply;
use crate::server::{Setup, run};
use crate::{json, text};

fn image(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/images").join(name)
}

/// A line of a dump, by database and key.
type Lines = BTreeMap<(String, String), (String, Option<u64>)>;

fn lines(dump: &[u8]) -> Lines {
    let lines = std::str::from_utf8(dump).unwrap().lines();
    lines
        .map(|line| {
            let line = json(line.as_bytes());
            let text = |field: &str| line[field].as_str().unwrap().to_owned();
            let rest = (text("value"), line["expires_at_ms"].as_u64());
            ((text("keyspace"), text("key")), rest)
        })
        .collect()
}

/// What images/README.md says that the backups hold.
fn backed_up(with_later: bool) -> Lines {
    let key = |i: u64| ("0".to_owned(), format!("key-{i:03}"));
    let expiry = |i: u64| i.is_multiple_of(10).then_some(4_000_000_000_000);
    let value = |i: u64| format!("value {i} ").repeat(1 + i as usize % 5);
    let mut lines: Lines = (0..40).map(|i| (key(i), (value(i), expiry(i)))).collect();
    lines.insert(("3".into(), "other".into()), (String::new(), None));
    if with_later {
        lines.extend((35..45).map(|i| (key(i), (format!("later {i}"), None))));
    }
    lines
}

#[test]
fn backups_of_the_first_release_are_restored() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (full, later) = (image("backup_1_full.image"), image("backup_1_later.image"));
    for with_later in [false, true] {
        let pool = folder.path().join(format!("{with_later}.pool"));
        let mut words = vec!["restore", text(&pool), text(&full)];
        words.extend(with_later.then_some(text(&later)));
        let restored = run(&words);
        assert!(restored.status.success(), "{restored:?}");
        assert_eq!(lines(&run(&["dump", text(&pool)]).stdout), backed_up(with_later));
        let check = run(&["check", text(&pool), "--json"]);
        assert_eq!(json(&check.stdout)["expiring"], 4, "{check:?}");
    }
    let alone = run(&["restore", text(&folder.path().join("alone.pool")), text(&later)]);
    assert_eq!(alone.status.code(), Some(27));
}

#[test]
fn stores_of_the_first_release_are_read_and_served() {
    for name in ["store_1_cdds.image", "store_1_nvtree.image"] {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let pool = folder.path().join("a.pool");
        let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kv/tests/images");
        let mut bytes = std::fs::read(images.join(name)).unwrap();
        bytes.resize(512 << 10, 0);
        std::fs::write(&pool, &bytes).unwrap();
        assert_eq!(lines(&run(&["dump", text(&pool)]).stdout).len(), 40);
        assert!(run(&["check", text(&pool)]).status.success());
        assert!(std::fs::read(&pool).unwrap() == bytes, "a command that only reads has written");
        let server = Setup::new(&pool, &[]).start();
        let mut client = server.client();
        let value = Reply::Bulk("value 7 ".repeat(3).into_bytes());
        assert_eq!(client.call(&[b"GET", b"key-007"]).unwrap(), value);
        client.call(&[b"SET", b"new", b"value"]).unwrap();
        assert!(server.stop().success());
        assert_eq!(lines(&run(&["dump", text(&pool)]).stdout).len(), 41);
    }
}

#[test]
fn snapshots_are_listed_and_dropped() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (pool, input) = (folder.path().join("a.pool"), folder.path().join("lines"));
    std::fs::write(&input, "{\"keyspace\":\"0\",\"key\":\"a\",\"value\":\"b\"}\n").unwrap();
    assert!(run(&["load", text(&pool), text(&input), "--size", "1M"]).status.success());
    for name in ["one", "two"] {
        let out = folder.path().join(name);
        assert!(run(&["backup", text(&pool), text(&out), "--keep", name]).status.success());
    }
    let names = |words: &[&str]| {
        let output = run(&[&["snapshots", text(&pool), "--json"], words].concat());
        assert!(output.status.success(), "{output:?}");
        let found = json(&output.stdout)["snapshots"].clone();
        found.as_array().unwrap().iter().map(|pair| pair[0].clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&[]), ["one", "two"]);
    assert_eq!(names(&["--drop", "one"]), ["two"]);
    let missing = run(&["snapshots", text(&pool), "--drop", "two", "--drop", "one"]);
    assert_eq!(missing.status.code(), Some(29));
    assert_eq!(names(&[]), ["two"]);
}
