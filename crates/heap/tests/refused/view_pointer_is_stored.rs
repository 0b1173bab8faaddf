//! A pointer of a view is stored without being kept first.
use tembo_heap::{Error, HeapFile, Persist, Ptr};

#[derive(Persist)]
struct Node<'h> {
    next: Option<Ptr<'h, Node<'h>>>,
}

fn store(file: &HeapFile) -> Result<(), Error> {
    file.enter(|heap| {
        heap.atomic(|tx| {
            let mut view = tx.view();
            let root = view.root::<Node<'_>>()?;
            let _ = Node { next: root };
            Ok::<_, Error>(())
        })
    })
}

fn main() {
    let _ = store;
}
