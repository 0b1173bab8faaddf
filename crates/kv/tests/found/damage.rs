//! Damaged words that a review has named. Where they stand: docs/formats.

use tembo_kv::{Durability, Error, Store};
use tembo_pool::Geometry;

use super::bench::{directory, ends, fill, key, options, tiny};
use super::image::{ROOT_WORD, closed, judge, object, patch, word};

/// What the store says to an image with words changed by `damage`; no hang, no panic.
fn after(what: &str, damage: impl FnOnce(&mut Vec<u8>)) -> Result<(), Error> {
    let mut image = closed();
    damage(&mut image);
    ends(what, move || judge(&image)).unwrap_or_else(|panic| panic!("{what}: {panic}"))
}

fn refused(what: &str, damage: impl FnOnce(&mut Vec<u8>)) {
    assert!(after(what, damage).is_err(), "{what}: not noticed");
}

/// Of the store, of its catalogue's root cell, of the catalogue's root node.
fn store_root(image: &[u8]) -> usize {
    let at = object(word(image, ROOT_WORD));
    assert_eq!(&image[at..at + 8], b"TEMBO-KV");
    at
}

fn patch_root(image: &mut [u8], at: usize, value: u64) {
    let root = store_root(image);
    patch(image, root + at, value);
}

fn root_node(image: &[u8]) -> (u64, usize) {
    let cell = object(word(image, store_root(image) + 8));
    assert_eq!(&image[cell + 8..cell + 16], b"CDDSCEL2");
    let node = word(image, cell);
    assert_eq!(&image[object(node) + 4..object(node) + 8], b"CDDS");
    (node, object(node))
}

#[test]
fn an_undamaged_pool_is_read() {
    after("undamaged", |_| {}).unwrap();
}

#[test]
fn a_limit_of_versions_that_cannot_be_is_refused() {
    let limits = [0, 1, 3, 1 << 56, (1 << 56) + 5, (1 << 56) - 1, u64::MAX - 70_000, u64::MAX];
    for limit in limits {
        refused(&format!("version limit {limit}"), |image| patch_root(image, 16, limit));
    }
}

#[test]
fn a_commit_word_that_cannot_be_is_refused() {
    for committed in [0, 1 << 55, 1 << 56, u64::MAX] {
        refused(&format!("committed {committed}"), |image| patch_root(image, 64, committed));
    }
    // Lanes that were never used.
    for lane in 1..8 {
        let damage = |image: &mut Vec<u8>| patch_root(image, 64 + 64 * lane, !0);
        refused(&format!("committed in lane {lane}"), damage);
    }
}

#[test]
fn a_dead_interval_that_cannot_be_is_refused() {
    // The sixth slot, which is empty.
    let slot = 576 + 32 * 5;
    for kind in [9, 77, 255, 257, 1 << 32, u64::MAX - 1] {
        refused(&format!("kind {kind}"), |image| patch_root(image, slot + 24, kind));
    }
    for (from, to) in [(9, 3), (0, u64::MAX), (u64::MAX, u64::MAX), (3, 1 << 56)] {
        let damage = |image: &mut Vec<u8>| {
            patch_root(image, slot, from);
            patch_root(image, slot + 8, to);
            patch_root(image, slot + 24, u64::MAX);
        };
        refused(&format!("dead from {from} to {to}"), damage);
    }
}

#[test]
fn a_chain_of_roots_without_end_ends() {
    // Since versions that are not asked for, since ones that are, and since a void one.
    for since in [1, 1 << 8 | 1, 1 << 60 | 1, u64::MAX, !0 << 8] {
        let what = format!("the root before is the root, since {since:#x}");
        let _ = after(&what, |image| {
            let (node, at) = root_node(image);
            patch(image, at + 24, since);
            patch(image, at + 32, node);
        });
    }
}

#[test]
fn a_node_of_level_255_that_is_its_own_child_is_no_tree() {
    for level in [255, 127, 1, 2] {
        let what = format!("level {level}");
        refused(&what, |image| {
            let (node, at) = root_node(image);
            let shape = word(image, at);
            patch(image, at, shape & !0x7f | level);
            for entry in (at + 64..at + 192).step_by(32) {
                if word(image, entry + 24) != 0 {
                    patch(image, entry, u64::MAX);
                    patch(image, entry + 8, node);
                }
            }
        });
    }
}

#[test]
fn a_node_with_more_entries_than_it_has_room_for_is_refused() {
    for capacity in [0, 3, 5, 30, 255] {
        refused(&format!("a capacity of {capacity}"), |image| {
            let (_, at) = root_node(image);
            let shape = word(image, at);
            patch(image, at, shape & !0xff00 | capacity << 8);
        });
    }
}

#[test]
fn nodes_too_small_for_a_tree_are_refused_and_others_work() {
    for node_size in [64, 128, 192, 256, 1024] {
        let what = format!("nodes of {node_size} bytes");
        let options = tiny(1 << 20).geometry(Geometry { chunk_size: 4096, node_size });
        let work = move || -> Result<usize, Error> {
            let store = Store::volatile(&options)?;
            let space = store.keyspace("a")?;
            for i in 0..200 {
                store.put(space, &key(i), b"v", Durability::Buffered)?;
            }
            store.check()?;
            let there = |i: &u64| store.get(space, &key(*i)).is_ok_and(|value| value.is_some());
            Ok((0..200).filter(there).count())
        };
        match ends(&what, work) {
            Ok(count) => assert_eq!(count, 200, "{what}"),
            Err(error) => assert!(node_size < 192, "{what}: {error}"),
        }
    }
}

#[test]
fn a_pool_that_has_lost_its_root_word_is_refused() {
    assert!(
        after("no root", |image| patch(image, ROOT_WORD, 0)).is_err(),
        "an empty store instead"
    );
    let directory = directory("lost-root");
    let options = options(4 << 20, 64 << 20);
    let store = Store::create(&directory.pool(), &options).unwrap();
    fill(&store, store.keyspace("a").unwrap(), 0..1000, b"v");
    store.close().unwrap();
    let mut bytes = std::fs::read(directory.pool()).unwrap();
    patch(&mut bytes, ROOT_WORD, 0);
    std::fs::write(directory.pool(), &bytes).unwrap();
    assert!(Store::open(&directory.pool(), &options).is_err());
    assert_eq!(word(&std::fs::read(directory.pool()).unwrap(), ROOT_WORD), 0);
}
