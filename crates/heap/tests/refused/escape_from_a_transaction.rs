//! A transaction escapes from its closure.
use tembo_heap::{Error, HeapFile};

fn escape(file: &HeapFile) -> Result<(), Error> {
    file.enter(|heap| {
        let mut escaped = None;
        heap.atomic(|tx| {
            escaped = Some(tx);
            Ok::<_, Error>(())
        })
    })
}

fn main() {
    let _ = escape;
}
