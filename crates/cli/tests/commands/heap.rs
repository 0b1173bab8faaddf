//! `tembo heap` on a small heap: three books on a rack.

use std::path::Path;

use serde_json::Value;
use tembo_heap::{Error, HeapFile, Persist, PoolOptions, Ptr, Weak};
use tembo_pmem::SyncPolicy;

use crate::server::run;
use crate::{json, text};

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

#[derive(Persist)]
#[persist(name = "Node")]
struct Node<'h> {
    other: Option<Ptr<'h, Node<'h>>>,
    below: Option<Ptr<'h, Node<'h>>>,
    seen: Option<Weak<'h, Node<'h>>>,
}

fn make(path: &Path) {
    let mut options = PoolOptions { size: 1 << 20, ..PoolOptions::default() };
    options.region.log_size = 2 << 20;
    let file = HeapFile::create(path, &options).unwrap();
    file.enter(|heap| {
        let rack = heap.root_or::<_, Error>(|_| Ok(Rack { first: None })).unwrap();
        for number in 1..=3 {
            heap.atomic(|tx| {
                let next = tx.get(&rack, Rack::FIRST)?;
                let book = tx.alloc(Book { number, next })?;
                tx.set(&rack, Rack::FIRST, Some(book))
            })
            .unwrap();
        }
    });
    file.close().unwrap();
}

fn lines(words: &[&str]) -> Vec<Value> {
    let output = run(words);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(|line| json(line.as_bytes())).collect()
}

