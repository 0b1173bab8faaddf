//! A cell, which changes without a transaction.
#[derive(tembo_heap::Persist)]
struct Node {
    count: std::cell::Cell<u64>,
}

fn main() {}
