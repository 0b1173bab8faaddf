//! An object of a type that is not `Persist`.
use tembo_heap::{Error, HeapFile};

struct Plain;

fn main() {
    let file = HeapFile::volatile(&Default::default()).unwrap();
    file.enter(|heap| heap.atomic(|tx| tx.alloc(Plain).map(drop))).unwrap_or_else(|_: Error| ());
}