#[test]
fn a_heap_is_listed_counted_dumped_and_checked() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let pool = folder.path().join("heap.pool");
    make(&pool);
    let before = std::fs::read(&pool).unwrap();

    let types = lines(&["heap", "ls", text(&pool), "--json"]);
    let of = |name: &str| types.iter().find(|one| one["name"] == name).unwrap();
    assert_eq!((&of("Book")["objects"], &of("Rack")["objects"]), (&3.into(), &1.into()));

    let dump = lines(&["heap", "dump", text(&pool)]);
    let books: Vec<&Value> = dump.iter().filter(|one| one["type"] == "Book").collect();
    let bytes = |all: &[&Value]| all.iter().map(|one| one["bytes"].as_u64().unwrap()).sum::<u64>();
    assert_eq!(Some(bytes(&books)), of("Book")["bytes"].as_u64());
    assert!(dump.iter().all(|one| one["references"] == 1 && one["waits"] == false), "{dump:?}");

    // From the rack on, by the offsets that stand for pointers.
    let rack = dump.iter().find(|one| one["type"] == "Rack").unwrap();
    let (mut numbers, mut at) = (Vec::new(), &rack["value"]["first"]);
    while !at.is_null() {
        let book = books.iter().find(|book| book["offset"] == *at).unwrap();
        numbers.push(book["value"]["number"].as_u64().unwrap());
        at = &book["value"]["next"];
    }
    assert_eq!(numbers, [3, 2, 1]);

    // The root refers to the rack, the rack to the first book, each book to the next.
    let referrers = |one: &Value| {
        let words = ["heap", "refs", text(&pool), &one["offset"].to_string(), "--json"];
        lines(&words).into_iter().map(|found| found["offset"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(referrers(rack), [Value::Null]);
    for book in &books {
        let refers = |one: &&Value| {
            let value = &one["value"];
            [&value["first"], &value["next"]].contains(&&book["offset"])
        };
        let expected: Vec<Value> =
            dump.iter().filter(refers).map(|one| one["offset"].clone()).collect();
        assert_eq!((referrers(book), expected.len()), (expected, 1));
    }
    let nothing = run(&["heap", "refs", text(&pool), "7"]);
    assert_eq!(nothing.status.code(), Some(2), "{nothing:?}");

    let stat = &lines(&["heap", "stat", text(&pool), "--json"])[0];
    assert_eq!((&stat["objects"], &stat["pool"]), (&4.into(), &text(&pool).into()));
    assert_eq!(stat["object_bytes"], bytes(&dump.iter().collect::<Vec<_>>()));
    let check = &lines(&["heap", "check", text(&pool), "--json"])[0];
    assert_eq!((&check["waiting"], &check["leaked"]), (&0.into(), &0.into()));
    assert_eq!(check["cyclic"], 0);
    assert!(std::fs::read(&pool).unwrap() == before, "a command that only reads has written");
}

/// The numbers of the books on the rack, from the first on.
fn numbers(path: &Path) -> Vec<u64> {
    let file = HeapFile::open(path, &PoolOptions::default()).unwrap();
    let numbers = file.enter(|heap| {
        heap.atomic(|tx| {
            let (mut numbers, rack) = (Vec::new(), tx.root::<Rack<'_>>()?.unwrap());
            let mut at = tx.get(&rack, Rack::FIRST)?;
            while let Some(book) = at {
                numbers.push(tx.get(&book, Book::NUMBER)?);
                at = tx.get(&book, Book::NEXT)?;
            }
            Ok::<_, Error>(numbers)
        })
    });
    file.close().unwrap();
    numbers.unwrap()
}

#[test]
fn a_heap_is_compacted() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let pool = folder.path().join("heap.pool");
    make(&pool);
    let mut options = PoolOptions::default();
    options.region.sync = SyncPolicy::Os;
    let file = HeapFile::open(&pool, &options).unwrap();
    file.enter(|heap| {
        heap.sweep().unwrap();
        let rack = heap.root::<Rack<'_>>().unwrap().unwrap();
        for batch in 0..60 {
            heap.atomic(|tx| {
                for number in 0..1000 {
                    let next = tx.get(&rack, Rack::FIRST)?;
                    let book = tx.alloc(Book { number: 4 + 1000 * batch + number, next })?;
                    tx.set(&rack, Rack::FIRST, Some(book))?;
                }
                Ok::<_, Error>(())
            })
            .unwrap();
        }
        // Most of them less: one of ten that lie in a row stays.
        let mut at = heap.atomic(|tx| tx.get(&rack, Rack::FIRST)).unwrap();
        while let Some(book) = at {
            at = heap
                .atomic(|tx| {
                    let mut next = tx.get(&book, Book::NEXT)?;
                    for _ in 0..9 {
                        next = next.map(|next| tx.get(&next, Book::NEXT)).transpose()?.flatten();
                    }
                    tx.set(&book, Book::NEXT, next.clone())?;
                    Ok::<_, Error>(next)
                })
                .unwrap();
        }
    });
    file.close().unwrap();
    let before = numbers(&pool);
    let compacted = &lines(&["heap", "compact", text(&pool), "--json"])[0];
    let of = |name: &str| compacted[name].as_u64().unwrap();
    assert!(of("moved") > 5000 && of("moved_bytes") > 100_000, "{compacted}");
    assert!(2 * of("bytes_after") < of("bytes_before"), "{compacted}");
    assert_eq!(of("bytes_after"), std::fs::metadata(&pool).unwrap().len());
    assert_eq!(numbers(&pool), before);
    let check = &lines(&["heap", "check", text(&pool), "--json"])[0];
    assert_eq!((&check["waiting"], &check["leaked"]), (&0.into(), &0.into()));
    // Once more: nothing is left to be done.
    let again = run(&["heap", "compact", text(&pool)]);
    assert!(again.status.success(), "{again:?}");
    let said = String::from_utf8(again.stdout).unwrap();
    assert!(said.lines().any(|line| line.starts_with("objects moved") && line.ends_with(" 0")));
}

/// The format keeps no list of what is allocated, so nothing on media can be leaked: what damage does is to make a count wrong.
#[test]
fn a_count_that_is_wrong_is_found() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let pool = folder.path().join("heap.pool");
    make(&pool);
    let dump = lines(&["heap", "dump", text(&pool)]);
    let book = dump.iter().find(|one| one["type"] == "Book").unwrap();
    let at = book["offset"].as_u64().unwrap() as usize;
    let mut bytes = std::fs::read(&pool).unwrap();
    // The count is the low part of the first word: see docs/formats/heap.md.
    assert_eq!(bytes[at], 1);
    bytes[at] = 0;
    std::fs::write(&pool, bytes).unwrap();
    let check = run(&["heap", "check", text(&pool)]);
    assert!(!check.status.success(), "{check:?}");
    let said = String::from_utf8(check.stderr).unwrap();
    assert!(said.contains("a count") && said.contains(&format!("{at:#x}")), "{said}");
}

/// The root is seen by itself, weakly; two nodes that refer to each other, and one of them to the root, are garbage.
#[test]
fn cycles_and_weak_pointers_are_said_and_a_heap_is_found_by_its_name() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("two.pool");
    let mut options = PoolOptions { size: 1 << 20, ..PoolOptions::default() };
    options.region.log_size = 2 << 20;
    let first = HeapFile::create(&path, &options).unwrap();
    let second = HeapFile::add_to(first.pool(), "second").unwrap();
    second.enter(|heap| {
        let empty = || Node { other: None, below: None, seen: None };
        let root = heap.root_or::<_, Error>(|_| Ok(empty())).unwrap();
        heap.atomic(|tx| {
            let seen = tx.downgrade(&root)?;
            tx.set(&root, Node::SEEN, Some(seen))?;
            let one = tx.alloc(Node { below: Some(root.clone()), ..empty() })?;
            let other = tx.alloc(Node { other: Some(one.clone()), ..empty() })?;
            tx.set(&one, Node::OTHER, Some(other))
        })
        .unwrap();
    });
    second.close().unwrap();
    first.close().unwrap();

    let of = |command: &str, words: &[&str]| {
        lines(&[&["heap", command, text(&path)], words, &["--json"]].concat())
    };
    let named = ["--name", "second"];
    assert_eq!(of("check", &[])[0]["cyclic"], 0);
    assert_eq!(of("check", &named)[0]["cyclic"], 1);
    assert!(of("ls", &[]).iter().all(|one| one["name"] != "Node"));
    let ls = of("ls", &named);
    let node = ls.iter().find(|one| one["name"] == "Node").unwrap();
    assert_eq!((&node["objects"], &node["version"]), (&1.into(), &0.into()));
    let dump = of("dump", &named);
    let root = dump.iter().find(|one| one["type"] == "Node").unwrap()["offset"].to_string();
    let refs = of("refs", &["--name", "second", &root]);
    let found: Vec<_> = refs.iter().map(|one| (one["offset"].is_null(), &one["weak"])).collect();
    assert_eq!(found, [(true, &false.into()), (false, &true.into())]);
    let missing = run(&["heap", "ls", text(&path), "--name", "third"]);
    assert!(!missing.status.success() && !missing.stderr.is_empty(), "{missing:?}");
}
