//! A checkpoint within a transaction, of which a part would be durable by itself.

use tembo_heap::{Error, HeapFile};

fn main() -> Result<(), Error> {
    let file = HeapFile::volatile(&Default::default())?;
    file.enter(|heap| {
        heap.atomic(|tx| {
            tx.alloc(1_u64)?;
            tx.checkpoint()
        })
    })
}
