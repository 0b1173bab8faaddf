//! What the process does until it is killed.

use std::path::Path;
use std::time::Duration;

use tembo_heap::Heap;
use tembo_kv::{DomainRequest, Error, Store};

use super::{HEAPS, Sweeper, find_or_add, heap, open, start, store};
use crate::judge::text;

/// Transactions of a heap between two parts of the collection of cycles, and of a compaction; objects that a part looks into or moves.
const TRANSACTIONS: u64 = 16;
const BUDGET: usize = 8;

/// Gets each change that is durable: `store`, or the heap's name, and the change's number.
type Report<'r> = &'r (dyn Fn(&str, u64) + Sync);

/// Changes the pool at `path`, which is made if there is none, until the process is killed. Each part goes on behind the number that it
/// finds. `seed` decides what begins the sweep.
///
/// # Errors
/// What went wrong.
pub fn serve(
    path: &Path,
    domain: DomainRequest,
    seed: u64,
    report: Report<'_>,
) -> Result<(), String> {
    let sweeper = Sweeper::of(seed);
    let pool = open(path, domain)?;
    let has_background = !matches!(sweeper, Sweeper::Heap(_));
    let store = start(&pool, domain, has_background)?;
    let files = [find_or_add(&pool, HEAPS[0])?, find_or_add(&pool, HEAPS[1])?];
    std::thread::scope(|scope| {
        for (which, file) in files.iter().enumerate() {
            if sweeper == Sweeper::Heap(which) {
                scope.spawn(move || end(file.enter(|heap| heap.sweep().map(drop)).map_err(text)));
            }
            scope.spawn(move || end(file.enter(|heap| change_heap(heap, which, report))));
        }
        end(change_store(&store, has_background, report));
    });
    Ok(())
}

/// An error of a thread ends the process, so that it does not go on without the thread until it is killed.
fn end(ended: Result<(), String>) {
    if let Err(what) = ended {
        eprintln!("{what}");
        std::process::exit(1);
    }
}

fn change_store(store: &Store, has_background: bool, report: Report<'_>) -> Result<(), String> {
    let space = store.keyspace("x").map_err(text)?;
    let mut number = store::show(store, space)?.number;
    loop {
        match store::change(store, space, number + 1) {
            Ok(()) => {
                number += 1;
                report("store", number);
            }
            // A process that is killed before its sweep has ended leaves little room to the next, until its sweep.
            Err(Error::Full(_)) => std::thread::sleep(Duration::from_millis(1)),
            Err(error) => return Err(text(error)),
        }
        if !has_background {
            store.maintain(1).map_err(text)?;
        }
    }
}

fn change_heap(heap: Heap<'_>, which: usize, report: Report<'_>) -> Result<(), String> {
    let mut number = heap::number(heap).map_err(text)?;
    loop {
        match heap::change(heap, which, number + 1) {
            Ok(()) => {
                number += 1;
                report(HEAPS[which], number);
            }
            Err(tembo_heap::Error::Pool(tembo_pool::Error::PoolFull { .. })) => {
                heap.settle().map_err(text)?;
                std::thread::yield_now();
            }
            Err(error) => return Err(text(error)),
        }
        if number.is_multiple_of(TRANSACTIONS) {
            heap.collect_cycles(BUDGET).map_err(text)?;
            heap.compact(BUDGET).map_err(text)?;
        }
    }
}
