//! The commands, as a person or a script uses them.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, missing_docs, unreachable_pub)]

#[path = "commands/backup.rs"]
mod backup;
#[path = "commands/config_file.rs"]
mod config_file;
#[path = "commands/damaged_collections.rs"]
mod damaged_collections;
#[path = "commands/emulated.rs"]
mod emulated;
#[path = "commands/golden.rs"]
mod golden;
#[path = "commands/heap.rs"]
mod heap;
#[path = "commands/items.rs"]
mod items;
#[path = "commands/metrics.rs"]
mod metrics;
#[path = "commands/online.rs"]
mod online;
#[path = "commands/read_only.rs"]
mod read_only;
#[path = "driver/resp.rs"]
mod resp;
#[path = "driver/server.rs"]
mod server;
#[path = "commands/systemd.rs"]
mod systemd;
#[path = "commands/tls.rs"]
mod tls;
#[path = "commands/top.rs"]
mod top;

use std::path::Path;

use resp::Reply;
use serde_json::Value;
use server::{Setup, run};

#[test]
fn what_is_dumped_can_be_loaded() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (first, second) = (folder.path().join("1.pool"), folder.path().join("2.pool"));
    let lines = folder.path().join("lines");
    fill(&first);
    let dump = run(&["dump", text(&first), "--out", text(&lines)]);
    assert!(dump.status.success(), "{dump:?}");
    let load = run(&["load", text(&second), text(&lines), "--json"]);
    assert!(load.status.success(), "{load:?}");
    assert_eq!(json(&load.stdout)["keys"], 4);
    let again = run(&["dump", text(&second)]);
    assert_eq!(String::from_utf8(again.stdout).unwrap(), std::fs::read_to_string(&lines).unwrap());

    let server = Setup::new(&second, &[]).start();
    let mut client = server.client();
    assert_eq!(client.call(&[b"GET", b"plain"]).unwrap(), Reply::Bulk(b"value".into()));
    assert_eq!(client.call(&[b"GET", b"\xff"]).unwrap(), Reply::Bulk(b"\0\x80".into()));
    assert_eq!(client.call(&[b"EXPIRETIME", b"later"]).unwrap(), Reply::Integer(4_000_000_000));
    assert_eq!(client.call(&[b"SELECT", b"15"]).unwrap(), Reply::Simple("OK".into()));
    assert_eq!(client.call(&[b"GET", b"other"]).unwrap(), Reply::Bulk(b"".into()));
    assert!(server.stop().success());
}

/// Keys without an order are loaded, dumped, checked and counted. What needs ranges of them refuses the pool before it changes
/// anything, and makes none.
#[test]
fn a_pool_with_a_hash_index_is_loaded_and_dumped_and_not_served() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (tree, hash) = (folder.path().join("tree.pool"), folder.path().join("hash.pool"));
    let lines = folder.path().join("lines");
    fill(&tree);
    assert!(run(&["dump", text(&tree), "--out", text(&lines)]).status.success());
    let load = run(&["load", text(&hash), text(&lines), "--index", "hash", "--json"]);
    assert!(load.status.success() && json(&load.stdout)["keys"] == 4, "{load:?}");
    let sorted = |bytes: Vec<u8>| {
        let mut lines: Vec<String> =
            String::from_utf8(bytes).unwrap().lines().map(String::from).collect();
        lines.sort();
        lines
    };
    let dumped = || sorted(run(&["dump", text(&hash)]).stdout);
    assert_eq!(dumped(), sorted(std::fs::read(&lines).unwrap()));
    let stat = json(&run(&["stat", text(&hash), "--json"]).stdout);
    assert_eq!((&stat["index"], &stat["keys"]), (&"hash".into(), &4.into()));
    let check = json(&run(&["check", text(&hash), "--json"]).stdout);
    assert_eq!((&check["keys"], &check["faults"]), (&4.into(), &Value::Array(vec![])));
    // Loading again replaces what is there.
    assert!(run(&["load", text(&hash), text(&lines)]).status.success());
    assert_eq!(dumped().len(), 4);

    let (pool, before) = (text(&hash), dumped());
    let new = folder.path().join("new.pool");
    let dir = text(folder.path());
    let refused: [&[&str]; 5] = [
        &["serve", "--pool", pool, "--port", "0"],
        &["serve", "--pool", text(&new), "--port", "0", "--index", "hash"],
        &["mount", pool, dir],
        &["device", "create", pool, "d"],
        &["device", "serve", pool, "--port", "0"],
    ];
    for command in refused {
        let refused = run(command);
        assert_eq!(refused.status.code(), Some(42), "{command:?}: {refused:?}");
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(said.contains("hash") && said.contains("backup"), "{said}");
    }
    assert!(!new.exists());
    assert_eq!(dumped(), before);
}

