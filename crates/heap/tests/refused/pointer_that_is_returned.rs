//! A pointer is returned from the use of its heap.
use tembo_heap::{Error, HeapFile};

fn escape(file: &HeapFile) -> Result<(), Error> {
    let _escaped = file.enter(|heap| heap.atomic(|tx| tx.alloc(1_u64)))?;
    Ok(())
}

fn main() {
    let _ = escape;
}
