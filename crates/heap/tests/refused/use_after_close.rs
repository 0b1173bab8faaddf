//! A pointer outlives the use of its heap.
use tembo_heap::{Error, HeapFile};

fn escape(file: &HeapFile) {
    let mut escaped = None;
    file.enter(|heap| escaped = heap.atomic::<_, Error>(|tx| tx.alloc(1_u64)).ok());
}

fn main() {
    let _ = escape;
}
