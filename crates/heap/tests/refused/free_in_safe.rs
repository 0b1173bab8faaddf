//! Free in the layer SAFE: objects go when nothing refers to them, and only then.

use tembo_heap::{Error, HeapFile};

fn main() -> Result<(), Error> {
    let file = HeapFile::volatile(&Default::default())?;
    file.enter(|heap| {
        heap.safe(|heap| {
            let object = heap.alloc(1_u64)?;
            heap.free(object)
        })
    })
}
