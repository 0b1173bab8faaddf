//! A change that no transaction knows of.
use tembo_heap::{Error, HeapFile};

fn change(file: &HeapFile) -> Result<(), Error> {
    file.enter(|heap| {
        let object = heap.atomic(|tx| tx.alloc(1_u64))?;
        *object = 7;
        Ok(())
    })
}

fn main() {
    let _ = change;
}
