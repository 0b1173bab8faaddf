//! A vector of the standard library.
#[derive(tembo_heap::Persist)]
struct Scores {
    all: Vec<u64>,
}

fn main() {}
