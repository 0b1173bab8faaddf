//! A field of another object's type.
use tembo_heap::{Error, HeapFile, Persist};

#[derive(Persist)]
struct One {
    value: u64,
}

#[derive(Persist)]
struct Two {
    value: u64,
}

fn set(file: &HeapFile) -> Result<(), Error> {
    file.enter(|heap| {
        let object = heap.atomic(|tx| tx.alloc(One { value: 1 }))?;
        heap.atomic(|tx| tx.set(&object, Two::VALUE, 2))
    })
}

fn main() {
    let _ = set;
}
