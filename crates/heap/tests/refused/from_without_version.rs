//! A type that follows from another one, of which it does not say that it is newer.
#[derive(tembo_heap::Persist)]
#[persist(name = "node")]
struct Old {
    value: u64,
}

#[derive(tembo_heap::Persist)]
#[persist(name = "node", from = Old)]
struct Node {
    value: u64,
    more: u64,
}

impl From<Old> for Node {
    fn from(old: Old) -> Node {
        Node { value: old.value, more: 0 }
    }
}

fn main() {}
