//! A field that is to be left out.
#[derive(tembo_heap::Persist)]
struct Node {
    value: u64,
    #[persist(skip)]
    cached: u64,
}

fn main() {}
