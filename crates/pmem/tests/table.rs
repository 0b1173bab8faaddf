//! Which pages of a table are there, and who was the first to touch them.
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};

use tembo_pmem::Table;

const PAGE: usize = 4096;
const LARGE_PAGE: usize = 2 << 20;
/// Values in a page, in a large page.
const IN_PAGE: usize = PAGE / 8;
const IN_LARGE: usize = LARGE_PAGE / 8;

type Words = Table<AtomicU64>;

fn touch(word: &AtomicU64) {
    let _ = word.compare_exchange(0, 0, Ordering::Relaxed, Ordering::Relaxed);
}

/// How many of the pages that hold these values are in memory.
fn pages_there(table: &Words, values: std::ops::Range<usize>) -> usize {
    let pagemap = File::open("/proc/self/pagemap").unwrap();
    let is_there = |index: &usize| {
        let page = std::ptr::from_ref(table.get(*index).unwrap()).addr() / PAGE;
        let mut entry = [0; 8];
        pagemap.read_exact_at(&mut entry, page as u64 * 8).unwrap();
        u64::from_le_bytes(entry) >> 63 == 1
    };
    values.step_by(IN_PAGE).filter(is_there).count()
}

/// Uses values one after another; whoever prepares does so as soon as he is called. Gives the calls.
fn use_in_order(table: &Words, values: std::ops::Range<usize>) -> usize {
    let mut calls = 0;
    for index in values.step_by(IN_PAGE) {
        if table.reach(index) {
            table.prepare(touch);
            calls += 1;
        }
        assert!(!table.is_short());
        if index >= IN_LARGE {
            let ahead = index..index + IN_LARGE / 2;
            assert_eq!(pages_there(table, ahead.clone()), ahead.len() / IN_PAGE, "behind {index}");
        }
        table.get(index).unwrap().store(7, Ordering::Relaxed);
    }
    calls
}

#[test]
fn what_comes_into_use_is_ready_before() {
    let table = Words::new(8 * IN_LARGE, 0).unwrap();
    assert_eq!(use_in_order(&table, 0..4 * IN_LARGE), 4);
    // Preparing changes nothing.
    table.prepare(touch);
    let used = (0..4 * IN_LARGE).step_by(IN_PAGE);
    assert!(used.map(|at| table.get(at).unwrap().load(Ordering::Relaxed)).all(|word| word == 7));
}

#[test]
fn nothing_is_prepared_for_who_uses_little_or_twice() {
    let table = Words::new(8 * IN_LARGE, 0).unwrap();
    assert_eq!(use_in_order(&table, 0..IN_LARGE / 2), 0);
    table.prepare(touch);
    assert_eq!(pages_there(&table, 0..8 * IN_LARGE), IN_LARGE / 2 / IN_PAGE);
    assert_eq!(use_in_order(&table, 0..3 * IN_LARGE / 2), 1);
    let before = pages_there(&table, 0..8 * IN_LARGE);
    assert_eq!(use_in_order(&table, 0..3 * IN_LARGE / 2), 0);
    assert_eq!(pages_there(&table, 0..8 * IN_LARGE), before);
}

#[test]
fn who_comes_where_nothing_was_prepared_takes_a_small_page() {
    let table = Words::new(8 * IN_LARGE, 0).unwrap();
    for large in [1, 2, 6] {
        let at = large * IN_LARGE + 5 * IN_PAGE;
        assert!(table.reach(at));
        touch(table.get(at).unwrap());
        assert_eq!(pages_there(&table, large * IN_LARGE..(large + 1) * IN_LARGE), 1);
    }
    // What was passed is left; what comes next is made ready.
    touch(table.get(6 * IN_LARGE + IN_LARGE / 2).unwrap());
    assert!(table.reach(6 * IN_LARGE + IN_LARGE / 2));
    table.prepare(touch);
    assert_eq!(pages_there(&table, IN_LARGE..7 * IN_LARGE), 4);
    assert_eq!(pages_there(&table, 7 * IN_LARGE..8 * IN_LARGE), LARGE_PAGE / PAGE);
    assert!(!table.is_short());
}

#[test]
fn a_table_ends_where_it_ends() {
    for len in [0, 1, IN_LARGE, 2 * IN_LARGE - 1, 2 * IN_LARGE, 2 * IN_LARGE + 1] {
        let table = Words::new(len, len).unwrap();
        for index in [0, len / 2, len, usize::MAX] {
            table.reach(index);
            table.prepare(touch);
            assert!(!table.is_short(), "{index} of {len}");
        }
        let ready = if len >= 2 * IN_LARGE { LARGE_PAGE / PAGE } else { 0 };
        assert_eq!(pages_there(&table, 0..len), ready, "of {len}");
    }
}
