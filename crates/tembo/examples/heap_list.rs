//! The thesis's linked list (NV-heaps, figure 4.2): a list that is there again.
//!
//! `cargo run --example heap_list -- list.pool 1 2 3`

use std::path::Path;

use tembo::heap::{Error, Heap, Persist, Ptr};

#[derive(Persist)]
struct List<'h> {
    head: Option<Ptr<'h, Node<'h>>>,
}

#[derive(Persist)]
struct Node<'h> {
    value: i64,
    next: Option<Ptr<'h, Node<'h>>>,
}

fn insert<'h>(heap: Heap<'h>, list: &Ptr<'h, List<'h>>, value: i64) -> Result<(), Error> {
    heap.atomic(|tx| {
        let next = tx.get(list, List::HEAD)?;
        let node = tx.alloc(Node { value, next })?;
        tx.set(list, List::HEAD, Some(node))
    })
}

fn show<'h>(heap: Heap<'h>, list: &Ptr<'h, List<'h>>) -> Result<Vec<i64>, Error> {
    heap.atomic(|tx| {
        let (mut values, mut at) = (Vec::new(), tx.get(list, List::HEAD)?);
        while let Some(node) = at {
            let Node { value, next } = tx.read(&node)?;
            values.push(value);
            at = next;
        }
        Ok(values)
    })
}

pub(crate) fn run(path: &Path, words: &[String]) -> Result<String, Error> {
    Heap::open(path, |heap| {
        let list = heap.root_or::<_, Error>(|_| Ok(List { head: None }))?;
        for value in words.iter().filter_map(|word| word.parse().ok()) {
            insert(heap, &list, value)?;
        }
        Ok(format!("{:?}", show(heap, &list)?))
    })
}

#[allow(clippy::print_stdout)]
fn main() -> Result<(), Error> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (path, words) = words.split_first().ok_or(Error::NoRoot)?;
    println!("{}", run(Path::new(path), words)?);
    Ok(())
}
