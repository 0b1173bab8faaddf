//! A system that gives no large pages. By itself: all of the process is told so.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rustix::thread::disable_transparent_huge_pages;
use tembo_pmem::Table;

#[test]
fn a_table_is_prepared_by_small_pages_where_there_are_no_large_ones() {
    disable_transparent_huge_pages(true).unwrap();
    let table = Table::<AtomicU64>::new(1 << 20, 1 << 20).unwrap();
    assert!(table.reach(1 << 18));
    let touched = AtomicUsize::new(0);
    table.prepare(|word: &AtomicU64| {
        word.fetch_add(1, Ordering::Relaxed);
        touched.fetch_add(1, Ordering::Relaxed);
    });
    // Each page of the next large page's worth, by its first word.
    assert_eq!(touched.into_inner(), 512);
    let is_touched = |index: &usize| table.get(*index).unwrap().load(Ordering::Relaxed) == 1;
    assert!((1 << 18..1 << 19).step_by(512).all(|index| is_touched(&index)));
    assert!(!table.is_short());
}