/// What is left of much takes a small file, and is all there.
#[test]
fn a_pool_is_compacted() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let pool = folder.path().join("1.pool");
    fill(&pool);
    let dump = || run(&["dump", text(&pool)]).stdout;
    let stat = || json(&run(&["stat", text(&pool), "--json"]).stdout);
    let (dumped, before) = (dump(), stat());
    // Not nothing, as far as a reader knows that has swept nothing.
    assert!(before["used_bytes"].as_u64().unwrap() > 1000, "{before}");
    let compacted = run(&["compact", text(&pool), "--json"]);
    assert!(compacted.status.success(), "{compacted:?}");
    let compacted = json(&compacted.stdout);
    let size = std::fs::metadata(&pool).unwrap().len();
    assert_eq!(
        (&compacted["bytes_before"], &compacted["bytes_after"]),
        (&before["pool_bytes"], &size.into())
    );
    assert!(size <= 4 << 20, "{size}");
    assert_eq!((dump(), &stat()["keys"]), (dumped, &before["keys"]));
    let check = run(&["check", text(&pool)]);
    assert!(check.status.success(), "{check:?}");
}

/// Loading over an expiry must leave none of it in the expiry index.
#[test]
fn loading_over_keys_replaces_them_whole() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (pool, lines) = (folder.path().join("a.pool"), folder.path().join("lines"));
    fill(&pool);
    std::fs::write(&lines, "{\"keyspace\":\"0\",\"key\":\"later\",\"value\":\"for good\"}\n")
        .unwrap();
    assert!(run(&["load", text(&pool), text(&lines)]).status.success());
    let check = run(&["check", text(&pool), "--json"]);
    assert!(check.status.success(), "{check:?}");
    let check = json(&check.stdout);
    assert_eq!((&check["keys"], &check["expiring"]), (&4.into(), &0.into()));
}

#[test]
fn a_malformed_line_is_named_and_those_before_it_are_in() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (pool, lines) = (folder.path().join("a.pool"), folder.path().join("lines"));
    std::fs::write(&lines, "{\"keyspace\":\"0\",\"key\":\"a\",\"value\":\"b\"}\n{\n").unwrap();
    let load = run(&["load", text(&pool), text(&lines)]);
    assert_eq!(load.status.code(), Some(23));
    assert!(String::from_utf8(load.stderr).unwrap().contains("line 2"));
    assert_eq!(json(&run(&["stat", text(&pool), "--json"]).stdout)["keys"], 1);
}

#[test]
fn an_existing_file_is_not_dumped_over() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (pool, out) = (folder.path().join("a.pool"), folder.path().join("out"));
    fill(&pool);
    std::fs::write(&out, "dear").unwrap();
    assert!(!run(&["dump", text(&pool), "--out", text(&out)]).status.success());
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "dear");
}

#[test]
fn stat_and_check_report_for_programs() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let pool = folder.path().join("a.pool");
    fill(&pool);
    let stat = json(&run(&["stat", text(&pool), "--json"]).stdout);
    assert_eq!((&stat["keys"], &stat["domain"]), (&4.into(), &"logged".into()));
    assert_eq!(stat["index"], tembo_kv::IndexKind::default().name());
    let check = json(&run(&["check", text(&pool), "--json"]).stdout);
    assert_eq!((&check["keys"], &check["faults"]), (&4.into(), &Value::Array(vec![])));
}

