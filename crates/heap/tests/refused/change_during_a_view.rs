//! An object is changed while a pointer of a view, which keeps nothing, is to be followed.
use tembo_heap::{Error, HeapFile, Persist, Ptr};

#[derive(Persist)]
struct Node<'h> {
    next: Option<Ptr<'h, Node<'h>>>,
}

fn change(file: &HeapFile) -> Result<(), Error> {
    file.enter(|heap| {
        let node = heap.atomic(|tx| tx.alloc(Node { next: None }))?;
        heap.atomic(|tx| {
            let mut view = tx.view();
            let at = view.at(&node)?;
            let next = view.follow(at, Node::NEXT)?;
            tx.set(&node, Node::NEXT, None)?;
            next.map_or(Ok(()), |next| view.look(next).map(drop))
        })
    })
}

fn main() {
    let _ = change;
}
