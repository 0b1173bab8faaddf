//! A heap whose pool is protected from stray stores: all that it stores lies in sections, and a transaction costs two system calls.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use tembo_heap::{Error, HeapFile, PMap, PString, PVec, Persist, PoolOptions, Ptr};
use tembo_pmem::SyncPolicy;

#[derive(Persist)]
struct Top<'h> {
    number: u64,
    map: PMap<'h, PString<'h>>,
    list: PVec<'h, Ptr<'h, Leaf>>,
}

#[derive(Persist)]
struct Leaf {
    value: u64,
}

fn options() -> PoolOptions {
    let mut options = PoolOptions { size: 1 << 20, ..PoolOptions::default() };
    options.region.size_max = 64 << 20;
    options.region.sync = SyncPolicy::Os;
    options.region.protect = true;
    options
}

/// Changes a heap in all layers, by threads too; it grows meanwhile.
fn work(file: &HeapFile) {
    file.enter(|heap| {
        let top = || Top { number: 0, map: PMap::new(), list: PVec::new() };
        let top = heap.root_or::<_, Error>(|_| Ok(top())).unwrap();
        let fill = |from: u64| {
            for number in from..from + 400 {
                heap.atomic(|tx| {
                    let name = PString::new(tx, "a".repeat(2000))?;
                    top.field(Top::MAP).insert(tx, number.to_string(), name)?;
                    let leaf = tx.alloc(Leaf { value: number })?;
                    top.field(Top::LIST).push(tx, leaf)
                })
                .unwrap();
            }
        };
        std::thread::scope(|scope| [0, 1000].map(|from| scope.spawn(move || fill(from))).map(drop));
        for number in (0..400).filter(|number| number % 8 > 0) {
            heap.atomic(|tx| top.field(Top::MAP).remove(tx, number.to_string())).unwrap();
        }
        heap.safe(|heap| {
            let leaf = heap.alloc(Leaf { value: 7 })?;
            top.field(Top::LIST).push(heap, leaf)?;
            heap.checkpoint()
        })
        .unwrap();
        while !heap.compact(50).unwrap().is_done {}
        let (before, region) =
            (heap.pool().region().report().protection_calls, heap.pool().region());
        for number in 0..100 {
            heap.atomic(|tx| tx.set(&top, Top::NUMBER, number + 1)).unwrap();
            heap.atomic(|tx| tx.get(&top, Top::NUMBER)).unwrap();
        }
        assert_eq!(
            region.report().protection_calls - before,
            200,
            "two for each that changes something"
        );
    });
    file.base(|heap| {
        let top = heap.root::<Top<'_>>()?.unwrap();
        heap.set(&top, Top::NUMBER, 3)?;
        heap.checkpoint()
    })
    .unwrap();
    file.enter(|heap| heap.settle()).unwrap();
    let check = file.check().unwrap();
    assert_eq!((check.account.leaked, check.account.dangling), (0, 0));
}

#[test]
fn a_heap_in_memory_stores_in_sections_only() {
    work(&HeapFile::volatile(&options()).unwrap());
}

#[test]
fn a_heap_in_a_file_stores_in_sections_only_and_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.heap");
    let file = HeapFile::create(&path, &options()).unwrap();
    work(&file);
    // As by a crash: the log is replayed into pages that are protected.
    drop(file);
    let file = HeapFile::open(&path, &options()).unwrap();
    file.enter(|heap| heap.sweep()).unwrap();
    work(&file);
    file.close().unwrap();
}
