//! The commands on pools that hold more than the store `main`: a heap beside it, a second store, or no store `main` at all.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, missing_docs, unreachable_pub)]

#[path = "driver/resp.rs"]
mod resp;
#[path = "driver/server.rs"]
mod server;

use std::path::Path;
use std::process::Output;
use std::sync::Arc;

use resp::Reply;
use serde_json::{Value, json};
use server::{Setup, run};
use tembo_heap::{Error, HeapFile, Persist, Ptr};
use tembo_kv::pool::Pool as Space;
use tembo_kv::{Durability, Options, Pool, PoolOptions};

/// Exit code of a damaged pool.
const CHECK_FAILED: i32 = 17;
/// Exit code of a pool that holds no such store.
const NO_STORE: i32 = 45;
/// Many enough to fill more than one chunk of the pool.
const BOOKS: u64 = 2000;

#[derive(Persist)]
#[persist(name = "Book")]
struct Book<'h> {
    number: u64,
    next: Option<Ptr<'h, Book<'h>>>,
}

#[derive(Persist)]
#[persist(name = "Rack")]
struct Rack<'h> {
    first: Option<Ptr<'h, Book<'h>>>,
}

fn options() -> Options {
    Options::new().size(4 << 20).log_size(8 << 20)
}

/// The options of a pool that may hold stores and heaps.
fn both_kinds() -> PoolOptions {
    let options = options().pool_options();
    PoolOptions { kinds: tembo_heap::kinds(options.kinds.clone()), ..options }
}

/// Makes a pool with these stores and, perhaps, a heap `books`.
fn make(path: &Path, stores: &[&str], heap: Option<&str>) {
    let space = Arc::new(Space::create(path, &both_kinds()).unwrap());
    let pool = Pool::of(space.clone(), &options());
    for name in stores {
        let store = pool.create_store(name, &options()).unwrap();
        let notes = store.keyspace("notes").unwrap();
        store.put(notes, b"of", name.as_bytes(), Durability::Strict).unwrap();
        store.sync().unwrap();
    }
    if let Some(name) = heap {
        let file = HeapFile::add_to(&space, name).unwrap();
        file.enter(|heap| {
            let rack = heap.root_or::<_, Error>(|_| Ok(Rack { first: None })).unwrap();
            heap.atomic(|tx| {
                for number in 0..BOOKS {
                    let next = tx.get(&rack, Rack::FIRST)?;
                    let book = tx.alloc(Book { number, next })?;
                    tx.set(&rack, Rack::FIRST, Some(book))?;
                }
                Ok::<_, Error>(())
            })
            .unwrap();
        });
        file.close().unwrap();
    }
    drop(space);
    pool.close().unwrap();
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The JSON of a command that succeeds.
fn done(words: &[&str]) -> Value {
    let output = run(words);
    assert!(output.status.success(), "{words:?}: {output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The text of a command that fails with that code.
fn refused(words: &[&str], code: i32) -> String {
    let Output { status, stderr, .. } = run(words);
    let said = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(code), "{words:?}: {said}");
    said
}

fn says(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "{part:?} is not in: {said}");
    }
}

/// All that the heap of a pool holds.
fn books(pool: &Path) -> Vec<u8> {
    let dump = run(&["heap", "dump", text(pool)]);
    assert!(dump.status.success(), "{dump:?}");
    assert_eq!(dump.stdout.iter().filter(|byte| **byte == b'\n').count() as u64, BOOKS + 1);
    dump.stdout
}

/// Bytes of a pool that its tenants take, as the library counts them.
fn taken(path: &Path) -> u64 {
    let space = Arc::new(Space::open(path, &both_kinds()).unwrap());
    let account = space.check().unwrap().account;
    Arc::into_inner(space).unwrap().close().unwrap();
    account.object_bytes
}

