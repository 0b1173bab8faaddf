//! A transaction is kept for the next one: it ends with its closure, and no reference into the heap exists.
use tembo_heap::{Error, HeapFile, Ptr, Transaction};

struct Cursor<'t, 'h> {
    tx: &'t mut Transaction<'h>,
    at: Ptr<'h, u64>,
}

fn keep(file: &HeapFile) -> Result<u64, Error> {
    file.enter(|heap| {
        let at = heap.atomic(|tx| tx.alloc(1_u64))?;
        let cursor = heap.atomic(|tx| Ok::<_, Error>(Cursor { tx, at: at.clone() }))?;
        cursor.tx.read(&cursor.at)
    })
}

fn main() {
    let _ = keep;
}
