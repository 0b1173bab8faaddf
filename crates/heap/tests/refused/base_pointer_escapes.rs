//! A pointer of the layer BASE, which keeps nothing, in another use of the same heap.

use tembo_heap::{Error, HeapFile};

fn main() -> Result<(), Error> {
    let file = HeapFile::volatile(&Default::default())?;
    file.enter(|heap| {
        let mut escaped = None;
        file.base(|base| {
            escaped = Some(base.alloc(1_u64)?);
            Ok::<(), Error>(())
        })?;
        let object = escaped.ok_or(Error::NoRoot)?;
        heap.atomic(|tx| tx.read(&object).map(drop))
    })
}
