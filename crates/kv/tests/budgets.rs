//! Fences and lines are budgets, whatever the machine: those of a store over the NV-Tree and over the hash index, the
//! structure's own changes included.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use tembo_kv::{Durability, IndexKind, Keyspace, Options, Progress, Store};
use tembo_pmem::Counters;

const KINDS: [IndexKind; 2] = [IndexKind::Nvtree, IndexKind::Hash];

/// With one version that has been, so that the version limit is raised.
fn store(index: IndexKind, size: u64) -> (Store, Keyspace) {
    let options = Options::new().index(index).background(false).size(size).size_max(size);
    let store = Store::volatile(&options).unwrap();
    while store.maintain(64).unwrap() == Progress::More {}
    let space = store.keyspace("x").unwrap();
    store.put(space, b"warm", &[0; 100], Durability::Buffered).unwrap();
    (store, space)
}

/// Fences and lines of what is done.
fn cost(work: impl FnOnce()) -> (u64, u64) {
    let before = Counters::thread();
    work();
    let cost = Counters::thread() - before;
    (cost.fences, cost.lines)
}

#[test]
fn a_single_change_inline_costs_one_fence_and_one_line() {
    KINDS.into_iter().for_each(single_inline);
}

fn single_inline(index: IndexKind) {
    let (store, space) = store(index, 16 << 20);
    for i in 0..10u64 {
        let key = i.to_be_bytes();
        let put = |value: u64| {
            store.put(space, &key, &value.to_le_bytes(), Durability::Buffered).unwrap()
        };
        assert_eq!(cost(|| assert!(!put(1))), (1, 1), "insert {i}");
        assert_eq!(cost(|| assert!(put(2))), (1, 1), "update {i}");
        assert_eq!(cost(|| assert!(store.get(space, &key).unwrap().is_some())), (0, 0));
        let remove = || store.remove(space, &key, Durability::Buffered).unwrap();
        assert_eq!(cost(|| assert!(remove())), (1, 1), "removal {i}");
        assert_eq!(cost(|| assert!(!remove())), (0, 0), "removal of nothing {i}");
    }
}

#[test]
fn a_single_change_out_of_line_costs_two_fences_and_its_record() {
    KINDS.into_iter().for_each(single_out_of_line);
}

fn single_out_of_line(index: IndexKind) {
    let (store, space) = store(index, 16 << 20);
    for len in [9, 40, 100, 1024, 10_000] {
        let (key, value) = (format!("key of {len:08} bytes").into_bytes(), vec![7; len]);
        // Lengths, key and value; a record need not begin at a line.
        let record = (8 + key.len() + len) as u64;
        // The first of its size takes a chunk, for which the frontier may rise. Its key is as long, or it could be a block.
        let another = key.to_ascii_uppercase();
        store.put(space, &another, &value, Durability::Buffered).unwrap();
        let put = || {
            store.put(space, &key, &value, Durability::Buffered).unwrap();
        };
        for round in ["insert", "update"] {
            let (fences, lines) = cost(put);
            assert_eq!(fences, 2, "{round} of {len}");
            let least = record.div_ceil(64) + 1;
            assert!((least..=least + 1).contains(&lines), "{round} of {len}: {lines} lines");
        }
        let (fences, lines) =
            cost(|| assert!(store.remove(space, &key, Durability::Buffered).unwrap()));
        assert!(fences <= 2 && lines <= 3, "removal of {len}: {fences} fences, {lines} lines");
    }
}

#[test]
fn a_group_of_n_costs_two_fences_and_n_lines_and_the_commit_word() {
    KINDS.into_iter().for_each(group);
}

fn group(index: IndexKind) {
    let (store, space) = store(index, 16 << 20);
    // So many fit into one leaf.
    for n in [1u64, 2, 10, 30] {
        let commit = |value: u64| {
            let mut tx = store.exclusive().unwrap();
            for i in 0..n {
                let key = (n << 32 | i << 8 | 7).to_be_bytes();
                tx.put(space, &key, &value.to_le_bytes()).unwrap();
            }
            tx.commit(Durability::Buffered).unwrap();
        };
        assert_eq!(cost(|| commit(1)), (2, n + 1), "inserts");
    }
}

/// Lines of a leaf of 1 KiB, its header among them, and the link.
const SPLIT_LINES_MAX: u64 = 16 + 1;

/// Splits and everything included; and no single insert costs more than a split and an element: growth is in steps of one
/// leaf.
#[test]
fn a_million_random_inserts_cost_what_the_budget_says() {
    KINDS.into_iter().for_each(million_inserts);
}

fn million_inserts(index: IndexKind) {
    const COUNT: u64 = 1_000_000;
    let (store, space) = store(index, 256 << 20);
    let (mut state, mut fences, mut lines, mut lines_max) = (88_172_645_463_325_252u64, 0, 0, 0);
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for i in 0..COUNT {
        let key = random().to_be_bytes();
        let put = || {
            store.put(space, &key, &i.to_le_bytes(), Durability::Buffered).unwrap();
        };
        let cost = cost(put);
        (fences, lines) = (fences + cost.0, lines + cost.1);
        lines_max = lines_max.max(cost.1);
    }
    let each = |sum: u64| sum as f64 / COUNT as f64;
    println!(
        "{}: {:.4} fences, {:.4} lines, {lines_max} at most",
        index.name(),
        each(fences),
        each(lines)
    );
    assert!(each(fences) <= 1.04 && each(lines) <= 1.4);
    assert!(lines_max <= 1 + SPLIT_LINES_MAX, "{lines_max} lines for one insert");
    store.check().unwrap();
}