/// What is used is known only when recovery has ended: a small pool is read faster than that.
#[test]
fn stat_reports_the_bytes_that_a_pool_uses() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (pool, lines) = (folder.path().join("a.pool"), folder.path().join("lines"));
    let value = "v".repeat(30_000);
    std::fs::write(&lines, format!("{{\"keyspace\":\"0\",\"key\":\"a\",\"value\":\"{value}\"}}\n"))
        .unwrap();
    assert!(run(&["load", text(&pool), text(&lines)]).status.success());
    for _ in 0..3 {
        let stat = json(&run(&["stat", text(&pool), "--json"]).stdout);
        let used = stat["used_bytes"].as_u64().unwrap();
        assert!((30_000..60_000).contains(&used), "{stat}");
    }
    let server = Setup::new(&pool, &[]).start();
    server.kill();
    let stat = json(&run(&["stat", text(&pool), "--json"]).stdout);
    assert!(stat["used_bytes"].as_u64().is_some_and(|used| used >= 30_000), "{stat}");
}

/// Of a pool whose server was killed they see everything, and may not even write its files.
#[test]
fn what_only_reads_changes_no_file() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let pool = folder.path().join("a.pool");
    let server = Setup::new(&pool, &["--domain", "logged"]).start();
    for key in [b"a", b"b"] {
        server.client().call(&[b"SET", key, b"value"]).unwrap();
    }
    server.kill();
    let files =
        || ["a.pool", "a.pool.log"].map(|name| std::fs::read(folder.path().join(name)).unwrap());
    let before = files();
    let stat = json(&run(&["stat", text(&pool), "--json"]).stdout);
    assert_eq!((&stat["keys"], &stat["domain"]), (&2.into(), &"logged".into()));
    assert_eq!(json(&run(&["check", text(&pool), "--json"]).stdout)["keys"], 2);
    assert_eq!(run(&["dump", text(&pool)]).stdout.iter().filter(|byte| **byte == b'\n').count(), 2);
    let out = folder.path().join("backup");
    let backup = run(&["backup", "--read-only", text(&pool), text(&out), "--json"]);
    assert!(backup.status.success(), "{backup:?}");
    assert!(files() == before, "a file has changed");
    let kept = run(&["backup", "--read-only", "--keep", "x", text(&pool), text(&out)]);
    assert_eq!(kept.status.code(), Some(2));
}

#[test]
fn the_doctor_looks_and_leaves_nothing() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let output = run(&["doctor", text(folder.path()), "--json"]);
    assert!(output.status.success(), "{output:?}");
    let findings = json(&output.stdout);
    assert_eq!(findings["path"], text(folder.path()));
    assert!(findings["fdatasync_us"].as_f64().is_some_and(|us| us > 0.0), "{findings}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn every_shell_gets_its_completions() {
    for shell in ["bash", "zsh", "fish"] {
        let output = run(&["completions", shell]);
        assert!(String::from_utf8(output.stdout).unwrap().contains("tembo"), "{shell}");
    }
}

#[test]
fn a_pool_keeps_its_index() {
    for made in ["cdds", "nvtree"] {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let pool = folder.path().join("a.pool");
        for asked in [made, "cdds", "nvtree"] {
            let server = Setup::new(&pool, &["--index", asked]).start();
            assert!(server.ready.contains(&format!("index {made}")), "{}", server.ready);
            assert!(server.client().call(&[b"SET", b"key", asked.as_bytes()]).is_ok());
            assert!(server.stop().success());
        }
        let stat = json(&run(&["stat", text(&pool), "--json"]).stdout);
        assert_eq!((&stat["index"], &stat["keys"]), (&made.into(), &1.into()));
    }
}

#[test]
fn a_volatile_server_makes_no_file() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let pool = folder.path().join("a.pool");
    let server = Setup::new(&pool, &["--domain", "volatile"]).start();
    let ready = &server.ready;
    assert!(ready.contains("domain volatile") && ready.contains("pool none"), "{ready}");
    assert!(server.client().call(&[b"PING"]).is_ok());
    assert!(!pool.exists());
    assert!(server.stop().success());
}

/// Three plain keys, one with an expiry, one in another database.
fn fill(pool: &Path) {
    let server = Setup::new(pool, &["--domain", "logged"]).start();
    assert!(server.ready.contains("domain logged") && server.ready.contains("sync always"));
    let mut client = server.client();
    client.call(&[b"SET", b"plain", b"value"]).unwrap();
    client.call(&[b"SET", b"\xff", b"\0\x80"]).unwrap();
    client.call(&[b"SET", b"later", b"", b"EXAT", b"4000000000"]).unwrap();
    client.call(&[b"SELECT", b"15"]).unwrap();
    client.call(&[b"SET", b"other", b""]).unwrap();
    assert!(server.stop().success());
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}
