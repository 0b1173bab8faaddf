//! A collection of the standard library.
use std::collections::HashMap;

#[derive(tembo_heap::Persist)]
struct Node {
    names: HashMap<u64, u64>,
}

fn main() {}
