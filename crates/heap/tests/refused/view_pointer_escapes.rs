//! A pointer of a view, which keeps nothing, is kept beyond its transaction.
use tembo_heap::{Error, HeapFile};

fn escape(file: &HeapFile) -> Result<(), Error> {
    file.enter(|heap| {
        let mut escaped = None;
        heap.atomic(|tx| {
            let mut view = tx.view();
            escaped = view.root::<u64>()?;
            Ok::<_, Error>(())
        })?;
        heap.atomic(|tx| tx.view().look(escaped.unwrap())?.get(tembo_heap::Field::at(0)))
    })
}

fn main() {
    let _ = escape;
}
