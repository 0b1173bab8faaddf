//! A reference in an object.
#[derive(tembo_heap::Persist)]
struct Node<'h, 'a> {
    next: &'a u64,
    own: tembo_heap::Ptr<'h, u64>,
}

fn main() {}
