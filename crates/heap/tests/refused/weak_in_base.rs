//! A weak pointer in the layer BASE: nothing is known there of what else refers to an object.

use tembo_heap::{Error, HeapFile};

fn main() -> Result<(), Error> {
    let file = HeapFile::volatile(&Default::default())?;
    file.base(|heap| {
        let object = heap.alloc(1_u64)?;
        heap.downgrade(&object).map(drop)
    })
}
