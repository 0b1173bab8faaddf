//! A parameter that cannot live in a heap, where the type is used.
use tembo_heap::{Error, HeapFile, Persist};

#[derive(Persist)]
struct Holder<T> {
    value: T,
}

fn main() -> Result<(), Error> {
    let file = HeapFile::volatile(&Default::default())?;
    file.enter(|heap| heap.atomic(|tx| tx.alloc(Holder { value: vec![1_u64] }).map(drop)))
}
