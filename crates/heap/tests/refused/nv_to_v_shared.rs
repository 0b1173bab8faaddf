//! A pointer that is counted in memory.
#[derive(tembo_heap::Persist)]
struct Node {
    next: std::rc::Rc<u64>,
}

fn main() {}
