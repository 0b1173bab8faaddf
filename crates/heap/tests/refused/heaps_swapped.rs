//! A transaction of one heap reads an object of the other.
use tembo_heap::{Error, HeapFile};

fn read(one: &HeapFile, two: &HeapFile) -> Result<u64, Error> {
    one.enter(|one| {
        two.enter(|two| {
            let a = one.atomic(|tx| tx.alloc(1_u64))?;
            two.atomic(|tx| tx.read(&a))
        })
    })
}

fn main() {
    let _ = read;
}