#[test]
fn a_heap_beside_the_store_is_checked_listed_and_kept() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let pool = folder.path().join("a.pool");
    make(&pool, &["main"], Some("books"));
    let (heap, used) = (books(&pool), taken(&pool));

    let check = done(&["check", text(&pool), "--json"]);
    assert_eq!((&check["bytes"]["leaked"], &check["faults"]), (&json!(0), &json!([])));
    assert_eq!(check["bytes"]["objects"], json!(used), "{check}");
    let beside = &check["beside"][0];
    assert_eq!((&beside[0], &beside[1]), (&json!("books"), &json!("heap")));
    assert!(beside[2].as_u64().unwrap() > BOOKS, "{beside}");
    let said = String::from_utf8(run(&["check", text(&pool)]).stdout).unwrap();
    assert!(!said.contains("not checked"), "{said}");

    let stat = done(&["stat", text(&pool), "--json"]);
    assert_eq!(stat["beside"], json!([["books", "heap"]]));
    assert_eq!(stat["keyspaces"], json!(["notes"]));

    let server = Setup::new(&pool, &[]).start();
    let mut client = server.client();
    assert_eq!(client.call(&[b"PING"]).unwrap(), Reply::Simple("PONG".into()));
    for number in 0..1000 {
        let key = format!("key{number}");
        let reply = client.call(&[b"SET", key.as_bytes(), &[b'v'; 200]]).unwrap();
        assert_eq!(reply, Reply::Simple("OK".into()));
    }
    assert!(server.stop().success());
    assert!(books(&pool) == heap, "the heap has changed");
    let lines = folder.path().join("lines");
    std::fs::write(&lines, "{\"keyspace\":\"0\",\"key\":\"loaded\",\"value\":\"v\"}\n").unwrap();
    assert_eq!(done(&["load", text(&pool), text(&lines), "--json"])["keys"], 1);
    let compacted = run(&["compact", text(&pool)]);
    assert!(compacted.status.success(), "{compacted:?}");
    assert!(books(&pool) == heap, "the heap has changed");
    assert_eq!(done(&["check", text(&pool), "--json"])["keys"], 1001);
}

#[test]
fn a_backup_of_a_pool_with_a_heap_says_what_it_leaves_out() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = |name: &str| folder.path().join(name);
    let (pool, saved) = (file("a.pool"), file("saved"));
    make(&pool, &["main"], Some("books"));
    let said = refused(&["backup", text(&pool), text(&saved)], 2);
    says(&said, &["books, a heap", "--store-only", "copy the closed pool file", "tembo check"]);
    assert!(!saved.exists());
    let words = ["backup", text(&pool), text(&saved), "--store-only", "--json"];
    assert_eq!(done(&words)["entries"], 1);
    let again = file("b.pool");
    assert!(run(&["restore", text(&again), text(&saved)]).status.success());
    assert_eq!(done(&["stat", text(&again), "--json"])["keyspaces"], json!(["notes"]));
}

/// Each store has a backup of its own; an incremental one begins with a name, which is the store's.
#[test]
fn each_store_of_a_pool_has_its_own_backup() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = |name: &str| folder.path().join(name);
    let (pool, saved, later) = (file("a.pool"), file("saved"), file("later"));
    make(&pool, &["main", "other"], None);
    let check = done(&["check", text(&pool), "--json"]);
    assert_eq!((&check["beside"][0][0], &check["bytes"]["leaked"]), (&json!("other"), &json!(0)));
    let said = refused(&["backup", text(&pool), text(&saved)], 2);
    let command = format!("tembo backup {} FILE --store-only --store other", text(&pool));
    says(&said, &["other, a store", &command]);
    let said = refused(&["backup", text(&pool), text(&saved), "--store", "other"], 2);
    let command = format!("tembo backup {} FILE --store-only --store main", text(&pool));
    says(&said, &["main, a store", &command]);

    let words = ["backup", text(&pool), text(&saved), "--store-only", "--store", "other"];
    assert!(run(&[&words[..], &["--keep", "last"]].concat()).status.success());
    let again = file("b.pool");
    assert!(run(&["restore", text(&again), text(&saved)]).status.success());
    let store = tembo_kv::Store::open_read_only(&again).unwrap();
    let notes = store.keyspace("notes").unwrap();
    assert_eq!(store.get(notes, b"of").unwrap(), Some(b"other".into()));

    // A backup is of one of them, and is no beginning for the other's.
    let since = ["--store-only", "--since", text(&saved)];
    let words = ["backup", text(&pool), text(&later)];
    assert_eq!(run(&[&words[..], &since].concat()).status.code(), Some(27));
    let words = ["backup", text(&pool), text(&later), "--store", "other"];
    let since = run(&[&words[..], &since].concat());
    assert!(since.status.success(), "{since:?}");

    let dir = folder.path().join("dir");
    std::fs::create_dir(&dir).unwrap();
    let server = Setup::new(&pool, &["--store", "other", "--backup-dir", text(&dir)]).start();
    let address = server.address.to_string();
    let backup = ["backup", "--server", &address, "one", "--json"];
    assert!(done(&backup)["version"].is_u64());
    std::fs::copy(&saved, dir.join("of-other")).unwrap();
    let backup = ["backup", "--server", &address, "two", "--since", "one"];
    assert!(run(&backup).status.success());
    let said = refused(&["backup", "--server", &address, "three", "--store", "other"], 2);
    says(&said, &["cannot be used with"]);
    assert!(server.stop().success());
}

