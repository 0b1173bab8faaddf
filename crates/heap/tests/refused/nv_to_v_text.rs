//! A pointer from the heap to memory: a text that owns memory.
#[derive(tembo_heap::Persist)]
struct Node {
    name: String,
}

fn main() {}
