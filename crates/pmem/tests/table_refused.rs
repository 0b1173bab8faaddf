//! A system that gives no large pages. This test is a program of its own, for the refusal holds for the whole process.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::thread::disable_transparent_huge_pages;
use tembo_pmem::Table;

#[test]
fn a_table_is_prefaulted_by_small_pages_where_there_are_no_large_ones() {
    disable_transparent_huge_pages(true).unwrap();
    let table = Table::<[AtomicU64; 512]>::new(2048).unwrap();
    (0..=512).for_each(|index| {
        table.reach(index);
    });
    assert!(table.is_short());
    table.prefault(|page| page[0].store(1, Ordering::Relaxed));
    let is_touched = |index: &usize| table.get(*index).unwrap()[0].load(Ordering::Relaxed) == 1;
    let touched: Vec<usize> = (0..2048).filter(is_touched).collect();
    assert_eq!(touched, (512..1024).collect::<Vec<_>>());
    assert!(!table.is_short());
}
