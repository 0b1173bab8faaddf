//! An atomic section in the layer SAFE: a checkpoint is all that it has.

use tembo_heap::{Error, HeapFile};

fn main() -> Result<(), Error> {
    let file = HeapFile::volatile(&Default::default())?;
    file.enter(|heap| {
        heap.safe(|heap| {
            heap.atomic(|heap| heap.alloc(1_u64).map(drop))
        })
    })
}