#[test]
fn a_pool_without_the_store_main_says_what_it_holds() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = |name: &str| folder.path().join(name);
    let (heap, other, saved) = (file("heap.pool"), file("other.pool"), file("saved"));
    make(&heap, &[], Some("books"));
    make(&other, &["other"], None);
    for (pool, what) in [(&heap, "books, a heap"), (&other, "other, a store")] {
        let pool = text(pool);
        let commands: [&[&str]; 8] = [
            &["stat", pool],
            &["dump", pool],
            &["load", pool],
            &["backup", pool, text(&saved)],
            &["serve", "--pool", pool, "--port", "0"],
            &["serve", "--pool", pool, "--port", "0", "--read-only"],
            &["device", "list", pool],
            &["check", pool, "--store", "none"],
        ];
        for command in commands {
            let said = refused(command, NO_STORE);
            says(&said, &["holds no store named", what, "--store NAME"]);
            assert!(!said.contains("restore a backup"), "{said}");
        }
        let opened = tembo_kv::Store::open_read_only(Path::new(pool)).map(drop);
        assert!(
            matches!(&opened, Err(tembo_kv::Error::NoSuchStore { name }) if name == "main"),
            "{opened:?}"
        );
        let check = done(&["check", pool, "--json"]);
        assert_eq!((&check["bytes"]["leaked"], &check["faults"]), (&json!(0), &json!([])));
        assert_eq!(check["bytes"]["objects"], json!(taken(Path::new(pool))), "{check}");
        let holds = format!("{}, a {}", check["holds"][0][0], check["holds"][0][1]);
        assert_eq!(holds.replace('"', ""), what);
        assert!(check["holds"][0][2].as_u64().unwrap() > 0, "{check}");
    }
    // Its name is enough.
    let pool = text(&other);
    assert_eq!(done(&["stat", pool, "--store", "other", "--json"])["keyspaces"], json!(["notes"]));
    let check = done(&["check", pool, "--store", "other", "--json"]);
    assert_eq!(check["keyspaces"][0]["name"], "notes");
    let server = Setup::new(&other, &["--store", "other"]).start();
    let reply = server.client().call(&[b"SET", b"key", b"value"]).unwrap();
    assert_eq!(reply, Reply::Simple("OK".into()));
    assert!(server.stop().success());
    let dump = run(&["dump", pool, "--store", "other"]);
    says(&String::from_utf8(dump.stdout).unwrap(), &["key", "value"]);
    // A name makes no pool.
    let none = file("none.pool");
    let said = refused(&["load", text(&none), "--store", "other"], 20);
    assert!(!none.exists(), "{said}");
}

/// Damage is reported.
#[test]
fn a_heap_that_is_damaged_fails_the_check_of_its_pool() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let pool = folder.path().join("a.pool");
    for stores in [&["main"][..], &[]] {
        make(&pool, stores, Some("books"));
        let dump = String::from_utf8(books(&pool)).unwrap();
        let book = dump.lines().find(|line| line.contains("\"Book\"")).unwrap();
        let book: Value = serde_json::from_str(book).unwrap();
        let at = book["offset"].as_u64().unwrap() as usize;
        let mut bytes = std::fs::read(&pool).unwrap();
        // The count is the low part of the first word: see docs/formats/heap.md.
        assert_eq!(bytes[at], 1);
        bytes[at] = 0;
        std::fs::write(&pool, bytes).unwrap();
        let check = run(&["check", text(&pool)]);
        let said = String::from_utf8(check.stderr).unwrap();
        assert!(!check.status.success() && said.contains("a count"), "{said}");
        std::fs::remove_file(&pool).unwrap();
        let _ = std::fs::remove_file(pool.with_extension("pool.log"));
    }
    let empty = folder.path().join("empty.pool");
    make(&empty, &[], None);
    says(&refused(&["stat", text(&empty)], CHECK_FAILED), &["a store's root"]);
}
