//! A list as a program writes it without a heap.
#[derive(tembo_heap::Persist)]
struct Node {
    value: u64,
    next: Option<Box<Node>>,
}

fn main() {}
