//! Which pages of a table are there, and which thread touched them first.
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};

use tembo_pmem::Table;

/// Pages in a large page.
const LARGE: usize = 512;

/// A table of pages.
type Pages = Table<Page>;
type Page = [AtomicU64; 512];

fn touch(page: &Page) {
    let _ = page[0].compare_exchange(0, 0, Ordering::Relaxed, Ordering::Relaxed);
}

/// How many of these pages are in memory.
fn count(table: &Pages, pages: Range<usize>) -> usize {
    let pagemap = File::open("/proc/self/pagemap").unwrap();
    let is_there = |index: &usize| {
        let number = std::ptr::from_ref(table.get(*index).unwrap()).addr() / size_of::<Page>();
        let mut entry = [0; 8];
        pagemap.read_exact_at(&mut entry, number as u64 * 8).unwrap();
        u64::from_le_bytes(entry) >> 63 == 1
    };
    pages.filter(is_there).count()
}

/// Uses pages one after another, and prefaults as soon as that is asked for; how often it was.
fn use_in_order(table: &Pages, pages: Range<usize>) -> usize {
    let mut calls = 0;
    for index in pages {
        if table.reach(index) {
            table.prefault(touch);
            calls += 1;
        }
        assert!(!table.is_short());
        if index >= LARGE {
            assert_eq!(count(table, index..index + LARGE / 2), LARGE / 2, "behind {index}");
        }
        table.get(index).unwrap()[0].store(7, Ordering::Relaxed);
    }
    calls
}

#[test]
fn what_comes_into_use_is_ready_before() {
    let table = Pages::new(8 * LARGE).unwrap();
    assert_eq!(use_in_order(&table, 0..4 * LARGE), 4);
    // Preparing changes nothing.
    table.prefault(touch);
    let mut used = (0..4 * LARGE).map(|at| table.get(at).unwrap()[0].load(Ordering::Relaxed));
    assert!(used.all(|word| word == 7));
}

#[test]
fn what_comes_into_use_in_an_old_table_is_ready_before() {
    let table = Pages::new(8 * LARGE).unwrap();
    table.expect(3 * LARGE, 3 * LARGE);
    assert_eq!(count(&table, 0..8 * LARGE), 0);
    assert!(!table.is_short());
    // The rest of the large page in which the old ones end has small pages.
    let from = 3 * LARGE + LARGE / 4;
    for index in from..4 * LARGE {
        if table.reach(index) {
            table.prefault(touch);
        }
    }
    assert_eq!(count(&table, 0..4 * LARGE), 0);
    use_in_order(&table, 4 * LARGE..6 * LARGE);
}

#[test]
fn nothing_is_prefaulted_where_little_is_used_or_twice() {
    let table = Pages::new(8 * LARGE).unwrap();
    assert_eq!(use_in_order(&table, 0..LARGE / 2), 0);
    table.prefault(touch);
    assert_eq!(count(&table, 0..8 * LARGE), LARGE / 2);
    assert_eq!(use_in_order(&table, 0..3 * LARGE / 2), 1);
    let before = count(&table, 0..8 * LARGE);
    assert_eq!(use_in_order(&table, 0..3 * LARGE / 2), 0);
    assert_eq!(count(&table, 0..8 * LARGE), before);
}

#[test]
fn nothing_is_prefaulted_where_few_of_many_are_used() {
    for (step, is_worth_it) in [(3, true), (5, false)] {
        let table = Pages::new(8 * LARGE).unwrap();
        let used = (0..4 * LARGE).step_by(step);
        for index in used.clone() {
            if table.reach(index) {
                table.prefault(touch);
            }
            touch(table.get(index).unwrap());
            assert!(!table.is_short());
        }
        let expected = if is_worth_it { LARGE.div_ceil(step) + 4 * LARGE } else { used.len() };
        assert_eq!(count(&table, 0..8 * LARGE), expected, "every {step}");
    }
}

#[test]
fn a_page_that_was_not_prefaulted_is_small() {
    let table = Pages::new(8 * LARGE).unwrap();
    for large in [1, 2, 6] {
        let at = large * LARGE + 5;
        assert!(table.reach(at));
        touch(table.get(at).unwrap());
        assert_eq!(count(&table, large * LARGE..(large + 1) * LARGE), 1);
    }
    // What was passed is left; what comes next is made ready.
    (6 * LARGE..6 * LARGE + LARGE / 2).for_each(|index| {
        table.reach(index);
    });
    table.prefault(touch);
    assert_eq!(count(&table, LARGE..7 * LARGE), 3);
    table.reach(6 * LARGE + LARGE / 2);
    table.prefault(touch);
    assert_eq!((count(&table, LARGE..7 * LARGE), count(&table, 7 * LARGE..8 * LARGE)), (3, LARGE));
}

#[test]
fn a_table_ends_where_it_ends() {
    for len in [0, 1, LARGE, 2 * LARGE - 1, 2 * LARGE, 2 * LARGE + 1] {
        let table = Pages::new(len).unwrap();
        table.expect(usize::MAX, usize::MAX);
        for index in (0..len).chain([usize::MAX]) {
            table.reach(index);
            table.prefault(touch);
            assert!(!table.is_short(), "{index} of {len}");
        }
        let ready = if len >= 2 * LARGE { LARGE } else { 0 };
        assert_eq!(count(&table, 0..len), ready, "of {len}");
    }
}
