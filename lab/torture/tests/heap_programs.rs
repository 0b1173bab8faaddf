//! The audit of programs on a heap, proven: a heap that holds what its programs make passes, and another does not.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicU64, Ordering};

use tembo_heap::{HeapFile, PoolOptions};
use tembo_torture::heap_programs::{Audit, serve};

const THREADS: u16 = 3;
const SEED: u64 = 5;

/// Runs programs up to so many of each thread; the last that each has reported.
fn run(file: &HeapFile, seed: u64, most: u64) -> Vec<Option<u64>> {
    let last: Vec<AtomicU64> = (0..THREADS).map(|_| AtomicU64::new(0)).collect();
    let report = |thread: u16, number| {
        last[usize::from(thread)].store(number, Ordering::SeqCst);
        number < most
    };
    serve(file, THREADS, seed, &report).unwrap();
    last.into_iter().map(|number| Some(number.into_inner())).collect()
}

fn heap() -> HeapFile {
    HeapFile::volatile(&PoolOptions { size: 4 << 20, ..PoolOptions::default() }).unwrap()
}

#[test]
fn what_the_programs_make_passes() {
    let (file, mut audit) = (heap(), Audit::new(SEED));
    audit.follow(&file, &[]).unwrap();
    for most in [150, 400] {
        let reported = run(&file, SEED, most);
        audit.follow(&file, &reported).unwrap();
        assert_eq!(audit.programs(), most * u64::from(THREADS));
    }
    // All of it at once; one program of each thread may have been made without being reported.
    let reported = vec![Some(399); THREADS.into()];
    Audit::new(SEED).follow(&file, &reported).unwrap();
}

#[test]
fn what_is_lost_or_made_otherwise_is_found() {
    let file = heap();
    let reported = run(&file, SEED, 100);
    let with = |thread: usize, last| {
        let mut reported = reported.clone();
        reported[thread] = Some(last);
        Audit::new(SEED).follow(&file, &reported).unwrap_err()
    };
    let lost = with(1, 101);
    assert!(lost.contains("thread 1 has reported program 101"), "{lost}");
    let more = with(2, 98);
    assert!(more.contains("but 100 is there"), "{more}");
    let other = Audit::new(SEED + 1).follow(&file, &reported).unwrap_err();
    assert!(other.contains("and its programs make"), "{other}");
    // Ten programs of another seed.
    let reported = run(&file, SEED + 1, 110);
    let otherwise = Audit::new(SEED).follow(&file, &reported).unwrap_err();
    assert!(otherwise.contains("and its programs make"), "{otherwise}");
    assert!(Audit::new(SEED).follow(&heap(), &reported).unwrap_err().contains("the root is gone"));
}
