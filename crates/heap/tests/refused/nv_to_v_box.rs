//! A pointer from the heap to memory: a box.
#[derive(tembo_heap::Persist)]
struct Node {
    next: Box<u64>,
}

fn main() {}
