//! A pointer from one heap to another.
use tembo_heap::{Error, HeapFile, Persist, Ptr};

#[derive(Persist)]
struct Node<'h> {
    next: Option<Ptr<'h, Node<'h>>>,
}

fn link(one: &HeapFile, two: &HeapFile) -> Result<(), Error> {
    one.enter(|one| {
        two.enter(|two| {
            let a = one.atomic(|tx| tx.alloc(Node { next: None }))?;
            let b = two.atomic(|tx| tx.alloc(Node { next: None }))?;
            two.atomic(|tx| tx.set(&b, Node::NEXT, Some(a.clone())))
        })
    })
}

fn main() {
    let _ = link;
}
