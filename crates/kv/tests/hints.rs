//! What is prepared in the background for the next open, and what that leaves alone.
#![allow(clippy::unwrap_used)]

use std::ops::Range;
use std::path::PathBuf;

use tembo_kv::{Durability, IndexKind, Keyspace, Options, Progress, Store};
use tembo_pool::Geometry;

/// A file that goes with the test.
struct File(PathBuf);

impl File {
    fn new(name: &str) -> File {
        let name = format!("tembo-prepare-{}-{name}", std::process::id());
        let file = File(std::env::temp_dir().join(name));
        file.remove();
        file
    }

    fn remove(&self) {
        for end in ["", ".log"] {
            let _ = std::fs::remove_file(format!("{}{end}", self.0.display()));
        }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        self.remove();
    }
}

/// The kinds that find what they keep in memory again by the hints in a pool.
const WITH_HINTS: [IndexKind; 2] = [IndexKind::Nvtree, IndexKind::Hash];

fn options(index: IndexKind, background: bool) -> Options {
    Options::new().index(index).background(background).geometry(Geometry::TINY).size(8 << 20)
}

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn put(store: &Store, space: Keyspace, numbers: Range<u64>) {
    for number in numbers {
        let value = number.to_le_bytes();
        store.put(space, &key(number), &value, Durability::Buffered).unwrap();
    }
    store.sync().unwrap();
}

fn expect(store: &Store, space: Keyspace, numbers: Range<u64>) {
    for number in numbers {
        let found = store.get(space, &key(number)).unwrap();
        assert_eq!(found.as_deref(), Some(number.to_le_bytes().as_slice()), "{number}");
    }
}

/// How many bytes of the pool are taken, when all is done.
fn maintain(store: &Store) -> u64 {
    while store.maintain(64).unwrap() == Progress::More {}
    let check = store.check().unwrap();
    assert_eq!(check.leaked, 0);
    store.report().used_bytes
}

#[test]
fn every_byte_is_accounted_for_whatever_hints_there_were() {
    for index in WITH_HINTS {
        let file = File::new("bytes");
        let mut store = Store::create(&file.0, &options(index, false)).unwrap();
        let mut space = store.keyspace("x").unwrap();
        maintain(&store);
        let mut end = 0;
        for _ in 0..8 {
            put(&store, space, end..end + 900);
            end += 900;
            // Nothing more to write, and nothing that waits to be given back.
            assert_eq!(maintain(&store), maintain(&store));
            drop(store);
            store = Store::open(&file.0, &options(index, false)).unwrap();
            space = store.keyspace("x").unwrap();
            // Some are found, and others put, before there has been a marking.
            expect(&store, space, 0..end / 2);
            put(&store, space, end..end + 300);
            end += 300;
            expect(&store, space, 0..end);
        }
        maintain(&store);
    }
}

#[test]
fn a_store_that_works_in_the_background_answers_right_meanwhile() {
    for index in WITH_HINTS {
        let file = File::new("background");
        let mut store = Store::create(&file.0, &options(index, true)).unwrap();
        let mut space = store.keyspace("x").unwrap();
        let mut end = 0;
        for _ in 0..10 {
            put(&store, space, end..end + 1500);
            end += 1500;
            expect(&store, space, end - 1500..end);
            drop(store);
            store = Store::open(&file.0, &options(index, true)).unwrap();
            space = store.keyspace("x").unwrap();
            expect(&store, space, 0..end);
        }
        assert_eq!(store.check().unwrap().leaked, 0);
    }
}

#[test]
fn a_snapshot_from_before_a_rollback_sees_what_is_split_after_it() {
    for index in WITH_HINTS {
        let store = Store::volatile(&options(index, false)).unwrap();
        let space = store.keyspace("x").unwrap();
        maintain(&store);
        put(&store, space, 0..300);
        let snapshot = store.snapshot().unwrap();
        put(&store, space, 300..600);
        store.rollback(snapshot.version()).unwrap();
        put(&store, space, 600..4000);
        for number in 0..300_u64 {
            let found = snapshot.get(space, &key(number)).unwrap().map(|value| value.to_vec());
            assert_eq!(found.as_deref(), Some(number.to_le_bytes().as_slice()), "{number}");
        }
    }
}
