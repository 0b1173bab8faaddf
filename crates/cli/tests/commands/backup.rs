//! `tembo backup` and `tembo restore`, as a person uses them.

use std::path::Path;

use super::{json, run, text};

fn load(folder: &Path, pool: &Path, keys: std::ops::Range<u32>, value: &str) {
    let line = |key| format!("{{\"keyspace\":\"0\",\"key\":\"key{key}\",\"value\":\"{value}\"}}\n");
    let lines = folder.join("lines");
    std::fs::write(&lines, keys.map(line).collect::<String>()).unwrap();
    let load = run(&["load", text(pool), text(&lines)]);
    assert!(load.status.success(), "{load:?}");
}

#[test]
fn a_backup_and_what_follows_it_make_the_pool_again() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = |name: &str| folder.path().join(name);
    let (pool, whole, part) = (file("a.pool"), file("whole"), file("part"));
    load(folder.path(), &pool, 0..500, "early");
    let saved = run(&["backup", text(&pool), text(&whole), "--keep", "last", "--json"]);
    assert!(saved.status.success(), "{saved:?}");
    let version = json(&saved.stdout)["version"].as_u64().unwrap();
    load(folder.path(), &pool, 490..510, "late");
    let saved = run(&["backup", text(&pool), text(&part), "--since", text(&whole), "--json"]);
    assert!(saved.status.success(), "{saved:?}");
    let saved = json(&saved.stdout);
    assert_eq!(saved["since"].as_u64(), Some(version));
    assert!(saved["entries"].as_u64().unwrap() < 100, "{saved}");

    let again = file("b.pool");
    let restored = run(&["restore", text(&again), text(&whole), text(&part)]);
    assert!(restored.status.success(), "{restored:?}");
    let dump = |pool: &Path| run(&["dump", text(pool)]).stdout;
    assert_eq!(dump(&again), dump(&pool));
    assert!(run(&["check", text(&again)]).status.success());
    let names: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| !name.to_str().unwrap().contains("restoring")), "{names:?}");
}

#[test]
fn what_cannot_be_done_has_an_exit_code() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = |name: &str| folder.path().join(name);
    let (pool, other, whole, part) = (file("a.pool"), file("b.pool"), file("whole"), file("part"));
    load(folder.path(), &pool, 0..50, "early");
    load(folder.path(), &other, 0..50, "early");
    let code = |arguments: &[&str]| run(arguments).status.code();
    assert_eq!(code(&["backup", text(&pool), text(&whole)]), Some(0));
    assert_eq!(code(&["backup", text(&pool), text(&whole)]), Some(28));
    // Nothing keeps the version.
    let since = text(&whole).to_owned();
    assert_eq!(code(&["backup", text(&pool), text(&part), "--since", &since]), Some(29));
    assert_eq!(code(&["backup", text(&other), text(&part), "--since", &since]), Some(27));
    assert_eq!(code(&["restore", text(&pool), text(&whole)]), Some(28));
    assert_eq!(code(&["restore", text(&file("c.pool")), text(&whole), text(&whole)]), Some(27));
    let mut bytes = std::fs::read(&whole).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&whole, &bytes).unwrap();
    let damaged = run(&["restore", text(&file("c.pool")), text(&whole)]);
    assert_eq!(damaged.status.code(), Some(26));
    assert!(String::from_utf8_lossy(&damaged.stderr).contains("whole is damaged at byte"));
    assert!(!file("c.pool").exists());
}
