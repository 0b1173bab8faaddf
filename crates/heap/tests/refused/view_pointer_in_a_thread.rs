//! A pointer of a view is given to a thread that may outlive the transaction.
use tembo_heap::{Error, HeapFile};

fn give(file: &HeapFile) -> Result<(), Error> {
    file.enter(|heap| {
        heap.atomic(|tx| {
            let mut view = tx.view();
            let root = view.root::<u64>()?;
            std::thread::spawn(move || drop(root));
            Ok::<_, Error>(())
        })
    })
}

fn main() {
    let _ = give;
}
